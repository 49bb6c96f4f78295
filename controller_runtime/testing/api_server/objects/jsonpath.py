r"""The part of Kubernetes' JSONPath that printer columns use.

Read are `.name`, `\.` in names, `['name']`, `[0]`, `[-1]`, `[1:3]`, `[*]` and `.*`, and filters `[?(@.type=="Ready")]` with `==`, `!=`,
`<`, `<=`, `>`, `>=` against a literal, or for existence. Not read: recursion (`..`), unions, ranges, several templates. `tables.py`
relies on it.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from controller_runtime.testing.api_server.objects.values import JsonValue

Step = Callable[[JsonValue], Iterator[JsonValue]]


class JsonPathError(ValueError):
    """A path outside the part that is read."""


_STEP: Final = re.compile(
    r"""\.?\[\?\(@(?P<where>[^()\]]*?)(?:\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>"[^"]*"|'[^']*'|[^)\s]+)\s*)?\)\]
    |\.?\[(?:'(?P<quoted>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\]
    |\.?\[(?P<index>-?\d+)\]
    |\.?\[(?P<start>-?\d*):(?P<end>-?\d*)\]
    |\.?(?P<all>\[\*\]|\*)
    |\.(?P<name>(?:[^.\[\]\\{}\s]|\\.)+)""",
    re.VERBOSE,
)
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class JsonPath:
    """A parsed path."""

    text: str
    steps: tuple[Step, ...]

    @staticmethod
    def parse(text: str) -> "JsonPath":
        """Of a column's `jsonPath`, with or without braces. Raises `JsonPathError`."""
        path = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
        steps: list[Step] = []
        at = 0
        while at < len(path) and path != ".":
            found = _STEP.match(path, at)
            if found is None:
                raise JsonPathError(f'unrecognized column definition "{text}"')
            steps.append(_step(found))
            at = found.end()
        return JsonPath(text, tuple(steps))

    def find(self, obj: JsonValue) -> list[JsonValue]:
        """All values at the path, in order; empty where a part of the way is missing."""
        values = [obj]
        for step in self.steps:
            values = [found for value in values for found in step(value)]
        return values


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _step(found: re.Match[str]) -> Step:
    if found["where"] is not None:
        return _filter(found)
    if found["all"]:
        return _everything
    if found["index"]:
        return _at(int(found["index"]))
    if found["start"] is not None:
        start, end = found["start"], found["end"]
        return _slice(slice(int(start) if start else None, int(end) if end else None))
    return _field(_plain(found["quoted"] or found["double"] or found["name"] or ""))


def _field(name: str) -> Step:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _at(index: int) -> Step:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice(wanted: slice) -> Step:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, list):
            yield from value[wanted]

    return step


def _everything(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, dict):
        yield from (value[name] for name in sorted(value))
    elif isinstance(value, list):
        yield from value


def _filter(found: re.Match[str]) -> Step:
    path = JsonPath.parse(found["where"].strip() or ".")
    compare = _OPERATORS.get(found["operator"] or "")
    literal = _literal(found["literal"]) if compare else None

    def holds(item: JsonValue) -> bool:
        values = path.find(item)
        if not values or compare is None:
            return bool(values)
        try:
            return compare(values[0], literal)
        except TypeError:
            return False

    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, list):
            yield from filter(holds, value)
        elif isinstance(value, dict):
            yield from filter(holds, value.values())

    return step


def _literal(text: str) -> JsonValue:
    if text[0] in "\"'":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        raise JsonPathError(f"unrecognized literal {text} in a filter") from None
