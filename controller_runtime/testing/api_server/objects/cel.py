"""The few CEL rules of `x-kubernetes-validations` that can be read without a CEL interpreter.

Read are conjunctions (`&&`) of comparisons of a path or its size with a literal: `size(self.metadata.name) <= 50`,
`self.min < 3`, `self.kind == "a"`, and `has(self.path)` with or without `!`. Not read, and so never violated here but counted in
`StructuralSchema.ignored_rules`: `||`, `?:`, arithmetic, comparisons of two paths, `oldSelf` (transition rules), macros such as
`all` and `exists`, functions other than `size`, `messageExpression` (the plain message is used), `optionalOldSelf`, `reason`.
A rule below a list or a map with free keys is not read either.
"""

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from controller_runtime.testing.api_server.objects.field_errors import ErrorType, FieldError, invalid
from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue

_PATH: Final = r"self((?:\.[A-Za-z_]\w*)*)"
_TERM: Final = re.compile(
    rf"(?:(?P<size>size\({_PATH}\))|(?P<plain>{_PATH}))\s*(?P<operator><=|>=|==|!=|<|>)\s*"
    rf"(?P<literal>-?\d+(?:\.\d+)?|true|false|\"[^\"\\]*\"|'[^'\\]*')"
)
_HAS: Final = re.compile(rf"(?P<negated>!\s*)?has\({_PATH}\)")
_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
Check = Callable[[JsonValue], bool]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule that could be read: where its `self` is, what it checks, and its message."""

    below: tuple[str, ...]
    checks: tuple[Check, ...]
    message: str
    field_path: str
    self_type: str

    def is_below(self, name: str) -> bool:
        """Whether the rule's `self` is this field of the object or within it."""
        return self.below[:1] == (name,)

    def errors(self, obj: JsonObject) -> list[FieldError]:
        """At most one error; none where the rule's `self` is absent."""
        found, value = _at(obj, self.below)
        if not found or value is None:
            return []
        try:
            if all(check(value) for check in self.checks):
                return []
        except _NoSuchKeyError as error:
            text = self.message.removeprefix("failed rule: ")
            return [invalid(_named(self.below), self.self_type, f"no such key: {error} evaluating rule: {text}")]
        path = f"{'.'.join(self.below)}{self.field_path}".removeprefix(".") or "<nil>"
        if isinstance(value, dict | list):
            return [FieldError(path, ErrorType.INVALID, f"Invalid value: {self.message}")]
        return [invalid(path, value, self.message)]


def _named(below: tuple[str, ...]) -> str:
    return ".".join(below) or "<nil>"


class _NoSuchKeyError(Exception):
    """A rule asks for a field that is not set."""


def read_rules(schema: JsonObject, below: tuple[str, ...] = ()) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """All rules of a schema: those that can be evaluated, and the texts of the others."""
    rules: list[Rule] = []
    ignored: list[str] = []
    for given in schema.get("x-kubernetes-validations", ()):
        checks = _checks(given["rule"])
        if checks is None:
            ignored.append(given["rule"])
            continue
        message = given.get("message") or f"failed rule: {given['rule'].strip()}"
        rules.append(
            Rule(
                below=below,
                checks=checks,
                message=message,
                field_path=given.get("fieldPath", ""),
                self_type=schema.get("type", ""),
            )
        )
    for name, each in schema.get("properties", {}).items():
        more, unread = read_rules(each, (*below, name))
        rules += more
        ignored += unread
    for repeated in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(repeated, dict):
            more, unread = read_rules(repeated)
            ignored += [*unread, *(rule.message for rule in more)]
    return tuple(rules), tuple(ignored)


def _checks(text: str) -> tuple[Check, ...] | None:
    checks = [_check(term.strip()) for term in text.split("&&")]
    return None if any(check is None for check in checks) else tuple(check for check in checks if check)


def _check(text: str) -> Check | None:
    if found := _HAS.fullmatch(text):
        path, negated = _names(found[2]), found["negated"] is not None
        return lambda value: _at(value, path)[0] is not negated
    found = _TERM.fullmatch(text)
    if found is None:
        return None
    path = _names(found[2] or found[4] or "")
    compare, sized = _OPERATORS[found["operator"]], bool(found["size"])
    literal = found["literal"]
    bound = literal[1:-1] if literal[0] in "\"'" else json.loads(literal)

    def check(value: JsonValue) -> bool:
        there, held = _at(value, path)
        if not there:
            raise _NoSuchKeyError(path[-1])
        return bool(compare(len(held) if sized else held, bound))

    return check


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name for name in dotted.split(".") if name)


def _at(value: JsonValue, path: tuple[str, ...]) -> tuple[bool, JsonValue]:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False, None
        value = value[name]
    return True, value
