"""Custom resources: from a CRD to resources that are served, with schema, defaults, pruning and validation.

Relies on `objects.schemas`. A CRD is established at once; deleting it deletes its objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from controller_runtime.testing.api_server.core import Core
from controller_runtime.testing.api_server.deletion import DeleteOptions, Deletions
from controller_runtime.testing.api_server.objects.merge_schema import MergeSchema
from controller_runtime.testing.api_server.objects.schemas import StructuralSchema
from controller_runtime.testing.api_server.refusals import FieldProblem
from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.strategy import Moment, Strategy, keep, stamp, text
from controller_runtime.testing.api_server.values import Object
from controller_runtime.transport import Resource

CRD_SHELF = ("apiextensions.k8s.io", "customresourcedefinitions")
_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, eq=False)
class CustomVersion:
    """One served version of a CRD."""

    list_kind: str
    openapi: Object
    """Its `openAPIV3Schema`."""
    columns: tuple[Object, ...]
    """Its `additionalPrinterColumns`."""

    @cached_property
    def schema(self) -> StructuralSchema:
        """For pruning, defaults and validation."""
        return StructuralSchema.from_crd(self.openapi)

    @cached_property
    def merge_schema(self) -> MergeSchema:
        """How its lists and maps merge."""
        return MergeSchema.from_crd(self.openapi)


class CustomStrategy(Strategy):
    """What a CRD says of its objects."""

    unknown_field = "field label not supported: {0}"
    status_keeps_metadata = True

    def __init__(self, version: CustomVersion, head: Object, *, status: bool, selectable: Sequence[str]) -> None:
        readers = {path.removeprefix("."): text(*path.removeprefix(".").split(".")) for path in selectable}
        super().__init__(
            generation=True, status=status, selectable=readers, unconditional=False, creates_on_update=True
        )
        self._version = version
        self._head = head

    def prepare_create(self, item: Object, moment: Moment) -> None:
        """Without status, pruned, with defaults."""
        super().prepare_create(item, moment)
        self._shape(item)

    def prepare_update(self, item: Object, old: Object, subresource: str) -> None:
        """Pruned, with defaults; the other half as it was."""
        if subresource == "status":
            self._shape(item)
        super().prepare_update(item, old, subresource)
        if not subresource:
            self._shape(item)
            if self.status:
                keep(item, old, "status")

    def spec_changed(self, item: Object, old: Object) -> bool:
        """Without a status subresource the status counts too."""
        if super().spec_changed(item, old):
            return True
        return not self.status and item.get("status") != old.get("status")

    def validate_create(self, item: Object) -> Sequence[FieldProblem]:
        """Against the schema."""
        return self._problems(item)

    def validate_update(self, item: Object, old: Object, subresource: str) -> Sequence[FieldProblem]:
        """Against the schema; on the way of the status, the status only."""
        return self._problems(item, only="status" if subresource == "status" else "")

    def unknown_fields(self, item: Object) -> list[str]:
        """Paths of fields that the schema does not know."""
        return self._version.schema.unknown_fields({**self._head, **item})

    def _shape(self, item: Object) -> None:
        schema = self._version.schema
        shaped = schema.default(schema.prune({**self._head, **item}))
        metadata = item["metadata"]
        item.clear()
        item.update({name: value for name, value in shaped.items() if name not in self._head})
        item["metadata"] = metadata

    def _problems(self, item: Object, *, only: str = "") -> list[FieldProblem]:
        errors = self._version.schema.validate({**self._head, **item}, only=only)
        return [FieldProblem(error.path, str(error.type.value), error.message) for error in errors]


class CustomResources:
    """Serves what CRDs define; told of each write and removal of a CRD."""

    def __init__(self, core: Core, deletions: Deletions) -> None:
        self._core = core
        self._deletions = deletions
        deletions.observers.append(self._removed)

    def written(self, kind: ResourceType, stored: Stored) -> None:
        """Serve a CRD's versions, and say so in its status; or, if it is being deleted, delete its objects."""
        spec = stored.fields["spec"]
        if stored.fields["metadata"].get("deletionTimestamp"):
            return
        shelf = (spec["group"], spec["names"]["plural"])
        served_before = {each.resource.version for each in self._core.registry if each.shelf == shelf}
        types = list(_types(spec))
        for version in served_before - {each.resource.version for each in types}:
            self._core.registry.remove_version(spec["group"], version, spec["names"]["plural"])
        for each in types:
            self._core.registry.add(each)
        status = _accepted_status(stored.fields, stamp(self._core.clock.now()))
        metadata = stored.fields["metadata"]
        finalizers = metadata.get("finalizers") or []
        if _CLEANUP not in finalizers:
            metadata = {**metadata, "finalizers": [*finalizers, _CLEANUP]}
        if status != stored.fields.get("status") or metadata is not stored.fields["metadata"]:
            fields = {**stored.fields, "status": status, "metadata": metadata}
            self._core.store.put(kind.shelf, metadata["name"], fields)

    def terminated(self, kind: ResourceType, stored: Stored) -> None:
        """A CRD was marked for deletion: delete its objects, and end it when there are none."""
        spec = stored.fields["spec"]
        served = self._core.registry.of_shelf((spec["group"], spec["names"]["plural"]))
        if served is not None:
            for key in list(self._core.store.shelf(served.shelf).sorted_keys()):
                namespace, _, name = key.rpartition("/")
                if self._core.find(served, key) is not None:
                    self._deletions.delete(
                        Route(served, namespace, name), DeleteOptions(propagation_policy="Background")
                    )
        self._finish(spec["group"], spec["names"]["plural"])

    def _removed(self, kind: ResourceType, key: str, last: Stored) -> None:
        if kind.shelf == CRD_SHELF:
            spec = last.fields["spec"]
            self._core.registry.remove(spec["group"], spec["names"]["plural"])
        elif kind.custom is not None:
            self._finish(kind.group, kind.plural)

    def _finish(self, group: str, plural: str) -> None:
        definition = self._core.registry.find(CRD_SHELF[0], "v1", CRD_SHELF[1])
        name = f"{plural}.{group}"
        stored = self._core.find(definition, name) if definition is not None else None
        if definition is None or stored is None or not stored.fields["metadata"].get("deletionTimestamp"):
            return
        if self._core.store.shelf((group, plural)).objects:
            return
        finalizers = [each for each in stored.fields["metadata"].get("finalizers") or [] if each != _CLEANUP]
        if finalizers:
            metadata = {**stored.fields["metadata"], "finalizers": finalizers}
            self._core.store.put(definition.shelf, name, {**stored.fields, "metadata": metadata})
        else:
            self._deletions.remove(definition, name)


