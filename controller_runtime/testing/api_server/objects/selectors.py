"""Label and field selectors as list and watch take them, with the API server's own error texts.

The server's lists and watches rely on it; it relies on nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from controller_runtime.testing.api_server.objects.values import go_quoted


class SelectorError(ValueError):
    """A selector that cannot be read or asks for a field the kind has no selector for. The server answers 400 with this text."""


_OPERATORS: Final = ("in", "notin", "=", "==", "!=", "gt", "lt")
_EXPECTED: Final = ", ".join(_OPERATORS)
_TOKEN: Final = re.compile(r"\s*(?:(==|!=|[=!<>(),])|([^\s=!<>(),]+))")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


# --- labels ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LabelRequirement:
    """One term of a label selector; `operator` is one of `exists ! in notin = == != gt lt`."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """As Kubernetes: a missing label satisfies `!=` and `notin`, and never `gt` and `lt`."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "in" | "=" | "==":
                return value in self.values
            case "notin" | "!=":
                return value not in self.values
        if value is None or not re.fullmatch(r"[+-]?[0-9]+", value, re.ASCII):
            return False
        bound = int(next(iter(self.values)))
        return int(value) > bound if self.operator == "gt" else int(value) < bound


@dataclass(frozen=True)
class LabelQuery:
    """A label selector: all its requirements must hold; the empty one matches everything."""

    requirements: tuple[LabelRequirement, ...] = ()

    @staticmethod
    def parse(text: str) -> "LabelQuery":
        """Of the query parameter: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`. Raises `SelectorError` with Kubernetes' text."""
        return LabelQuery(tuple(_LabelParser(text).requirements()))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.matches(labels or {}) for requirement in self.requirements)


