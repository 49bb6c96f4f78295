"""JSON values as Go sees them: copies, equality, and the texts Go prints for them, since error messages carry those.

Everything in this folder relies on it.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
JsonValue: TypeAlias = Any
"""What `json.loads` gives: dict, list, str, int, float, bool or None."""
JsonObject: TypeAlias = dict[str, Any]


def copied(value: JsonValue) -> JsonValue:
    """A deep copy. Through text and back is the fastest way there is; what has no text is copied by hand."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return value
    try:
        return _decode(_encode(value))
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):  # numbers beyond 64 bits, half characters
        return _copied_by_hand(value)


def _copied_by_hand(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _copied_by_hand(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied_by_hand(item) for item in value]
    return value


def same(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON values: `true` is not 1, but 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(same(item, right[key]) for key, item in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def go_text(value: JsonValue) -> str:
    """The value as Go's `%v` prints it: `map[a:1 b:[x y]]`, `<nil>`, `true`."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case Mapping():
            return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
        case list() | tuple():
            return "[" + " ".join(go_text(item) for item in value) + "]"
        case float():
            return go_float(value)
    return str(value)


def go_float(value: float) -> str:
    """The shortest text of a float as Go prints it: 0.5, 3, 1e+21."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def go_quoted(text: str) -> str:
    """The text in quotes as Go's `%q` does it, as far as JSON's quoting goes the same way."""
    return json.dumps(text, ensure_ascii=False)


def go_type(value: JsonValue) -> str:
    """The Go type of a decoded JSON value, as Kubernetes' messages name it."""
    match value:
        case None:
            return "%!s(<nil>)"
        case bool():
            return "bool"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
        case str():
            return "string"
        case int():
            return "int64"
    return "float64"


def json_kind(value: JsonValue) -> str:
    """What Go's JSON decoder calls it in `cannot unmarshal KIND into Go value`."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
    return "number"
