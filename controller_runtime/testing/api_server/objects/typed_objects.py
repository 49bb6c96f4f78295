"""Objects as trees of owned fields: the set of an object's fields, two objects merged or compared, fields taken out.

A leaf is what is owned as one: a scalar, an atomic list or map, an empty one. Of a kind's own fields only the leaves are owned; a
container is owned too where the user chose its key: an element of a list, a free key of a map. Null counts as a leaf. Apply
relies on it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from controller_runtime.testing.api_server.objects.field_sets import (
    FieldPath,
    FieldSet,
    field_element,
    key_element,
    path_text,
    value_element,
)
from controller_runtime.testing.api_server.objects.merge_schema import ListType, MapType, MergeSchema
from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue, copied, same


class TypedObjectError(ValueError):
    """An object that does not fit its kind's lists: an element without keys, or the same element twice."""


class _Absent:
    """Stands for a value that is not there, since null is a value."""


_ABSENT: Final = _Absent()
Children: TypeAlias = list[tuple[str, JsonValue, MergeSchema]]


@dataclass
class Comparison:
    """What became of each field from one object to the next; no path is in two of the sets."""

    removed: set[FieldPath] = field(default_factory=set)
    modified: set[FieldPath] = field(default_factory=set)
    added: set[FieldPath] = field(default_factory=set)


# --- structure -------------------------------------------------------------------------------------------------------


def _is_leaf(value: JsonValue, schema: MergeSchema) -> bool:
    match value:
        case dict():
            return schema.map_type is MapType.ATOMIC
        case list():
            return schema.list_type is ListType.ATOMIC
    return True


def _children(value: JsonValue, schema: MergeSchema) -> Children:
    """The parts of a value that is no leaf: element, value, schema."""
    if isinstance(value, dict):
        return [(field_element(name), item, schema.field(name)) for name, item in value.items()]
    if isinstance(value, list):
        return [(_list_element(item, at, schema), item, schema.element) for at, item in enumerate(value)]
    return []


