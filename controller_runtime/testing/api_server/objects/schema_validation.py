"""Which values a structural schema allows, and the errors for the others in the API server's words.

Of OpenAPI's keywords `type`, `nullable`, `enum`, `minimum` to `multipleOf`, lengths, `pattern`, `required`, `properties`,
`additionalProperties`, `items`, sizes, `allOf`, `anyOf`, `oneOf`, `not` and `x-kubernetes-int-or-string` are obeyed; of the formats
those in `_FORMATS`, the others are not checked. `schemas.py` is the door to this module.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from functools import lru_cache
from typing import Final

from controller_runtime.testing.api_server.objects.field_errors import (
    ErrorType,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue, go_float, go_quoted, same


def value_errors(value: JsonValue, schema: JsonObject, path: str) -> list[FieldError]:
    """What is wrong with a value at this path; the root's path is empty."""
    errors = list(_type_errors(value, schema, path))
    if value is None:
        return [*errors, *_enum_errors(value, schema, path)]
    errors += _combined_errors(value, schema, path)
    match value:
        case str():
            errors += _text_errors(value, schema, path)
        case bool():
            pass
        case int() | float():
            errors += _number_errors(value, schema, path)
        case list():
            errors += _list_errors(value, schema, path)
    errors += _enum_errors(value, schema, path)
    if isinstance(value, dict):
        errors += _map_errors(value, schema, path)
    return errors