class _LabelParser:
    """Recursive descent over tokens; a token is its text and whether it is a symbol."""

    def __init__(self, text: str) -> None:
        self._tokens = [(found[1] or found[2], found[1] is not None) for found in _TOKEN.finditer(text)]
        self._tokens.append(("", True))
        self._at = 0

    def requirements(self) -> list[LabelRequirement]:
        found: list[LabelRequirement] = []
        text, symbol = self._peek()
        if text == "" and symbol:
            return found
        if symbol and text != "!":
            raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            text, symbol = self._next()
            if symbol and text == "":
                return found
            if not symbol or text != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            text, symbol = self._peek()
            if symbol and text != "!":
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def _peek(self) -> tuple[str, bool]:
        return self._tokens[self._at]

    def _next(self) -> tuple[str, bool]:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _requirement(self) -> LabelRequirement:
        key, symbol = self._next()
        absent = symbol and key == "!"
        if absent:
            key, symbol = self._next()
        if symbol:
            raise SelectorError(f"found '{key}', expected: identifier")
        _check_key(key)
        text, symbol = self._peek()
        if absent:
            return LabelRequirement(key=key, operator="!")
        if symbol and text in ("", ","):
            return LabelRequirement(key=key, operator="exists")
        text, symbol = self._next()
        if not symbol and text in ("in", "notin"):
            return _checked(LabelRequirement(key=key, operator=text, values=frozenset(self._values())))
        operator = {"=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}.get(text) if symbol else None
        if operator is None:
            raise SelectorError(f"found '{text}', expected: {_EXPECTED}")
        return _checked(LabelRequirement(key=key, operator=operator, values=frozenset({self._value()})))

    def _value(self) -> str:
        text, symbol = self._peek()
        if symbol and text in ("", ","):
            return ""
        text, symbol = self._next()
        if symbol:
            raise SelectorError(f"found '{text}', expected: identifier")
        return text

    def _values(self) -> list[str]:
        text, symbol = self._next()
        if not symbol or text != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        text, symbol = self._peek()
        if symbol and text not in (",", ")"):
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        values: list[str] = []
        waiting = True
        while True:
            text, symbol = self._next()
            if not symbol:
                if not waiting:
                    raise SelectorError(f"found '{text}', expected: ',' or ')'")
                values.append(text)
                waiting = False
            elif text == ",":
                if waiting:
                    values.append("")
                waiting = True
            elif text == ")":
                return [*values, ""] if waiting else values
            else:
                expected = "',', or identifier" if waiting else "',' or ')'"
                raise SelectorError(f"found '{text}', expected: {expected}")


def _invalid(path: str, value: str, detail: str) -> SelectorError:
    return SelectorError(f"{path}: Invalid value: {value}: {detail}")


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    problems: list[str] = []
    if "/" in prefix:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        raise _invalid("<nil>", go_quoted(key), f"a valid label key {_NAME_RULE} {optional}")
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif prefix and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        problems.append(
            f"prefix part {_SUBDOMAIN_RULE}" if len(prefix) <= 253 else "prefix part must be no more than 253 bytes"
        )
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        problems.append(f"name part {_NAME_RULE}")
    if problems:
        raise _invalid("<nil>", go_quoted(key), "; ".join(problems))


def _checked(requirement: LabelRequirement) -> LabelRequirement:
    for number, value in enumerate(sorted(requirement.values)):
        if requirement.operator in ("gt", "lt") and not re.fullmatch(r"[+-]?[0-9]+", value, re.ASCII):
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _invalid(f"values[{number}]", go_quoted(value), detail)
        problems = []
        if len(value) > 63:
            problems.append("must be no more than 63 bytes")
        if value and not _NAME.fullmatch(value):
            problems.append(_VALUE_RULE)
        if problems:
            raise _invalid(f"values[{number}][{requirement.key}]", go_quoted(value), "; ".join(problems))
    return requirement


# --- fields ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FieldRequirement:
    """One term of a field selector: the field equals the value, or does not."""

    field: str
    value: str
    equal: bool


FieldReader = Callable[[Any], str]
"""Reads a selectable field of an object as text; an unset field is the empty text."""


@dataclass(frozen=True)
class FieldQuery:
    """A field selector: all its requirements must hold; the empty one matches everything."""

    requirements: tuple[FieldRequirement, ...] = ()

    @staticmethod
    def parse(text: str) -> "FieldQuery":
        r"""Of the query parameter: `a=b,c==d,e!=f`, with `\,`, `\=` and `\\` in values. Raises `SelectorError` with Kubernetes' text."""
        requirements: list[FieldRequirement] = []
        for term in sorted(re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL)):
            found = re.match(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
            if found is None:
                raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
            requirements.append(FieldRequirement(field=found[1], value=_unescaped(found[3]), equal=found[2] != "!="))
        return FieldQuery(tuple(requirements))

    def check(self, supported: Sequence[str] | Mapping[str, Any], kind: str = "") -> None:
        """Raises `SelectorError` for a field that is not supported.

        With a `kind` the text is that of a built-in kind with selectors of its own; without, that of all other kinds, which know only the
        name and the namespace.
        """
        for requirement in self.requirements:
            if requirement.field in supported:
                continue
            if kind:
                raise SelectorError(f"field label not supported: {requirement.field}")
            known = ", ".join(go_quoted(each) for each in supported)
            raise SelectorError(f"{go_quoted(requirement.field)} is not a known field selector: only {known}")

    def matches(self, obj: Any, supported: Mapping[str, FieldReader] | Sequence[str], kind: str = "") -> bool:
        """Whether the object is selected.

        `supported` are the kind's selectable fields: their names, read as paths into the object, or names with readers. Raises as
        `check` does.
        """
        self.check(supported, kind)
        for requirement in self.requirements:
            reader = supported[requirement.field] if isinstance(supported, Mapping) else None
            value = reader(obj) if reader else field_text(obj, requirement.field)
            if (value == requirement.value) is not requirement.equal:
                return False
        return True

    def required(self, field: str) -> str | None:
        """The value that an equality term demands of the field, if there is one; lets a list by name be a lookup."""
        return next((each.value for each in self.requirements if each.equal and each.field == field), None)


def field_text(obj: Any, path: str) -> str:
    """The value at a dotted path as a field selector compares it: unset is empty, booleans and numbers are their JSON text."""
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    if obj is None:
        return ""
    return str(obj).lower() if isinstance(obj, bool) else str(obj)


def _unescaped(value: str) -> str:
    plain = []
    rest = iter(value)
    for letter in rest:
        if letter == "\\":
            escaped = next(rest, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            plain.append(escaped)
        elif letter in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(letter)}")
        else:
            plain.append(letter)
    return "".join(plain)
