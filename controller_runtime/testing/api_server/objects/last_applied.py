"""Server-side apply by the manager `kubectl` of what was applied on the client's side before: no conflict, and the annotation follows.

`kubectl apply` notes what it applied in an annotation and owns the fields as an updater. When a person moves on to
`kubectl apply --server-side`, a real server forgives conflicts about fields which that annotation names and which nobody changed since,
and keeps the annotation true. Relies on `apply`; the server's `ownership` relies on this.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from controller_runtime.testing.api_server.objects.apply import ApplyConflict
from controller_runtime.testing.api_server.objects.apply import apply as apply_strictly
from controller_runtime.testing.api_server.objects.field_sets import FieldSet
from controller_runtime.testing.api_server.objects.merge_schema import MergeSchema
from controller_runtime.testing.api_server.objects.typed_objects import TypedObjectError, compare, fields_of
from controller_runtime.testing.api_server.objects.values import JsonObject

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL: Final = "kubectl"
_ESCAPED: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


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
    """As `objects.apply.apply`, and for the manager `kubectl` with regard to the annotation."""

    def attempt(*, force: bool) -> JsonObject:
        return apply_strictly(
            live,
            applied,
            manager=manager,
            force=force,
            schema=schema,
            now=now,
            subresource=subresource,
            api_version=api_version,
        )

    if manager != _KUBECTL:
        return attempt(force=force)
    try:
        merged = attempt(force=force)
    except ApplyConflict as error:
        own = _unchanged_since(live or {}, schema)
        foreign = [conflict for conflict in error.conflicts if conflict.path not in own]
        if foreign:
            raise ApplyConflict(foreign) from None
        merged = attempt(force=True)
    if not _annotation(merged):
        return merged
    metadata = merged["metadata"]
    annotations = {**metadata["annotations"], ANNOTATION: _noted(applied)}
    return {**merged, "metadata": {**metadata, "annotations": annotations}}


def _annotation(obj: Mapping[str, Any]) -> str:
    return ((obj.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION) or ""


def _unchanged_since(live: JsonObject, schema: MergeSchema) -> FieldSet:
    """The fields that the annotation names and that still are as it says."""
    try:
        last = json.loads(_annotation(live))
    except ValueError:
        return frozenset()
    if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
        return frozenset()
    try:
        changes = compare(live, last, schema)
        return frozenset(fields_of(last, schema) - changes.modified - changes.added - changes.removed)
    except TypedObjectError:
        return frozenset()


def _noted(applied: JsonObject) -> str:
    """What was applied, without the annotation itself, as Go writes JSON."""
    metadata = dict(applied.get("metadata") or {})
    annotations = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != ANNOTATION}
    if annotations:
        metadata["annotations"] = annotations
    text = json.dumps({**applied, "metadata": metadata}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.translate(_ESCAPED) + "\n"