def json_type(value: JsonValue) -> str:
    """The OpenAPI type of a value; whole floats count as integers where integers are asked for, elsewhere."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case dict():
            return "object"
        case list():
            return "array"
        case str():
            return "string"
        case int():
            return "integer"
    return "number"


def _named(path: str) -> str:
    """The field's path in an error: Kubernetes' `<nil>` is the root."""
    return path.removeprefix(".") or "<nil>"


def _type_errors(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-int-or-string"):
        types = ["integer", "string"]
    elif "type" in schema:
        types = [schema["type"]]
    else:
        return
    found = json_type(value)
    if value is None and schema.get("nullable"):
        return
    fits = (
        found in types
        or (found == "integer" and "number" in types)
        or (isinstance(value, float) and value.is_integer() and "integer" in types)
    )
    if not fits:
        detail = f"{path} in body must be of type {','.join(types)}: {go_quoted(found)}"
        yield invalid(_named(path), found, detail, type=ErrorType.TYPE_INVALID)


def _enum_errors(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    allowed = schema.get("enum")
    if allowed and not any(same(value, each) for each in allowed):
        yield not_supported(_named(path), value, allowed)


def _combined_errors(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    def tried(keyword: str) -> list[list[FieldError]]:
        return [value_errors(value, each, path) for each in schema.get(keyword, ())]

    def failed(text: str) -> FieldError:
        return invalid("<nil>", "", f"{go_quoted(path)} {text}")

    any_of = tried("anyOf")
    if any_of and all(any_of):
        yield failed("must validate at least one schema (anyOf)")
        yield from any_of[0]
    one_of = tried("oneOf")
    valid = sum(not errors for errors in one_of)
    if one_of and valid != 1:
        found = "Found none valid" if valid == 0 else f"Found {valid} valid alternatives"
        yield failed(f"must validate one and only one schema (oneOf). {found}")
        if valid == 0:
            yield from one_of[0]
    all_of = tried("allOf")
    for errors in all_of:
        yield from errors
    if any(all_of):
        yield failed("must validate all the schemas (allOf)" + (". None validated" if all(all_of) else ""))
    if "not" in schema and not value_errors(value, schema["not"], path):
        yield failed("must not validate the schema (not)")


def _number_errors(value: float, schema: JsonObject, path: str) -> Iterator[FieldError]:
    def bad(text: str, bound: float) -> FieldError:
        return invalid(_named(path), value, f"{path} in body should be {text} {go_float(bound)}")

    multiple = schema.get("multipleOf")
    if multiple and isinstance(value, int):
        multiple = int(multiple)  # the real server's own shortcut, with the error it leads to
        if multiple <= 0:
            yield invalid(_named(path), multiple, f"factor MultipleOf declared for {path} must be positive: {multiple}")
    if multiple and value % multiple:
        yield bad("a multiple of", multiple)
    most, least = schema.get("maximum"), schema.get("minimum")
    if most is not None:
        if schema.get("exclusiveMaximum") and value >= most:
            yield bad("less than", most)
        elif value > most:
            yield bad("less than or equal to", most)
    if least is not None:
        if schema.get("exclusiveMinimum") and value <= least:
            yield bad("greater than", least)
        elif value < least:
            yield bad("greater than or equal to", least)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    """Go's `$` is the very end of the text; Python's would let a newline follow."""
    return re.compile(text[:-1] + r"\Z" if text.endswith("$") and not text.endswith(r"\$") else text)


def _text_errors(value: str, schema: JsonObject, path: str) -> Iterator[FieldError]:
    most, least = schema.get("maxLength"), schema.get("minLength", 0)
    pattern = schema.get("pattern")
    if most is not None and len(value) > most:
        yield too_long(_named(path), most)
    elif len(value) < least:
        yield invalid(_named(path), value, f"{path} in body should be at least {least} chars long")
    elif pattern and not _pattern(pattern).search(value):
        yield invalid(_named(path), value, f"{path} in body should match '{pattern}'")
    wanted = schema.get("format", "")
    check = _FORMATS.get(wanted)
    if check and not check(value):
        detail = f"{path} in body must be of type {wanted}: {go_quoted(value)}"
        yield invalid(_named(path), value, detail, type=ErrorType.TYPE_INVALID)


def _list_errors(value: list[JsonValue], schema: JsonObject, path: str) -> Iterator[FieldError]:
    items = schema.get("items")
    if items:
        for at, item in enumerate(value):
            yield from value_errors(item, items, f"{path}[{at}]")
    most, least = schema.get("maxItems"), schema.get("minItems", 0)
    if len(value) < least:
        yield invalid(_named(path), len(value), f"{path} in body should have at least {least} items")
    if most is not None and len(value) > most:
        yield too_many(_named(path), len(value), most)


def _map_errors(value: JsonObject, schema: JsonObject, path: str) -> Iterator[FieldError]:
    most, least = schema.get("maxProperties"), schema.get("minProperties", 0)
    if len(value) < least:
        yield invalid(_named(path), len(value), f"{path} in body should have at least {least} properties")
    if most is not None and len(value) > most:
        yield too_many(_named(path), len(value), most)
    properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            yield from value_errors(item, properties[name], f"{path}.{name}" if path else name)
        elif isinstance(extra, dict):
            yield from value_errors(item, extra, f"{path}.{name}")
        elif extra is False:
            yield invalid(_named(path), name, f"{path}.{name} in body is a forbidden property")
    for name in schema.get("required", ()):
        if name not in value:
            yield required(_named(f"{path}.{name}"))


# --- lists that are sets or maps -------------------------------------------------------------------------------------


def list_errors(value: JsonValue, schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Duplicates in lists of type set and map, at any depth."""
    if isinstance(value, dict):
        extra = schema.get("additionalProperties")
        for name, item in value.items():
            if isinstance(extra, dict):
                yield from list_errors(item, extra, f"{path}[{name}]")
            known = schema.get("properties", {}).get(name)
            if known:
                yield from list_errors(item, known, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield from _duplicates(value, schema, path)
        for at, item in enumerate(value):
            yield from list_errors(item, schema.get("items") or {}, f"{path}[{at}]")


def _duplicates(value: list[JsonValue], schema: JsonObject, path: str) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        for at, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                yield invalid(f"{path}[{at}]", item, "must be an object for an array of list-type map")
                return
        names = schema.get("x-kubernetes-list-map-keys", ())
        keys = [{name: item[name] for name in names if item and name in item} for item in value]
    elif kind == "set":
        keys = value
    else:
        return
    for at, key in enumerate(keys):
        if sum(same(key, before) for before in keys[:at]) == 1:
            yield duplicate(f"{path}[{at}]", key)


# --- formats ---------------------------------------------------------------------------------------------------------


def _accepts(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return accepts


def _instant(text: str) -> None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)", text, re.ASCII):
        raise ValueError(text)
    datetime.fromisoformat(re.sub(r"\.\d+", "", text).upper())


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text, re.ASCII | re.IGNORECASE) is not None


_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "byte": _accepts(lambda text: base64.b64decode(text, validate=True)),
    "cidr": lambda text: "/" in text and _accepts(lambda each: ipaddress.ip_network(each, strict=False))(text),
    "date": _accepts(date.fromisoformat),
    "date-time": _accepts(_instant),
    "duration": _matches(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|ms|s|m|h|d|w))+)"),
    "ipv4": _accepts(ipaddress.IPv4Address),
    "ipv6": _accepts(ipaddress.IPv6Address),
    "uuid": _matches(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"),
}
