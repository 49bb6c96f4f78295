"""Create, replace and patch: from a body to a new version, or a refusal.

Relies on strategies for what is special about a kind, and on `objects` for patches, apply and managed fields. The
order of steps is the real server's: preconditions, what the client may not set, defaults, generation, validation; a
write that changes nothing stores nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller_runtime.testing.api_server import admission
from controller_runtime.testing.api_server import metadata as meta
from controller_runtime.testing.api_server.bodies import (
    PATCHES,
    check_unknown_fields,
    decoded_object,
    decoded_patch,
    dry_run,
)
from controller_runtime.testing.api_server.core import Core, served
from controller_runtime.testing.api_server.deletion import Deletions
from controller_runtime.testing.api_server.ownership import Ownership
from controller_runtime.testing.api_server.refusals import (
    MODIFIED,
    FieldProblem,
    RefusalError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    plain_error,
)
from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.values import ApiRequest, Object

Observer = Callable[[ResourceType, Stored], None]
"""Told of each object of a kind after it was written."""


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome: the object as stored (or as it would be, in a dry run), and whether it is new."""

    stored: Stored
    created: bool
    warnings: tuple[str, ...] = ()


class Writes:
    """Creates and changes objects."""

    def __init__(self, core: Core, deletions: Deletions) -> None:
        self._core = core
        self._deletions = deletions
        self._ownership = Ownership(enabled=core.managed_fields)
        self.observers: dict[tuple[str, str], Observer] = {}
        """By shelf: who is told after a write, such as the maker of custom resources after a CRD's."""

    # --- create -----------------------------------------------------------------------------------------------------

    def create(self, route: Route, request: ApiRequest) -> Written:
        """POST to a collection."""
        body = decoded_object(route.kind, request)
        return self._create(route, body, request)

    def _create(self, route: Route, body: Object, request: ApiRequest, *, applied: bool = False) -> Written:
        kind, core = route.kind, self._core
        strategy = kind.strategy.of_apply if applied else kind.strategy
        moment = core.moment(request.user)
        item = kind.to_stored({name: value for name, value in body.items() if name not in ("apiVersion", "kind")})
        metadata = dict(item.get("metadata") or {})
        admission.check_namespace(self._core, route, metadata)
        admission.check_service_account(self._core, route, item)
        if metadata.get("resourceVersion") and not applied:
            raise plain_error("resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = core.generated_name(str(metadata["generateName"]))
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink", "resourceVersion"):
            metadata.pop(name, None)
        metadata |= {"uid": core.new_uid(), "creationTimestamp": moment.stamp}
        if strategy.generation:
            metadata["generation"] = 1
        if kind.resource.namespaced:
            metadata["namespace"] = route.namespace
        item["metadata"] = meta.tidy(metadata)
        warnings = check_unknown_fields(kind, item, request)
        strategy.default(item)
        if not applied:
            item = self._ownership.after_write(kind, None, item, request, moment, subresource="")
        strategy.prepare_create(item, moment)
        found = [*meta.problems(kind.kind, item["metadata"]), *strategy.validate_create(item)]
        name = item["metadata"].get("name", "")
        if found:
            raise _warned(invalid(kind.shelf[0], kind.kind, name, found), warnings)
        admission.check_quotas(core, route, item)
        named = Route(kind, route.namespace, name)
        if core.find(kind, named.key) is not None:
            raise already_exists(kind.group, kind.plural, name)
        strategy.complete(item)
        return Written(self._store(named, item, request), created=True, warnings=warnings)

    # --- change -----------------------------------------------------------------------------------------------------

    def replace(self, route: Route, request: ApiRequest) -> Written:
        """PUT an object or its subresource."""
        kind = route.kind
        body = decoded_object(kind, request)
        if not body["metadata"].get("name"):
            said = f"the name of the object ({route.name} based on URL) was undeterminable: name must be provided"
            raise bad_request(said)
        self._check_names(route, body)
        old = self._core.find(kind, route.key)
        if old is None:
            if kind.strategy.creates_on_update and not route.subresource:
                body["metadata"].pop("resourceVersion", None)
                return self._create(route, body, request)
            raise not_found(kind.group, kind.plural, route.name)
        item = kind.to_stored({name: value for name, value in body.items() if name not in ("apiVersion", "kind")})
        metadata = item["metadata"]
        _check_uid(route, metadata, old)
        if not metadata.get("resourceVersion"):
            if not kind.strategy.unconditional:
                problem = FieldProblem(
                    "metadata.resourceVersion",
                    "FieldValueInvalid",
                    "Invalid value: 0: must be specified for an update",
                )
                # The real server names the plural here.
                raise invalid(kind.group, kind.plural, route.name, [problem])
        elif metadata["resourceVersion"] != str(old.version):
            raise conflict(kind.group, kind.plural, route.name, MODIFIED)
        return self._change(route, old, item, request)

    def patch(self, route: Route, request: ApiRequest) -> Written:
        """PATCH an object or its subresource; an apply may create it."""
        kind = route.kind
        patch_type = PATCHES.get(request.content_type.partition(";")[0].strip())
        patch = decoded_patch(kind, request, patch_type)
        old = self._core.find(kind, route.key)
        if patch_type == "apply":
            return self._apply(route, old, patch, request)
        if old is None:
            raise not_found(kind.group, kind.plural, route.name)
        before = served(kind, old.fields)
        after = self._ownership.patched(route, before, patch, patch_type or "")
        self._check_names(route, after)
        item = kind.to_stored({name: value for name, value in after.items() if name not in ("apiVersion", "kind")})
        version = item["metadata"].get("resourceVersion")
        if version and not str(version).isdigit():
            raise plain_error(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version and version != str(old.version):
            raise conflict(kind.group, kind.plural, route.name, MODIFIED)
        return self._change(route, old, item, request)

    def _apply(self, route: Route, old: Stored | None, applied: Object, request: ApiRequest) -> Written:
        kind = route.kind
        moment = self._core.moment(request.user)
        metadata = applied.setdefault("metadata", {})
        metadata.setdefault("name", route.name)
        if route.namespace:
            metadata.setdefault("namespace", route.namespace)
        self._check_names(route, applied)
        if old is None and route.subresource:
            raise not_found(kind.group, kind.plural, route.name)
        live = served(kind, old.fields) if old is not None else None
        merged = self._ownership.applied(kind, live, applied, request, moment, route.subresource)
        if old is None:
            if metadata.get("uid"):
                why = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
                raise conflict(kind.group, kind.plural, route.name, why)
            return self._create(route, merged, request, applied=True)
        item = kind.to_stored({name: value for name, value in merged.items() if name not in ("apiVersion", "kind")})
        if metadata.get("resourceVersion") and metadata["resourceVersion"] != str(old.version):
            raise conflict(kind.group, kind.plural, route.name, MODIFIED)
        return self._change(route, old, item, request, applied=True)

    def _check_names(self, route: Route, body: Object) -> None:
        metadata = body.get("metadata")
        if not isinstance(metadata, dict):
            metadata = body["metadata"] = {}
        name = metadata.get("name")
        if not name:
            metadata["name"] = route.name
        elif name != route.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
        if metadata.get("namespace") not in (None, "", route.namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")

    def _change(
        self, route: Route, old: Stored, item: Object, request: ApiRequest, *, applied: bool = False
    ) -> Written:
        kind = route.kind
        strategy = kind.strategy.of_apply if applied else kind.strategy
        moment = self._core.moment(request.user)
        before = old.fields
        found = list(meta.change_problems(item["metadata"], before["metadata"]))
        if found:
            # The real server checks twice, and its causes show it.
            found += found
            raise invalid(kind.group, kind.kind, route.name, found)
        item["metadata"] = meta.carried_over(item["metadata"], before["metadata"])
        if kind.resource.namespaced:
            item["metadata"]["namespace"] = route.namespace
        warnings = check_unknown_fields(kind, item, request)
        strategy.prepare_update(item, before, route.subresource)
        item["metadata"] = meta.tidy(item["metadata"])
        if strategy.generation and strategy.spec_changed(item, before):
            item["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        found = [
            *meta.problems(kind.kind, item["metadata"]),
            *strategy.validate_update(item, before, route.subresource),
        ]
        if found:
            raise _warned(invalid(kind.group, kind.kind, route.name, found), warnings)
        if not applied:
            item = self._ownership.after_write(kind, before, item, request, moment, subresource=route.subresource)
        if _unchanged(item, before):
            return Written(old, created=False, warnings=warnings)
        if self._deletions.ends_with(item, before):
            if dry_run(request):
                return Written(Stored(item, old.version), created=False)
            self._deletions.remove(kind, route.key)
            return Written(Stored(item, old.version), created=False)
        stored = self._store(Route(kind, route.namespace, route.name), item, request, old)
        return Written(stored, created=False, warnings=warnings)

    def _store(self, route: Route, item: Object, request: ApiRequest, old: Stored | None = None) -> Stored:
        if dry_run(request):
            metadata = {name: value for name, value in item["metadata"].items() if name != "resourceVersion"}
            if old is not None:
                metadata["resourceVersion"] = str(old.version)
            return Stored({**item, "metadata": metadata}, 0 if old is None else old.version)
        stored = self._core.store.put(route.kind.shelf, route.key, item)
        observer = self.observers.get(route.kind.shelf)
        if observer is not None:
            observer(route.kind, stored)
        return stored


def _warned(refusal: RefusalError, warnings: tuple[str, ...]) -> RefusalError:
    refusal.warnings = warnings
    return refusal


def _check_uid(route: Route, metadata: Mapping[str, Any], old: Stored) -> None:
    uid = metadata.get("uid")
    if uid and uid != old.uid:
        where = f"{route.kind.group}/{route.kind.plural}" if route.kind.custom else route.kind.plural
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{where}/{route.key}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {old.uid}"
        )
        raise conflict(route.kind.group, route.kind.plural, route.name, why)


def _unchanged(item: Object, before: Object) -> bool:
    """Equal but for the times of managed fields and for the version a client may have sent."""
    if item.keys() != before.keys():
        return False
    if any(item[name] != before[name] for name in item if name != "metadata"):
        return False
    return _comparable(item["metadata"]) == _comparable(before["metadata"])


def _comparable(metadata: Object) -> Object:
    plain = {name: value for name, value in metadata.items() if name not in ("resourceVersion", "managedFields")}
    managed = metadata.get("managedFields")
    if managed:
        plain["managedFields"] = [{name: value for name, value in entry.items() if name != "time"} for entry in managed]
    return plain
