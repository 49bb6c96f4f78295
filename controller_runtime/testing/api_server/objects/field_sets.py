"""Sets of fields, as `managedFields` records them: paths, the form FieldsV1, and the texts of conflicts.

A path is a tuple of elements in FieldsV1's own spelling: `f:NAME` a map's key, `k:{"name":"a"}` an element of a list by its keys,
`v:"a"` an element of a set. A path in a set does not stand for what is below it. Apply relies on it.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue, go_float, go_quoted

FieldPath: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[FieldPath]


def field_element(name: str) -> str:
    """Of a map's key."""
    return f"f:{name}"


def key_element(keys: Mapping[str, JsonValue]) -> str:
    """Of an element of a list of type map."""
    return "k:" + json.dumps(dict(keys), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def value_element(value: JsonValue) -> str:
    """Of an element of a list of type set."""
    return "v:" + json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def to_fields_v1(fields: Iterable[FieldPath]) -> JsonObject:
    """As `fieldsV1` holds it; `.` marks a path that is itself in the set and has others below it."""
    root: JsonObject = {}
    for path in sorted(fields):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _simplified(root)


def _simplified(node: JsonObject) -> JsonObject:
    return {
        element: {} if element == "." or below.keys() == {"."} else _simplified(below)
        for element, below in node.items()
    }


def from_fields_v1(fields: JsonObject) -> FieldSet:
    """The set that a `fieldsV1` holds."""
    return _decoded(json.dumps(fields, sort_keys=True))


@lru_cache(maxsize=4096)
def _decoded(fields: str) -> FieldSet:
    """Kept, since each write decodes the entries of all managers and most did not change."""
    found: set[FieldPath] = set()

    def walk(node: JsonObject, path: FieldPath) -> None:
        for element, below in node.items():
            if element == ".":
                found.add(path)
            elif below:
                walk(below, (*path, element))
            else:
                found.add((*path, element))

    walk(json.loads(fields), ())
    return frozenset(found)


def path_text(path: FieldPath) -> str:
    """A path as conflicts print it: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(_element_text, path))


def in_report_order(fields: Iterable[FieldPath]) -> list[FieldPath]:
    """As conflicts list them: at each level first what is in the set itself, then what is further down."""

    def order(path: FieldPath) -> list[tuple[bool, str]]:
        return [(depth < len(path), element) for depth, element in enumerate(path, start=1)]

    return sorted(fields, key=order)


def _element_text(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "v":
        return f"[={_value_text(json.loads(text))}]"
    return "[" + ",".join(f"{name}={_value_text(value)}" for name, value in json.loads(text).items()) + "]"


def _value_text(value: JsonValue) -> str:
    match value:
        case str():
            return go_quoted(value)
        case bool() | None:
            return json.dumps(value)
        case float():
            return go_float(value)
    return str(value)
