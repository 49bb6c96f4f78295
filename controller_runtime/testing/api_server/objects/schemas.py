"""A CRD's structural schema at work: pruning of unknown fields, defaults, validation, and what strict field validation complains of.

The order in which a real server does it, and the embedded one must: decode, `prune`, `default`, admission, then `validate`. The rules
of a value are in `schema_validation.py`, those in CEL in `cel.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from controller_runtime.testing.api_server.objects import cel
from controller_runtime.testing.api_server.objects.field_errors import ErrorType, FieldError
from controller_runtime.testing.api_server.objects.schema_validation import list_errors, value_errors
from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue, copied

__all__ = ["ErrorType", "FieldError", "StructuralSchema"]

_META: Final = frozenset({"apiVersion", "kind", "metadata"})
METADATA_FIELDS: Final = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""All fields of a metadata; others are dropped whatever a schema says."""
_BLOCKING: Final = (
    ErrorType.REQUIRED,
    ErrorType.NOT_SUPPORTED,
    ErrorType.TOO_LONG,
    ErrorType.TOO_MANY,
    ErrorType.TYPE_INVALID,
)
_UNCHECKED: Final = FieldError(
    "<nil>",
    ErrorType.INVALID,
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


@dataclass(frozen=True)
class StructuralSchema:
    """The schema of one version of a CRD. `ignored_rules` are the CEL rules that `cel.py` cannot read, which always hold here."""

    schema: JsonObject
    rules: tuple[cel.Rule, ...] = field(default=())
    ignored_rules: tuple[str, ...] = field(default=())

    @staticmethod
    def from_crd(schema: JsonObject) -> StructuralSchema:
        """Of `openAPIV3Schema`. It is taken as structural: an invalid CRD is for the server to refuse."""
        structural = StructuralSchema(schema)
        found, ignored = cel.read_rules(schema)
        return replace(structural, rules=found, ignored_rules=ignored)

    def prune(self, obj: JsonObject) -> JsonObject:
        """Without the fields the schema does not name; those below `x-kubernetes-preserve-unknown-fields` stay, and are shared."""
        return _prune_root(obj, self.schema, [])

    def unknown_fields(self, obj: JsonObject) -> list[str]:
        """Paths of what `prune` drops, sorted: `fieldValidation=Strict` refuses the object for each `unknown field "spec.x"`."""
        dropped: list[str] = []
        _prune_root(obj, self.schema, dropped)
        return sorted(dropped)

    def default(self, obj: JsonObject, *, keep_nulls: bool = False) -> JsonObject:
        """With the schema's defaults, at every depth that is there.

        An explicit null of a field that is not nullable counts as absent: it gets the default, or goes. After an apply a real server only
        does the former (`keep_nulls`), so that a null that an apply leaves behind is refused by `validate`.
        """
        defaulted = copied(obj) if keep_nulls else _without_nulls(obj, self.schema)
        _default(defaulted, self.schema)
        return defaulted  # type: ignore[no-any-return]

    def validate(self, obj: JsonObject, *, only: str = "") -> list[FieldError]:
        """All that is wrong with a pruned and defaulted object; `only="status"` looks at the status alone, as a write of it does.

        An update does not forgive (ratchet) values that were wrong before, unlike the real server.
        """
        schema, value = self.schema, obj
        if only:
            if only not in obj:
                return []
            schema, value = schema.get("properties", {}).get(only, {}), obj[only]
        errors = [*value_errors(value, schema, only), *list_errors(value, schema, only)]
        rules = [rule for rule in self.rules if not only or rule.is_below(only)]
        if rules and any(error.type in _BLOCKING for error in errors):
            errors.append(_UNCHECKED)
        else:
            for rule in rules:
                errors.extend(rule.errors(obj))
        return errors


# --- pruning ---------------------------------------------------------------------------------------------------------


def _prune_root(obj: JsonObject, schema: JsonObject, dropped: list[str]) -> JsonObject:
    pruned: JsonObject = _prune(obj, {**schema, "x-kubernetes-embedded-resource": True}, "", dropped)
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        dropped.extend(f"metadata.{name}" for name in metadata if name not in METADATA_FIELDS)
        kept = {name: item for name, item in metadata.items() if name in METADATA_FIELDS and item is not None}
        pruned["metadata"] = kept
    return pruned


def _prune(value: JsonValue, schema: JsonObject | None, path: str, dropped: list[str]) -> JsonValue:
    """`schema` is None where nothing is known, and then nothing stays."""
    preserves = schema is not None and schema.get("x-kubernetes-preserve-unknown-fields") is True
    if isinstance(value, list):
        items = schema.get("items") if schema else None
        if preserves and items is None:
            return value
        return [_prune(item, items, f"{path}[{at}]", dropped) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kept: JsonObject = {}
    for name, item in value.items():
        below = f"{path}.{name}" if path else name
        if schema and schema.get("x-kubernetes-embedded-resource") and name in _META:
            kept[name] = item
        elif schema and name in schema.get("properties", {}):
            kept[name] = _prune(item, schema["properties"][name], below, dropped)
        elif schema and schema.get("additionalProperties"):
            extra = schema["additionalProperties"]
            kept[name] = _prune(item, extra if isinstance(extra, dict) else None, below, dropped)
        elif preserves:
            kept[name] = item
        else:
            dropped.append(below)
    return kept


# --- defaults --------------------------------------------------------------------------------------------------------


def _below(schema: JsonObject, name: str) -> JsonObject:
    known: JsonObject | None = schema.get("properties", {}).get(name)
    if known is not None:
        return known
    extra = schema.get("additionalProperties")
    return extra if isinstance(extra, dict) else {}


def _drops_null(schema: JsonObject) -> bool:
    """A null goes where a schema knows the field, does not allow null and has no default for it."""
    return bool(schema) and not schema.get("nullable") and schema.get("default") is None


def _says_nothing_below(schema: JsonObject) -> bool:
    """Whether no default and no null below a value can be a matter of this schema, so that nobody need look."""
    return not ("properties" in schema or "items" in schema or isinstance(schema.get("additionalProperties"), dict))


def _without_nulls(value: JsonValue, schema: JsonObject) -> JsonValue:
    if _says_nothing_below(schema):
        return value  # `_default` does not touch it either
    if isinstance(value, dict):
        kept = {}
        for name, item in value.items():
            known = _below(schema, name)
            if item is not None or not _drops_null(known):
                kept[name] = _without_nulls(item, known)
        return kept
    if isinstance(value, list):
        return [_without_nulls(item, schema.get("items") or {}) for item in value]
    return value


def _default(value: JsonValue, schema: JsonObject) -> None:
    """In place; `value` is ours."""
    if _says_nothing_below(schema):
        return
    if isinstance(value, dict):
        for name, known in _with_defaults(schema):
            if name not in value or (value[name] is None and not known.get("nullable")):
                value[name] = copied(known["default"])
        for name, item in value.items():
            known = _below(schema, name)
            if item is None and known and not known.get("nullable"):
                value[name] = item = copied(known.get("default"))
            _default(item, known)
    elif isinstance(value, list):
        items = schema.get("items") or {}
        for at, item in enumerate(value):
            if item is None and items and not items.get("nullable"):
                value[at] = copied(items.get("default"))
            _default(value[at], items)


def _with_defaults(schema: JsonObject) -> Iterable[tuple[str, JsonObject]]:
    return ((name, known) for name, known in schema.get("properties", {}).items() if known.get("default") is not None)
