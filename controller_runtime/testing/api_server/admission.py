"""Checks of new objects and deletions that look at other objects. Relies on the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller_runtime.testing.api_server.core import Core
from controller_runtime.testing.api_server.refusals import bad_request, forbidden, not_found
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.values import Object

_IMMORTAL = ("default", "kube-system", "kube-public")


def check_namespace(core: Core, route: Route, metadata: Mapping[str, Any]) -> None:
    """The namespace of body and path agree, and it is there to take new objects.

    Raises:
        RefusalError: 400, 403, 404.
    """
    if not route.kind.resource.namespaced:
        return
    if metadata.get("namespace") not in (None, "", route.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    stored = core.store.shelf(("", "namespaces")).objects.get(route.namespace)
    if stored is None:
        raise not_found("", "namespaces", route.namespace)
    if stored.fields["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {route.namespace} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {route.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(route.kind.group, route.kind.plural, str(metadata.get("name", "")), why, [cause])


def check_service_account(core: Core, route: Route, item: Object) -> None:
    """A pod's service account is there; `default` is believed to be, since no controller makes it here.

    Raises:
        RefusalError: 403.
    """
    if route.kind.shelf != ("", "pods"):
        return
    name = (item.get("spec") or {}).get("serviceAccountName") or "default"
    accounts = core.store.shelf(("", "serviceaccounts")).objects
    if name != "default" and f"{route.namespace}/{name}" not in accounts:
        why = f'error looking up service account {route.namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden("", "pods", str(item["metadata"].get("name", "")), why)


def check_deletion(route: Route) -> None:
    """Some namespaces stay.

    Raises:
        RefusalError: 403.
    """
    if route.kind.shelf == ("", "namespaces") and route.name in _IMMORTAL:
        raise forbidden("", "namespaces", route.name, "this namespace may not be deleted")
