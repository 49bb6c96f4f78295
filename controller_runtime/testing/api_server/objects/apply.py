"""Server-side apply, and the record of who owns which field that all writes keep in `metadata.managedFields`.

The order of work is Kubernetes': merge what is applied into the live object, take out what the same manager applied before and now
leaves out unless somebody else owns it, then see whose fields changed. `typed_objects.py` does the walking, `merge_schema.py` says
where; `last_applied.py` adds what real servers do for the manager `kubectl`. Not done: converting sets between API versions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from controller_runtime.testing.api_server.objects.field_sets import (
    FieldPath,
    FieldSet,
    field_element,
    in_report_order,
    path_text,
)
from controller_runtime.testing.api_server.objects.managed_fields import (
    Entry,
    Record,
    Writer,
    read_record,
    writer_of,
    written_record,
)
from controller_runtime.testing.api_server.objects.merge_schema import MergeSchema
from controller_runtime.testing.api_server.objects.typed_objects import (
    Comparison,
    TypedObjectError,
    check,
    compare,
    fields_of,
    merge,
    remove,
    with_named,
)
from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue, copied, same

MOST_UPDATERS: Final = 10
"""Entries of updates beyond this are folded into `ancient-changes`, oldest first."""
_ANCIENT: Final = "ancient-changes"
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_SELF: Final = "current-operation"
_SERVERS_OWN: Final = (
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
)
_UNOWNED: Final[FieldSet] = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", field_element(name)) for name in _SERVERS_OWN)}
)
"""Nobody owns these."""


class ApplyError(Exception):
    """An apply that cannot be carried out whoever owns what; `status` and `message` as the real server answers."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Conflict:
    """One field that another manager owns: who, in Kubernetes' words, and where."""

    manager: str
    field: str
    path: FieldPath = ()

    @property
    def message(self) -> str:
        """As the cause of the `Status` says it, with the reason FieldManagerConflict."""
        return f"conflict with {self.manager}"


class ApplyConflict(Exception):  # noqa: N818 - named after what Kubernetes calls it
    """The apply changes fields of other managers and is not forced: 409, reason Conflict."""

    status = 409

    def __init__(self, conflicts: list[Conflict]) -> None:
        self.conflicts = conflicts
        if len(conflicts) == 1:
            text = f"Apply failed with 1 conflict: {conflicts[0].message}: {conflicts[0].field}"
        else:
            lines = []
            for manager in sorted({conflict.manager for conflict in conflicts}):
                lines.append(f"conflicts with {manager}:")
                lines += [f"- {conflict.field}" for conflict in conflicts if conflict.manager == manager]
            text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
        super().__init__(text)
        self.message = text

    @property
    def managers(self) -> list[str]:
        """Who owns the fields, in Kubernetes' words."""
        return sorted({conflict.manager for conflict in self.conflicts})

    @property
    def fields(self) -> list[str]:
        """The fields in question."""
        return [conflict.field for conflict in self.conflicts]


# --- what both writes need ---------------------------------------------------------------------------------------------


def _without_record(obj: JsonObject) -> JsonObject:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: item for name, item in metadata.items() if name != "managedFields"}}


def _with_record(obj: JsonObject, record: Record) -> JsonObject:
    bare = copied(_without_record(obj))
    if record:
        bare.setdefault("metadata", {})["managedFields"] = written_record(record)
    return bare  # type: ignore[no-any-return]


