"""Deletion: preconditions, grace, finalizers, what becomes of dependents, namespaces and whole collections.

Relies on strategies for grace. Dependents are the garbage collector's work, which is a client: here only its
finalizers are set. A namespace's contents, and a CRD's, are deleted at once, in the same request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from controller_runtime.testing.api_server.admission import check_deletion
from controller_runtime.testing.api_server.bodies import check_dry_run, decoded
from controller_runtime.testing.api_server.core import Core
from controller_runtime.testing.api_server.refusals import FieldProblem, bad_request, conflict, invalid
from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.strategy import stamp
from controller_runtime.testing.api_server.values import ApiRequest, Object

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
POLICIES = ("Foreground", "Background", "Orphan")


class _Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """`v1.DeleteOptions`, as far as it is obeyed."""

    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome: the object as it is or was, and whether it is gone."""

    stored: Stored
    gone: bool


Special = Callable[[ResourceType, Stored, DeleteOptions], Deleted]
Removed = Callable[[ResourceType, str, Stored], None]


class Deletions:
    """Deletes objects."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.special: dict[tuple[str, str], Special] = {}
        """By shelf: who begins the deletion of what is deleted in a way of its own."""
        self.observers: list[Removed] = []
        """Told of each object after it is gone: kind, key, last version."""

    def delete(self, route: Route, options: DeleteOptions) -> Deleted:
        """DELETE one object.

        Raises:
            RefusalError: 404, 409 for preconditions, 422 for options.
        """
        kind, key = route.kind, route.key
        stored = self._core.require(route)
        _check_options(options)
        check_deletion(route)
        _check_preconditions(kind, stored, options)
        special = self.special.get(kind.shelf)
        if special is not None and not stored.fields["metadata"].get("deletionTimestamp"):
            return special(kind, stored, options)
        if kind.shelf == ("", "namespaces") and not stored.fields["metadata"].get("deletionTimestamp"):
            return self._terminate_namespace(kind, stored, options)
        dry = bool(options.dry_run)
        metadata = dict(stored.fields["metadata"])
        graceful, pending = self._grace(kind, stored.fields, metadata, options)
        if pending:
            return Deleted(stored, gone=False)
        finalizers = _finalizers(kind, metadata, options)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        if not graceful and finalizers:
            self._mark(metadata)
        if graceful or finalizers:
            if metadata != stored.fields["metadata"] and not dry:
                stored = self._core.store.put(kind.shelf, key, {**stored.fields, "metadata": metadata})
            if finalizers or metadata.get("deletionGracePeriodSeconds"):
                return Deleted(stored, gone=False)
        if dry:
            return Deleted(stored, gone=True)
        return Deleted(self.remove(kind, key), gone=True)

    def remove(self, kind: ResourceType, key: str) -> Stored:
        """Take an object away for good."""
        last = self._core.store.remove(kind.shelf, key)
        for observer in self.observers:
            observer(kind, key, last)
        self._finish_namespace(key.partition("/")[0] if "/" in key else "")
        return last

    def ends_with(self, item: Object, before: Object) -> bool:
        """Whether an update ends a deletion: the last finalizer is gone and no grace is left."""
        metadata = item["metadata"]
        return bool(
            metadata.get("deletionTimestamp")
            and not metadata.get("finalizers")
            and before["metadata"].get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
        )

    # --- grace ------------------------------------------------------------------------------------------------------

    def _grace(self, kind: ResourceType, item: Object, metadata: Object, options: DeleteOptions) -> tuple[bool, bool]:
        """Set when the object ends; whether there is grace in this kind, and whether a deletion goes on unchanged."""
        asked = options.grace_period_seconds
        if metadata.get("deletionTimestamp"):
            current = metadata.get("deletionGracePeriodSeconds")
            if not current and asked is None and kind.strategy.grace_seconds(item, asked) is None:
                return False, False
            if current is None:
                return False, False
            if asked is None or asked >= current:
                return (False, False) if not current and not metadata.get("finalizers") else (False, True)
            due = _time(metadata["deletionTimestamp"]) - timedelta(seconds=current - asked)
            metadata |= {"deletionTimestamp": stamp(due), "deletionGracePeriodSeconds": asked}
            return True, False
        period = kind.strategy.grace_seconds(item, asked)
        if period is None:
            return False, False
        due = self._core.clock.now() + timedelta(seconds=period)
        metadata |= {"deletionTimestamp": stamp(due), "deletionGracePeriodSeconds": period}
        _bump(metadata)
        return True, False

    def _mark(self, metadata: Object) -> None:
        if not metadata.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = stamp(self._core.clock.now())
            _bump(metadata)
        metadata["deletionGracePeriodSeconds"] = 0

    # --- namespaces -------------------------------------------------------------------------------------------------

    def _terminate_namespace(self, kind: ResourceType, stored: Stored, options: DeleteOptions) -> Deleted:
        metadata = {**stored.fields["metadata"], "deletionTimestamp": stamp(self._core.clock.now())}
        status = {**stored.fields.get("status", {}), "phase": "Terminating"}
        if options.dry_run:
            return Deleted(stored, gone=False)
        name = metadata["name"]
        marked = self._core.store.put(kind.shelf, name, {**stored.fields, "metadata": metadata, "status": status})
        for content in {other.shelf: other for other in self._core.registry if other.resource.namespaced}.values():
            for item in self._core.namespace_objects(content, name):
                key = f"{name}/{item.fields['metadata']['name']}"
                if self._core.find(content, key) is not None:
                    route = Route(content, name, item.fields["metadata"]["name"])
                    self.delete(route, DeleteOptions(propagation_policy="Background"))
        self._finish_namespace(name)
        return Deleted(marked, gone=False)

    def _finish_namespace(self, name: str) -> None:
        """A namespace that is being deleted ends with its last object."""
        kind = self._core.registry.find("", "v1", "namespaces")
        stored = self._core.find(kind, name) if kind is not None and name else None
        if kind is None or stored is None or not stored.fields["metadata"].get("deletionTimestamp"):
            return
        prefix = f"{name}/"
        if any(key.startswith(prefix) for _, shelf in self._core.store.shelves() for key in shelf.objects):
            return
        if stored.fields["metadata"].get("finalizers"):
            return
        self.remove(kind, name)


def delete_options(request: ApiRequest) -> DeleteOptions:
    """The options of a DELETE: its body, or its query if there is none.

    Raises:
        RefusalError: 400.
    """
    body = decoded(request.body) if request.body.strip() else {}
    try:
        options = msgspec.convert(body, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"error decoding options: {error}") from error
    query = request.query
    grace = query.get("gracePeriodSeconds", "")
    if options.grace_period_seconds is None and grace.lstrip("-").isdigit():
        options = msgspec.structs.replace(options, grace_period_seconds=int(grace))
    if options.propagation_policy is None and query.get("propagationPolicy"):
        options = msgspec.structs.replace(options, propagation_policy=query["propagationPolicy"])
    if query.get("dryRun"):
        options = msgspec.structs.replace(options, dry_run=[query["dryRun"]])
    return options


def without_preconditions(options: DeleteOptions) -> DeleteOptions:
    """The same for any object."""
    return msgspec.structs.replace(options, preconditions=None)


def _check_options(options: DeleteOptions) -> None:
    policy = options.propagation_policy
    if policy is not None and options.orphan_dependents is not None:
        said = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        raise invalid(
            "meta.k8s.io", "DeleteOptions", "", [FieldProblem("propagationPolicy", "FieldValueInvalid", said)]
        )
    check_dry_run("DeleteOptions", options.dry_run or [])
    if policy is not None and policy not in POLICIES:
        said = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        problem = FieldProblem("propagationPolicy", "FieldValueNotSupported", said)
        raise invalid("meta.k8s.io", "DeleteOptions", "", [problem])


def _check_preconditions(kind: ResourceType, stored: Stored, options: DeleteOptions) -> None:
    asked = options.preconditions
    if asked is None:
        return
    name = stored.fields["metadata"]["name"]
    if asked.uid and asked.uid != stored.uid:
        why = (
            f"the UID in the precondition ({asked.uid}) does not match the UID in record ({stored.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(kind.group, kind.kind, name, why)
    if asked.resource_version and asked.resource_version != str(stored.version):
        why = (
            f"the ResourceVersion in the precondition ({asked.resource_version}) does not match the ResourceVersion "
            f"in record ({stored.version}). The object might have been modified"
        )
        raise conflict(kind.group, kind.kind, name, why)


def _finalizers(kind: ResourceType, metadata: Object, options: DeleteOptions) -> list[str]:
    """The finalizers after this deletion was asked for; those of the garbage collector say what it has to do."""
    present = list(metadata.get("finalizers") or ())
    policy = options.propagation_policy
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    orphan = foreground = False
    if policy is not None:
        orphan, foreground = policy == "Orphan", policy == "Foreground"
    elif ORPHAN in present:
        orphan = True
    elif FOREGROUND in present:
        foreground = True
    else:
        orphan = kind.strategy.orphans_by_default
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    if orphan:
        kept.append(ORPHAN)
    if foreground:
        kept.append(FOREGROUND)
    return present if set(kept) == set(present) else kept


def _bump(metadata: Object) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