def _list_element(item: JsonValue, at: int, schema: MergeSchema) -> str:
    if schema.list_type is ListType.SET:
        if isinstance(item, dict | list) or item is None:
            kind = "a map type" if isinstance(item, dict) else "an explicit null"
            if isinstance(item, list):
                raise TypedObjectError(f"element {at}: not supported: associative list with lists as elements")
            raise TypedObjectError(f"element {at}: associative list without keys has an element that's {kind}")
        return value_element(item)
    if not isinstance(item, dict):
        kind = "a null element" if item is None else "non-map elements"
        raise TypedObjectError(f"element {at}: associative list with keys may not have {kind}")
    keys = {
        name: item.get(name, schema.key_defaults.get(name))
        for name in schema.list_keys
        if name in item or name in schema.key_defaults
    }
    if not keys:
        names = " ".join(f'"{name}"' for name in schema.list_keys)
        raise TypedObjectError(
            f"element {at}: associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(keys)


def _named(element: str, schema: MergeSchema) -> bool:
    return element.startswith("f:") and schema.names(element[2:])


def check(value: JsonValue, schema: MergeSchema, path: str = "") -> Iterator[str]:
    """What makes an object impossible to apply: unknown fields of a CRD's kind, list elements without keys, duplicates."""
    if _is_leaf(value, schema):
        return
    try:
        children = _children(value, schema)
    except TypedObjectError as error:
        yield f"{path}: {error}"
        return
    seen = set()
    for element, item, below in children:
        name = f"{path}.{element[2:]}"
        if element[0] != "f":
            if element in seen:
                yield f"{path}: duplicate entries for key {path_text((element,))}"
            seen.add(element)
            name = f"{path}{path_text((element,))}"
        elif schema.closed and element[2:] not in schema.fields:
            yield f"{name}: field not declared in schema"
            continue
        yield from check(item, below, name)


# --- sets ------------------------------------------------------------------------------------------------------------


def fields_of(value: JsonValue, schema: MergeSchema) -> FieldSet:
    """All fields that an object which is applied claims."""
    found: set[FieldPath] = set()

    def walk(value: JsonValue, schema: MergeSchema, path: FieldPath) -> None:
        if _is_leaf(value, schema):
            found.add(path)
            return
        for element, item, below in _children(value, schema):
            inner = (*path, element)
            walk(item, below, inner)
            if item is None or item == {} or not _named(element, schema):
                found.add(inner)

    walk(value, schema, ())
    found.discard(())
    return frozenset(found)


def with_named(fields: FieldSet, schema: MergeSchema) -> FieldSet:
    """With the containers that are fields of the kind, which are owned only through what is in them."""
    found = set(fields)
    for path in fields:
        place = schema
        for depth, element in enumerate(path[:-1], start=1):
            if element[0] == "f":
                if place.names(element[2:]):
                    found.add(path[:depth])
                place = place.field(element[2:])
            else:
                place = place.element
    return frozenset(found)


# --- compare ---------------------------------------------------------------------------------------------------------


def compare(before: JsonValue, after: JsonValue, schema: MergeSchema) -> Comparison:
    """What a write changed."""
    found = Comparison()
    _compare(before, after, schema, (), found)
    for each in (found.added, found.modified, found.removed):
        each.discard(())
    return found


def _compare(before: JsonValue, after: JsonValue, schema: MergeSchema, path: FieldPath, found: Comparison) -> None:
    old, new = _structure(before, schema), _structure(after, schema)
    if (old in (dict, list) or new in (dict, list)) and (before or after):
        sides = (before if old in (dict, list) else _ABSENT, after if new in (dict, list) else _ABSENT)
        if old is new or any(each is _ABSENT or each is None for each in (before, after)):
            _compare_children(*sides, schema, path, found)
        else:
            _compare_children(sides[0], _ABSENT, schema, path, found)
            _compare_children(_ABSENT, sides[1], schema, path, found)
            found.modified.add(path)
        if before is _ABSENT:
            found.added.add(path)
        elif after is _ABSENT:
            found.removed.add(path)
    elif before is _ABSENT:
        found.added.add(path)
    elif after is _ABSENT:
        found.removed.add(path)
    elif not same(before, after):
        found.modified.add(path)


def _structure(value: JsonValue, schema: MergeSchema) -> type | None:
    """dict or list for what has parts, None for leaves and what is not there."""
    return None if _is_leaf(value, schema) else type(value)


def _compare_children(
    before: JsonValue, after: JsonValue, schema: MergeSchema, path: FieldPath, found: Comparison
) -> None:
    old, new = _grouped(before, schema), _grouped(after, schema)
    for element in [*old, *(each for each in new if each not in old)]:
        was, now = old.get(element, []), new.get(element, [])
        inner = (*path, element)
        below = schema.field(element[2:]) if element[0] == "f" else schema.element
        if len(was) <= 1 and len(now) <= 1:
            first: JsonValue = was[0] if was else _ABSENT
            if not was and element[0] == "f" and element[2:] in schema.always:
                first = {}
            _compare(first, now[0] if now else _ABSENT, below, inner, found)
        elif len(was) > 1 and len(now) > 1:
            if not same(was, now):
                found.modified.add(inner)
        elif len(was) > 1:
            if now:
                _compare(_ABSENT, now[0], below, inner, found)
            found.removed.add(inner)
        else:
            if was:
                _compare(was[0], _ABSENT, below, inner, found)
            found.added.add(inner)


def _grouped(value: JsonValue, schema: MergeSchema) -> dict[str, list[JsonValue]]:
    """By element; a stored list can hold the same element twice, and then both are owned as one."""
    groups: dict[str, list[JsonValue]] = {}
    for element, item, _ in _children(value, schema):
        groups.setdefault(element, []).append(item)
    return groups


# --- merge -----------------------------------------------------------------------------------------------------------


def merge(live: JsonValue, applied: JsonValue, schema: MergeSchema) -> JsonValue:
    """The live object with everything the applied one says; lists keep the live order where the applied one says nothing else."""
    if applied is None and live and not _is_leaf(live, schema):
        return copied(live)  # null leaves a container to those who own parts of it
    if _is_leaf(applied, schema) or type(live) is not type(applied) or not (live or applied):
        return copied(applied)
    if isinstance(applied, dict):
        merged: JsonObject = copied(live)
        for name, item in applied.items():
            merged[name] = merge(live[name], item, schema.field(name)) if name in live else copied(item)
        return merged
    return _merge_lists(live, applied, schema)


def _merge_lists(live: list[JsonValue], applied: list[JsonValue], schema: MergeSchema) -> list[JsonValue]:
    """Walks both lists: what only the live one has stays before the next element that both have."""
    held = [(element, item) for element, item, _ in _children(live, schema)]
    wanted = [(element, item) for element, item, _ in _children(applied, schema)]
    by_element = dict(held)
    duplicated = {element for element in by_element if sum(element == each for each, _ in held) > 1}
    applied_elements = {element for element, _ in wanted}
    shared = [element for element, _ in wanted if element in by_element]
    merged: list[JsonValue] = []
    done: set[str] = set()

    def take(element: str, item: JsonValue) -> None:
        done.add(element)
        if shared and shared[0] == element:
            shared.pop(0)
        known = element in by_element and element not in duplicated
        merged.append(merge(by_element[element], item, schema.element) if known else copied(item))

    at = 0
    for element, item in wanted:
        while at < len(held) and held[at][0] != element:
            mine = held[at][0]
            if mine in applied_elements:
                if mine not in done and not (shared and shared[0] != mine):
                    break
            else:
                merged.append(copied(held[at][1]))
            at += 1
        if at < len(held) and held[at][0] == element:
            at += 1
        take(element, item)
    merged += [copied(item) for element, item in held[at:] if element not in applied_elements]
    return merged


# --- remove ----------------------------------------------------------------------------------------------------------


def remove(value: JsonValue, fields: FieldSet, schema: MergeSchema) -> JsonValue:
    """The object without these fields; null is left of what is empty afterwards, as on a real server."""
    return _remove(value, _tree(fields), schema) or {}


_Tree: TypeAlias = dict[str, "_Tree"]


def _tree(fields: FieldSet) -> _Tree:
    root: _Tree = {}
    for path in fields:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return root


def _remove(value: JsonValue, fields: _Tree, schema: MergeSchema) -> JsonValue:
    if not isinstance(value, dict | list):
        return value
    if not value or _is_leaf(value, schema):
        return None  # only asked where something below is to go
    kept: list[tuple[str, JsonValue]] = []
    for element, item, below in _children(value, schema):
        node = fields.get(element)
        if node is not None and "." in node:
            continue
        kept.append((element, item if node is None else _remove(item, node, below)))
    if not kept:
        return None
    if isinstance(value, dict):
        return {element[2:]: item for element, item in kept}
    return [item for _, item in kept]