def _metadata(obj: JsonObject | None) -> Mapping[str, object]:
    metadata = (obj or {}).get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _time_text(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- what a write does to the record ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Write:
    """What all steps of one write know."""

    schema: MergeSchema
    subresource: str
    reset: frozenset[str] = field(default_factory=frozenset)

    def owned(self, fields: set[FieldPath] | FieldSet) -> FieldSet:
        """Without the fields that a write here cannot change."""
        if not self.reset:
            return frozenset(fields)
        return frozenset(path for path in fields if path[0] not in self.reset)

    def changes(self, before: JsonObject, after: JsonObject) -> Comparison:
        found = compare(before, after, self.schema)
        return Comparison(
            removed=set(self.owned(found.removed)),
            modified=set(self.owned(found.modified)),
            added=set(self.owned(found.added)),
        )


def _write(schema: MergeSchema, subresource: str) -> _Write:
    reset = frozenset(map(field_element, schema.resets.get(subresource, ())))
    return _Write(schema=schema, subresource=subresource, reset=reset)


def _settle(record: Record, writer: Writer, changes: Comparison, *, force: bool) -> None:
    """Takes changed and removed fields from all others; without force, changed ones are conflicts."""
    changed = changes.modified | changes.added
    conflicts = {other: entry.fields & changed for other, entry in record.items() if other != writer}
    if not force and any(conflicts.values()):
        raise ApplyConflict(
            [
                Conflict(str(other), path_text(path), path)
                for other in sorted(conflicts, key=str)
                for path in in_report_order(conflicts[other])
            ]
        )
    gone = changed | changes.removed
    for other in conflicts:
        left = record[other].fields - gone
        if left:
            record[other] = replace(record[other], fields=left)
        else:
            del record[other]


def _record_update(
    record: Record, before: JsonObject, after: JsonObject, writer: Writer, version: str, write: _Write, time: str
) -> None:
    changes = write.changes(before, after)
    itself = Writer(operation="Update", name=_SELF)
    _settle(record, itself, changes, force=True)
    fields = frozenset(changes.modified | changes.added) - _UNOWNED
    if fields:
        if writer in record:
            fields |= record[writer].fields
        record[writer] = Entry(fields=fields, version=version, time=time)


def _fold_ancient(record: Record) -> None:
    updaters = sorted(
        (manager for manager in record if manager.operation == "Update"),
        key=lambda manager: (record[manager].time, manager),
    )
    excess = len(updaters) - MOST_UPDATERS
    first: dict[str, Writer] = {}
    for manager in updaters:
        if excess <= 0:
            return
        entry = record[manager]
        if entry.version not in first:
            first[entry.version] = manager
            continue
        bucket = writer_of("Update", _ANCIENT, entry.version, "")
        if bucket not in record:
            record[bucket] = record.pop(first[entry.version])
        record[bucket] = replace(entry, fields=entry.fields | record[bucket].fields)
        if manager != bucket:
            del record[manager]
        excess -= 1


def update_managers(
    before: JsonObject | None,
    after: JsonObject,
    *,
    manager: str,
    operation: str = "Update",
    subresource: str = "",
    api_version: str,
    schema: MergeSchema,
    now: datetime,
) -> JsonObject:
    """`after` with the record of a create (`before` is None), update or patch by this manager.

    A record that the write itself brings is believed, except in a subresource; an empty one is the live one; `[{}]` (one empty
    entry) ends the record, and it is kept again only from the next apply on. `time` of the writer's entry moves only when it came to own
    something. Raises ValueError for an operation other than Update: `apply` keeps its own record.
    """
    if operation != "Update":
        raise ValueError(f"update_managers records updates, not {operation!r}; apply() records its own.")
    live = before or {}
    given = None if subresource else _metadata(after).get("managedFields")
    if given == [{}]:
        return _with_record(after, {})
    record = read_record(given) or read_record(_metadata(live).get("managedFields"))
    if not record and _metadata(live).get("uid"):
        return _with_record(after, {})
    writer = writer_of("Update", manager, api_version, subresource)
    bare, write = _without_record(live), _write(schema, subresource)
    try:
        _record_update(record, bare, _without_record(after), writer, api_version, write, _time_text(now))
    except TypedObjectError:
        return _with_record(after, {})  # as the real server: better no record than no write
    _fold_ancient(record)
    return _with_record(after, record)


# --- apply -----------------------------------------------------------------------------------------------------------


def apply(
    live: JsonObject | None,
    applied: JsonObject,
    *,
    manager: str,
    force: bool,
    schema: MergeSchema,
    now: datetime,
    subresource: str = "",
    api_version: str,
) -> JsonObject:
    """The object that comes of applying `applied` to `live` (None: it is created), with its record; defaults are the caller's.

    What of the metadata is the server's own stays as it is in `live`, except a `resourceVersion` or `uid` that is applied: the
    caller checks them as preconditions. A container that loses its last part stays as null in a custom resource, where validation
    then refuses it unless it has a default or is nullable; that is what real servers do. When nothing but the record changes, the
    applier's entry keeps its time, and has none if it is new. Raises `ApplyConflict` unless forced, and `ApplyError` for what cannot
    be applied.
    """
    if _metadata(applied).get("managedFields") is not None:
        raise ApplyError(400, "metadata.managedFields must be nil")
    problems = list(check(applied, schema))
    if problems:
        raise ApplyError(500, _untypable(applied, problems))
    write, time = _write(schema, subresource), _time_text(now)
    base = _without_record(live or {})
    record = read_record(_metadata(live).get("managedFields"))
    if not record and live is not None:
        earlier = writer_of("Update", _BEFORE_FIRST_APPLY, api_version, subresource)
        _record_update(record, {}, base, earlier, api_version, write, time)
    applier = writer_of("Apply", manager, api_version, subresource)
    last = record.get(applier)
    record[applier] = Entry(
        fields=write.owned(fields_of(applied, schema)), version=api_version, time=last.time if last else ""
    )
    merged = _pruned(_kept_metadata(base, merge(base, applied, schema)), record, last, schema)
    if not schema.keeps_nulls:
        merged = _without_nulls(merged)
    elif isinstance(merged.get("metadata"), dict):
        merged["metadata"] = _without_nulls(merged["metadata"])
    _settle(record, applier, write.changes(base, merged), force=force)
    owned = record[applier].fields - _UNOWNED
    if not owned:
        del record[applier]
    else:
        changed = not same(base, merged)
        record[applier] = replace(record[applier], fields=owned, time=time if changed else record[applier].time)
    return _with_record(merged, record)


def _untypable(applied: JsonObject, problems: list[str]) -> str:
    metadata = _metadata(applied)
    group, _, version = str(applied.get("apiVersion", "")).rpartition("/")
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    kind = f"{group}/{version}, Kind={applied.get('kind', '')}"
    what = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in problems)
    return f"failed to create typed patch object ({where}; {kind}): {what}"


def _kept_metadata(live: JsonObject, merged: JsonObject) -> JsonObject:
    """With the server's own fields of the live object where the applied one had null, as generated manifests do."""
    metadata = merged.get("metadata")
    if isinstance(metadata, dict):
        was = _metadata(live)
        for name in _SERVERS_OWN:
            if name in metadata and metadata[name] is None:
                del metadata[name]
                if name in was:
                    metadata[name] = was[name]
    return merged


def _without_nulls(value: JsonValue) -> JsonValue:
    """As decoding into a typed object does it."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _pruned(merged: JsonObject, record: Record, last: Entry | None, schema: MergeSchema) -> JsonObject:
    """Without what this manager applied last time, does not apply now, and nobody else owns."""
    if last is None or not last.fields:
        return merged
    lasting = with_named(last.fields, schema)
    pruned = remove(merged, lasting, schema)
    everything = with_named(fields_of(merged, schema), schema)
    managed = with_named(frozenset().union(*(entry.fields for entry in record.values())), schema)
    left = with_named(fields_of(pruned, schema), schema)
    pruned = remove(merged, everything - (left | managed), schema)
    left = with_named(fields_of(pruned, schema), schema)
    result: JsonObject = remove(merged, (everything - left) & lasting, schema)
    return result