def _types(spec: Object) -> Sequence[ResourceType]:
    names = spec["names"]
    types = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        resource = Resource(
            spec["group"], version["name"], names["plural"], names["kind"], namespaced=spec["scope"] == "Namespaced"
        )
        subresources = version.get("subresources") or {}
        custom = CustomVersion(
            list_kind=names.get("listKind") or f"{names['kind']}List",
            openapi=(version.get("schema") or {}).get("openAPIV3Schema") or _OPEN,
            columns=tuple(version.get("additionalPrinterColumns") or ()),
        )
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        selectable = [str(each["jsonPath"]) for each in version.get("selectableFields") or ()]
        strategy = CustomStrategy(custom, head, status="status" in subresources, selectable=selectable)
        types.append(
            ResourceType(
                resource=resource,
                strategy=strategy,
                singular=names.get("singular") or names["kind"].lower(),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=("status",) if "status" in subresources else (),
                custom=custom,
            )
        )
    return types


def _accepted_status(item: Object, now: str) -> Object:
    spec, before = item["spec"], item.get("status") or {}
    stored_versions: list[Any] = list(before.get("storedVersions") or ())
    stored_versions += [
        version["name"] for version in spec["versions"] if version["storage"] and version["name"] not in stored_versions
    ]
    conditions = before.get("conditions") or [
        {
            "type": kind,
            "status": "True",
            "lastTransitionTime": now,
            "reason": reason,
            "message": said,
        }
        for kind, reason, said in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    return {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored_versions}
