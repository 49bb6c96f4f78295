"""How the lists and maps of a kind merge: for server-side apply (set, map, atomic) and for strategic merge patch (strategy, merge key).

The two are separate in Kubernetes too: a Job's conditions merge by type in a strategic merge patch and are atomic in an apply. A CRD's
answers come from its schema, a built-in kind's from `merge_tables.py`, which name only fields that differ from
the rule: maps merge by key, lists are replaced whole. Patches and apply rely on it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue


class ListType(enum.Enum):
    """What an apply owns of a list."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


class MapType(enum.Enum):
    """What an apply owns of a map."""

    GRANULAR = "granular"
    ATOMIC = "atomic"


@dataclass(frozen=True, kw_only=True)
class MergeSchema:
    """One place in a kind: how it merges, and what is below it. `MergeSchema()` is a place nothing is known of."""

    list_type: ListType = ListType.ATOMIC
    list_keys: tuple[str, ...] = ()
    """The keys of an element of a list of type map."""
    key_defaults: Mapping[str, JsonValue] = field(default_factory=dict)
    """What a missing list key counts as, such as a port's protocol TCP."""
    map_type: MapType = MapType.GRANULAR
    patch_strategies: tuple[str, ...] = ()
    """Of `merge`, `replace` and `retainKeys`, for strategic merge patch."""
    patch_merge_key: str = ""
    fields: Mapping[str, MergeSchema] = field(default_factory=dict)
    items: MergeSchema | None = None
    values: MergeSchema | None = None
    """Of a map with free keys."""
    open: bool = False
    """Whether unknown fields are kept (x-kubernetes-preserve-unknown-fields), so that they are as free as a map's keys."""
    closed: bool = False
    """Whether `fields` are all there are, so that an apply of another is an error. Not so for built-in kinds' tables."""
    keeps_nulls: bool = False
    """Of a kind's root: whether its objects are stored as they come, not decoded into types that know no null."""
    always: frozenset[str] = frozenset()
    """Fields that a built-in kind's objects always have, if only empty; nobody comes to own them by writing something in them."""
    resets: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"": ("status",), "status": ("spec",)})
    """Of a kind's root: by subresource, the fields that a write there cannot change and so cannot own."""

    @property
    def patch_strategy(self) -> str:
        """`merge`, `replace` or nothing, which is replacing lists and merging maps."""
        return next((strategy for strategy in self.patch_strategies if strategy != "retainKeys"), "")

    @property
    def element(self) -> MergeSchema:
        """Of a list's elements."""
        return self.items or _UNKNOWN

    def field(self, name: str) -> MergeSchema:
        """Of a map's key."""
        return self.fields.get(name) or self.values or (_FREE if self.open else _UNKNOWN)

    def names(self, key: str) -> bool:
        """Whether the key is a field of the kind, not a free key that a user chose."""
        return key in self.fields or (self.values is None and not self.open)

    def with_metadata(self, metadata: MergeSchema) -> MergeSchema:
        """The same kind with this schema of its metadata."""
        return replace(self, fields={**self.fields, "metadata": metadata})

    @staticmethod
    def from_crd(schema: JsonObject, *, status_subresource: bool = True) -> MergeSchema:
        """Of a CRD version's `openAPIV3Schema`: x-kubernetes-list-type, -list-map-keys and -map-type, with Kubernetes' own metadata."""
        resets: dict[str, tuple[str, ...]] = (
            {"": ("status",), "status": ("metadata", "spec")} if status_subresource else {}
        )
        return replace(_from_openapi(schema).with_metadata(METADATA), resets=resets, keeps_nulls=True)


_UNKNOWN: Final = MergeSchema()
_FREE: Final = MergeSchema(open=True)
ATOMIC_MAP: Final = MergeSchema(map_type=MapType.ATOMIC)
METADATA: Final = MergeSchema(
    fields={
        "annotations": MergeSchema(values=MergeSchema()),
        "labels": MergeSchema(values=MergeSchema()),
        "finalizers": MergeSchema(list_type=ListType.SET, patch_strategies=("merge",)),
        "ownerReferences": MergeSchema(
            list_type=ListType.MAP,
            list_keys=("uid",),
            patch_strategies=("merge",),
            patch_merge_key="uid",
            items=ATOMIC_MAP,
        ),
    }
)
"""Of every kind's metadata."""


def _from_openapi(schema: JsonObject) -> MergeSchema:
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    items = schema.get("items")
    element = items.get("properties", {}) if isinstance(items, dict) else {}
    extra = schema.get("additionalProperties")
    free = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or extra is True
    return MergeSchema(
        list_type=ListType(schema.get("x-kubernetes-list-type", "atomic")),
        list_keys=keys,
        key_defaults={key: element[key]["default"] for key in keys if "default" in element.get(key, {})},
        map_type=MapType(schema.get("x-kubernetes-map-type", "granular")),
        fields={name: _from_openapi(each) for name, each in schema.get("properties", {}).items()},
        items=_from_openapi(items) if isinstance(items, dict) else None,
        values=_from_openapi(extra) if isinstance(extra, dict) else None,
        open=free,
        closed=not free and not isinstance(extra, dict) and "properties" in schema,
    )
