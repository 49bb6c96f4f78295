"""Custom resources: from a CRD to resources that are served, with schema, defaults, pruning and validation.

Relies on `objects.schemas`. A CRD is established at once; deleting it deletes its objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller_runtime.testing.api_server.core import Core
from controller_runtime.testing.api_server.custom_strategy import CustomStrategy, CustomVersion
from controller_runtime.testing.api_server.deletion import Deleted, DeleteOptions, Deletions
from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.strategy import stamp
from controller_runtime.testing.api_server.values import Object
from controller_runtime.transport import Resource

CRD_SHELF = ("apiextensions.k8s.io", "customresourcedefinitions")
_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class CustomResources:
    """Serves what CRDs define; told of each write and removal of a CRD."""

    def __init__(self, core: Core, deletions: Deletions) -> None:
        self._core = core
        self._deletions = deletions
        deletions.observers.append(self._removed)
        deletions.special[CRD_SHELF] = self.terminate

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
        if status != stored.fields.get("status"):
            self._core.store.put(kind.shelf, metadata["name"], {**stored.fields, "status": status})

    def terminate(self, kind: ResourceType, stored: Stored, options: DeleteOptions) -> Deleted:
        """Mark a CRD for deletion, delete its objects, and end it when there are none."""
        if options.dry_run:
            return Deleted(stored, gone=False)
        spec, now = stored.fields["spec"], stamp(self._core.clock.now())
        finalizers = [*(stored.fields["metadata"].get("finalizers") or ()), _CLEANUP]
        metadata = {
            **stored.fields["metadata"],
            "deletionTimestamp": now,
            "finalizers": list(dict.fromkeys(finalizers)),
        }
        status = stored.fields.get("status") or {}
        terminating = {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }
        status = {**status, "conditions": [*(status.get("conditions") or ()), terminating]}
        fields = {**stored.fields, "metadata": metadata, "status": status}
        marked = self._core.store.put(kind.shelf, metadata["name"], fields)
        served = self._core.registry.of_shelf((spec["group"], spec["names"]["plural"]))
        if served is not None:
            for key in list(self._core.store.shelf(served.shelf).sorted_keys()):
                namespace, _, name = key.rpartition("/")
                if self._core.find(served, key) is not None:
                    self._deletions.delete(
                        Route(served, namespace, name), DeleteOptions(propagation_policy="Background")
                    )
        self._finish(spec["group"], spec["names"]["plural"])
        return Deleted(marked, gone=False)

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
