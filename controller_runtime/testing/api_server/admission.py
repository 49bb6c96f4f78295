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


def check_quotas(core: Core, route: Route, item: Object) -> None:
    """A new pod is within its namespace's quotas, as far as these limit the number of pods.

    Counted as it is now: no controller writes the quotas' statuses here.

    Raises:
        RefusalError: 403.
    """
    quotas = core.store.shelf(("", "resourcequotas")).objects
    if route.kind.shelf != ("", "pods") or not quotas:
        return
    prefix = f"{route.namespace}/"
    pods = [stored.fields for stored in core.namespace_objects(route.kind, route.namespace)]
    for key in sorted(key for key in quotas if key.startswith(prefix)):
        spec = quotas[key].fields.get("spec") or {}
        hard = (spec.get("hard") or {}).get("pods")
        if hard is None or not _is_in_scope(spec, item):
            continue
        used = sum(_is_in_scope(spec, pod) and not _has_ended(pod) for pod in pods)
        if used + 1 > int(hard):
            name = key.removeprefix(prefix)
            why = f"exceeded quota: {name}, requested: pods=1, used: pods={used}, limited: pods={hard}"
            raise forbidden("", "pods", str(item["metadata"].get("name", "")), why)


def _is_in_scope(quota: Mapping[str, Any], pod: Object) -> bool:
    bounded = (pod.get("spec") or {}).get("activeDeadlineSeconds") is not None
    return all(bounded if scope == "Terminating" else not bounded for scope in _scopes(quota))


def _scopes(quota: Mapping[str, Any]) -> list[str]:
    return [scope for scope in quota.get("scopes") or () if scope in ("Terminating", "NotTerminating")]


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def check_deletion(route: Route) -> None:
    """Some namespaces stay.

    Raises:
        RefusalError: 403.
    """
    if route.kind.shelf == ("", "namespaces") and route.name in _IMMORTAL:
        raise forbidden("", "namespaces", route.name, "this namespace may not be deleted")
