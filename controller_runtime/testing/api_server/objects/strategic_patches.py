"""Strategic merge patch: a merge patch that knows how lists merge, with directives for deletion, replacement and order.

The directives: `$patch: delete|replace` in a map or a list's element, `$setElementOrder/LIST`, `$deleteFromPrimitiveList/LIST`,
`$retainKeys`. How a list merges comes from `MergeSchema`; a field it does not know is replaced when it is a list and merged when it is
a map, where the real server, which knows every field of a built-in kind, answers 500. Custom resources have no strategic merge patch:
the server refuses it with 415 before coming here. `patches.py` is the door to this module.
"""

from typing import Final

from controller_runtime.testing.api_server.objects.json_patches import PatchError
from controller_runtime.testing.api_server.objects.merge_schema import MergeSchema
from controller_runtime.testing.api_server.objects.values import (
    JsonObject,
    JsonValue,
    copied,
    go_text,
    go_type,
    json_kind,
    same,
)

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder"
_REMOVALS: Final = "$deleteFromPrimitiveList"
_BAD_RETAIN: Final = "invalid patch format of retainKeys"
_BAD_ORDER: Final = "invalid patch format of setElementOrder list"
_BAD_REMOVALS: Final = "invalid patch format of primitive list"


def strategic_merge_patch(document: JsonObject, patch: JsonValue, schema: MergeSchema) -> JsonObject:
    """The document with the patch merged in by the kind's list strategies. It shares what did not change.

    Raises `PatchError`: 400 for a patch of the wrong form, 422 for lists of lists, 500 for what the real server answers as an internal
    error: an unknown `$patch`, a list element without its merge key, an order that does not match.
    """
    if not isinstance(patch, dict):
        if patch is None:
            return document
        kind = json_kind(patch)
        raise PatchError(400, f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
    return _merge_maps(document, copied(patch), schema)


def _wrong_type(expected: str, value: JsonValue) -> PatchError:
    return PatchError(500, f"expected a {expected}, but received a {go_type(value)}")


def _list_of(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise _wrong_type("[]interface {}", value)
    return value


def _merge_maps(original: JsonObject, patch: JsonObject, schema: MergeSchema) -> JsonObject:
    """A new map that shares what the patch does not touch; the patch is ours to change."""
    original = dict(original)
    if _DIRECTIVE in patch:
        directive = patch[_DIRECTIVE]
        if directive == "replace":
            del patch[_DIRECTIVE]
            return patch
        if directive == "delete":
            return {}
        raise PatchError(500, f"unknown patch type: {go_text(directive)} in map: {go_text(patch)}")
    if _RETAIN in patch:
        _retain(original, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        _merge_ordered(original, patch, key, schema)
    for key, value in patch.items():
        if key.startswith(_REMOVALS):
            _delete_scalars(original, key, value)
        else:
            _merge_field(original, key, value, schema)
    return original


def _merge_field(original: JsonObject, key: str, value: JsonValue, schema: MergeSchema) -> None:
    if value is None:
        original.pop(key, None)
        return
    held = original.get(key)
    field = schema.field(key)
    if isinstance(held, dict) and isinstance(value, dict):
        replaces = field.patch_strategy == "replace"
        original[key] = value if replaces else _merge_maps(held, value, field)
    elif isinstance(held, list) and isinstance(value, list):
        original[key] = _merge_lists(held, value, field)
    else:
        _discard_nulls(value)
        kept, keep = _without_directives(value)
        if keep:
            original[key] = kept
        else:
            original.pop(key, None)


def _merge_lists(original: list[JsonValue], patch: list[JsonValue], field: MergeSchema) -> list[JsonValue]:
    if field.patch_strategy != "merge":
        return patch
    if not original and not patch:
        return original
    of_maps = isinstance(_element(original, patch), dict)
    key = field.patch_merge_key
    if not of_maps:
        merged: list[JsonValue] = []
        for item in original + patch:
            if not _contains(merged, item, ""):
                merged.append(item)
        key = ""
    else:
        if not key:
            raise PatchError(500, "cannot merge lists without merge key for ")
        original, patch = _obey_elements(original, patch, key)
        merged = _merge_elements(list(original), patch, key, field)
    return _in_order(merged, wanted=patch, live=original, key=key)


def _element(*lists: list[JsonValue]) -> JsonValue:
    """Any element; all must be of one type and no lists."""
    items = [item for items in lists for item in items]
    if not items:
        raise PatchError(500, "no elements in any of the given slices")
    if isinstance(items[0], list):
        raise PatchError.unprocessable("lists of lists are not supported")
    if any(go_type(item) != go_type(items[0]) for item in items):
        raise PatchError(500, f"list element types are not identical: {go_text(list(lists))}")
    return items[0]


def _no_key(item: JsonObject, key: str) -> PatchError:
    return PatchError(500, f"map: {go_text(item)} does not contain declared merge key: {key}")


def _obey_elements(
    original: list[JsonValue], patch: list[JsonValue], key: str
) -> tuple[list[JsonValue], list[JsonValue]]:
    """Carries out the elements that are directives; the list left to merge into and the elements left to merge."""
    rest: list[JsonValue] = []
    replaces = False
    for item in patch:
        match item.get(_DIRECTIVE, _ABSENT):
            case _Absent():
                rest.append(item)
            case "delete":
                if key not in item:
                    raise _no_key(item, key)
                original = [held for held in original if not (key in held and same(held[key], item[key]))]
            case "replace":
                replaces = True
            case "merge":
                raise PatchError(500, "merging lists cannot yet be specified in the patch")
            case unknown:
                raise PatchError(500, f"unknown patch type: {go_text(unknown)} in map: {go_text(item)}")
    return (rest, []) if replaces else (original, rest)


class _Absent:
    """Stands for a key that is not there."""


_ABSENT: Final = _Absent()


def _merge_elements(merged: list[JsonValue], patch: list[JsonValue], key: str, field: MergeSchema) -> list[JsonValue]:
    for item in patch:
        if key not in item:
            raise _no_key(item, key)
        at = _index(merged, item, key)
        if at < 0:
            merged.append(item)
        else:
            merged[at] = _merge_maps(merged[at], item, field.element)
    return merged


# --- order -----------------------------------------------------------------------------------------------------------


def _index(items: list[JsonValue], sought: JsonValue, key: str) -> int:
    """Where the item is; by merge key unless `key` is empty."""
    wanted = sought.get(key) if key else sought
    for at, item in enumerate(items):
        if (key in item and same(item[key], wanted)) if key else same(item, wanted):
            return at
    return -1


def _contains(items: list[JsonValue], sought: JsonValue, key: str) -> bool:
    return _index(items, sought, key) >= 0


def _in_order(merged: list[JsonValue], *, wanted: list[JsonValue], live: list[JsonValue], key: str) -> list[JsonValue]:
    """What the patch names, in its order, and what only the server has, in its own; interleaved by the live order where both are in it."""
    if key:
        for item in (*merged, *wanted, *live):
            if key not in item:
                raise _no_key(item, key)
    named = sorted(
        (item for item in merged if _contains(wanted, item, key)), key=lambda item: _index(wanted, item, key)
    )
    others = sorted(
        (item for item in merged if not _contains(wanted, item, key)), key=lambda item: _index(live, item, key)
    )
    ordered: list[JsonValue] = []
    while named and others:
        other_at, named_at = _index(live, others[0], key), _index(live, named[0], key)
        other_first = 0 <= other_at < named_at
        ordered.append((others if other_first else named).pop(0))
    return ordered + named + others


def _merge_ordered(original: JsonObject, patch: JsonObject, directive: str, schema: MergeSchema) -> None:
    """One `$setElementOrder/LIST` with the list it is about; both are taken out of the patch."""
    order = _list_of(patch.pop(directive))
    name = _named(directive, _ORDER, _BAD_ORDER)
    field = schema.field(name)
    live = _list_of(original[name]) if name in original else None
    given = _list_of(patch[name]) if name in patch else None
    key = field.patch_merge_key
    _check_order(given or [], order, key)
    if live is None and given is None:
        return
    del_given = patch.pop(name, None)
    if given is None:
        merged = list(live or [])
    elif live is None:
        merged = _list_of(_without_directives(del_given)[0])
    else:
        merged = _merge_lists(live, given, field)
    _element(live or [], given or [])
    original[name] = _in_order(merged, wanted=order, live=live or [], key=key)


def _check_order(patch: list[JsonValue], order: list[JsonValue], key: str) -> None:
    if not patch or not order:
        return
    rest = [item for item in patch if not (isinstance(item, dict) and _DIRECTIVE in item)]
    at = 0
    for item in order:
        if at == len(rest):
            break
        for each in (rest[at], item) if key else ():
            if not isinstance(each, dict):
                raise _wrong_type("map[string]interface {}", each)
            if key not in each:
                raise _no_key(each, key)
        if same(rest[at][key], item[key]) if key else same(rest[at], item):
            at += 1
    if at < len(rest):
        message = f"The order in patch list:\n{go_text(patch)}\n doesn't match {_ORDER} list:\n{go_text(order)}\n"
        raise PatchError(500, message)


# --- the other directives --------------------------------------------------------------------------------------------


def _named(directive: str, prefix: str, problem: str) -> str:
    head, slash, name = directive.partition("/")
    if head != prefix or not slash:
        raise PatchError(400, problem)
    return name


def _delete_scalars(original: JsonObject, directive: str, value: JsonValue) -> None:
    name = _named(directive, _REMOVALS, _BAD_REMOVALS)
    if value is None:
        original.pop(name, None)
    elif name in original:
        removals = _list_of(value)
        held = _list_of(original[name])
        if held or removals:
            _element(held, removals)
        original[name] = [item for item in held if not _contains(removals, item, "")]


def _retain(original: JsonObject, patch: JsonObject) -> None:
    retained = patch.pop(_RETAIN)
    if not isinstance(retained, list):
        raise PatchError(400, _BAD_RETAIN)
    for key, value in patch.items():
        if value is not None and not key.startswith((_ORDER, _REMOVALS)) and key not in retained:
            raise PatchError(400, _BAD_RETAIN)
    for key in [key for key in original if key not in retained]:
        del original[key]


def _discard_nulls(value: JsonValue) -> None:
    if isinstance(value, dict):
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
        for item in value.values():
            _discard_nulls(item)
    elif isinstance(value, list):
        for item in value:
            _discard_nulls(item)


def _without_directives(value: JsonValue) -> tuple[JsonValue, bool]:
    """What a value that meets nothing to merge with leaves, and whether it leaves anything."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None, False
        left = {key: _without_directives(item) for key, item in value.items()}
        return {key: item for key, (item, keep) in left.items() if keep}, True
    if isinstance(value, list):
        return [item for item, keep in map(_without_directives, value) if keep], True
    return value, True
