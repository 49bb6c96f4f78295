"""Validation errors about fields, in Kubernetes' words.

The schema validation makes them; the server turns them into the causes of a `Status` of 422.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from controller_runtime.testing.api_server.objects.values import JsonValue, go_float, go_quoted


class ErrorType(StrEnum):
    """What is wrong; the value is the cause's `reason` in a `Status`."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    FORBIDDEN = "FieldValueForbidden"


@dataclass(frozen=True)
class FieldError:
    """One field's error; `str()` gives the line of the whole answer's message, `message` is the cause's message."""

    path: str
    """`spec.packages[0].name`; `<nil>` for errors that Kubernetes gives no path."""
    type: ErrorType
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def shown(value: JsonValue) -> str:
    """A bad value as messages show it: texts in quotes, numbers plain, all else as JSON with sorted keys."""
    if isinstance(value, str):
        return go_quoted(value)
    if isinstance(value, float):
        return go_float(value)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def required(path: str) -> FieldError:
    """The field is missing."""
    return FieldError(path, ErrorType.REQUIRED, "Required value")


def invalid(path: str, value: JsonValue, detail: str, *, type: ErrorType = ErrorType.INVALID) -> FieldError:  # noqa: A002
    """The value breaks a rule."""
    return FieldError(path, type, f"Invalid value: {shown(value)}: {detail}")


def not_supported(path: str, value: JsonValue, supported: Sequence[JsonValue]) -> FieldError:
    """The value is none of a closed set."""
    known = ", ".join(go_quoted(each if isinstance(each, str) else shown(each)) for each in supported)
    return FieldError(path, ErrorType.NOT_SUPPORTED, f"Unsupported value: {shown(value)}: supported values: {known}")


def duplicate(path: str, value: JsonValue) -> FieldError:
    """The value or key is there already."""
    return FieldError(path, ErrorType.DUPLICATE, f"Duplicate value: {shown(value)}")


def too_long(path: str, most: int) -> FieldError:
    """The text is too long; Kubernetes says bytes and counts letters."""
    unit = "byte" if most == 1 else "bytes"
    return FieldError(path, ErrorType.TOO_LONG, f"Too long: may not be more than {most} {unit}")


def too_many(path: str, actual: int, most: int) -> FieldError:
    """The list or map is too long."""
    unit = "item" if most == 1 else "items"
    return FieldError(path, ErrorType.TOO_MANY, f"Too many: {actual}: must have at most {most} {unit}")
