"""Go duration strings such as `1h30m` or `500ms` (CON-4), exact to the nanosecond.

Specs and settings are written in them. Pure arithmetic; models, validation and settings rely on it.
"""

import re
from typing import Final

SECOND: Final = 1_000_000_000
"""Nanoseconds in a second."""

_UNIT: Final = "(ns|[u\u00b5\u03bcm]?s|m|h)"
DURATION_PATTERN: Final = rf"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+){_UNIT})+)$|^-(0|((0+(\.0*)?|\.0+){_UNIT})+)$"
"""The durations that are not negative, in the CRD schema's words (ADM-4, ADM-16)."""

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # micro sign
    "\u03bcs": 1_000,  # Greek letter mu, which Go takes too
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_TERM: Final = re.compile("([0-9]*)(?:\\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_LONGEST: Final = (1 << 63) - 1


class DurationError(ValueError):
    """The text is not a Go duration."""


def parse_duration(text: str) -> int:
    """Nanoseconds of a Go duration string; negative ones are allowed here. Raises `DurationError`."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total = position = 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        if term is None or not (term[1] or term[2]):
            break
        unit = _UNITS[term[3]]
        fraction = term[2] or ""
        total += _whole(term[1]) * unit + _whole(fraction[:18]) * unit // 10 ** len(fraction[:18])
        position = term.end()
    if not rest or position < len(rest):
        raise DurationError(f"{text!r} is not a duration; write it like 30s, 10m or 1h30m")
    if total > _LONGEST:
        raise DurationError(f"{text!r} is longer than the longest duration, about 292 years")
    return sign * total


def _whole(digits: str) -> int:
    # More digits than this overflow in Go as well; int() would refuse thousands of them with an error of its own.
    return int(digits.lstrip("0")[:40] or "0")


def duration_seconds(text: str) -> float:
    """Seconds of a Go duration string. Raises `DurationError`."""
    return parse_duration(text) / SECOND


def format_duration(nanoseconds: int) -> str:
    """The text Go prints for a duration: `1h30m0s`, `1.5s`, `500ms`, `0s`."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < SECOND:
        name = "ns" if rest < 1_000 else "\u00b5s" if rest < 1_000_000 else "ms"
        return f"{sign}{_decimal(rest, _UNITS[name])}{name}"
    minutes, rest = divmod(rest, _UNITS["m"])
    text = f"{_decimal(rest, SECOND)}s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    digits = str(fraction).rjust(len(str(unit)) - 1, "0").rstrip("0") if fraction else ""
    return f"{whole}.{digits}" if digits else str(whole)
