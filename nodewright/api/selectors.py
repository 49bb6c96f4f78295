"""Label selectors exactly as Kubernetes has them: model, matching, validation, query string (ROL-1, ADM-5).

A selector of an invalid spec must not select by accident: an unknown operator matches nothing. Relies on `shape`; both
kinds, the engine (nodes) and the drain (protected pods) rely on it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final, Self

from pydantic import ConfigDict, Field

from nodewright.api.keys import is_dns_subdomain, is_label_value
from nodewright.api.shape import Fault, Model, child, entry

Labels = Mapping[str, str]
Matcher = Callable[[Labels], bool]
Canonical = frozenset[tuple[str, str, frozenset[str]]]


class Operator(StrEnum):
    """Operators of a match expression."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(Model):
    """One match expression."""

    key: str = Field(
        default="", description="Label key that the expression is about.", json_schema_extra={"required": True}
    )
    operator: str = Field(
        default="",
        description="In, NotIn, Exists or DoesNotExist.",
        json_schema_extra={"required": True, "enum": [each.value for each in Operator]},
    )
    values: tuple[str, ...] = Field(default=(), description="Values for In and NotIn; must be empty otherwise.")


class LabelSelector(Model):
    """All of `matchLabels` and `matchExpressions` must hold; the empty selector matches everything."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    match_labels: dict[str, str] = Field(
        default_factory=dict, description="Labels that must be there with these values."
    )
    match_expressions: tuple[Requirement, ...] = Field(default=(), description="Expressions that must all hold.")

    @classmethod
    def parse(cls, raw: Mapping[str, object]) -> Self:
        """A selector from decoded JSON. Raises pydantic's `ValidationError` if its shape is wrong."""
        return cls.model_validate(raw, strict=False)

    @property
    def empty(self) -> bool:
        """Whether nothing is required."""
        return not self.match_labels and not self.match_expressions

    @cached_property
    def matcher(self) -> Matcher:
        """The selector compiled once: labels in, verdict out."""
        return _compiled(self)

    def matches(self, labels: Labels) -> bool:
        """Whether an object with these labels is selected."""
        return self.matcher(labels)

    def query(self) -> str:
        """The selector as the `labelSelector` parameter of a list or watch."""
        terms = [f"{name}={value}" for name, value in sorted(self.match_labels.items())]
        for requirement in self.match_expressions:
            values = ",".join(sorted(requirement.values))
            match requirement.operator:
                case Operator.IN:
                    terms.append(f"{requirement.key} in ({values})")
                case Operator.NOT_IN:
                    terms.append(f"{requirement.key} notin ({values})")
                case Operator.EXISTS:
                    terms.append(requirement.key)
                case _:
                    terms.append(f"!{requirement.key}")
        return ",".join(terms)

    def canonical(self) -> Canonical:
        """Equal for selectors that require the same in another order or spelling (ADM-21)."""
        labels = {(name, Operator.IN.value, frozenset({value})) for name, value in self.match_labels.items()}
        return frozenset(
            labels | {(each.key, each.operator, frozenset(each.values)) for each in self.match_expressions}
        )


def _compiled(selector: LabelSelector) -> Matcher:
    labels = tuple(selector.match_labels.items())
    expressions = tuple(_compiled_requirement(each) for each in selector.match_expressions)

    # Runs for every node of the cluster in every pass: plain loops cost a fraction of generators.
    def matches(have: Labels) -> bool:
        for name, value in labels:
            if have.get(name) != value:
                return False
        for holds in expressions:  # noqa: SIM110
            if not holds(have):
                return False
        return True

    return matches


def _compiled_requirement(requirement: Requirement) -> Matcher:
    name, values = requirement.key, frozenset(requirement.values)
    match requirement.operator:
        case Operator.IN:
            return lambda have: have.get(name) in values
        case Operator.NOT_IN:
            return lambda have: have.get(name) not in values
        case Operator.EXISTS:
            return lambda have: name in have
        case Operator.DOES_NOT_EXIST:
            return lambda have: name not in have
        case _:
            return lambda _: False


_NAME_PART: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def is_qualified_name(name: str) -> bool:
    """Whether Kubernetes takes `name` as the key of a label, an annotation or a taint."""
    prefix, slash, rest = name.rpartition("/")
    return _NAME_PART.fullmatch(rest) is not None and (is_dns_subdomain(prefix) if slash else True)


def selector_faults(selector: LabelSelector, path: str) -> Iterator[Fault]:
    """All faults of a selector (ADM-5)."""
    labels = child(path, "matchLabels")
    for name, value in selector.match_labels.items():
        yield from _key_faults(name, labels)
        yield from _value_faults(value, entry(labels, name))
    for index, requirement in enumerate(selector.match_expressions):
        yield from _requirement_faults(requirement, child(path, "matchExpressions", index))


def _requirement_faults(requirement: Requirement, path: str) -> Iterator[Fault]:
    yield from _key_faults(requirement.key, child(path, "key"))
    values = child(path, "values")
    match requirement.operator:
        case Operator.IN | Operator.NOT_IN:
            if not requirement.values:
                yield Fault(values, [], f"must name at least one value for operator {requirement.operator}")
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if requirement.values:
                yield Fault(values, requirement.values, f"must be empty for operator {requirement.operator}")
        case _:
            yield Fault(child(path, "operator"), requirement.operator, "must be In, NotIn, Exists or DoesNotExist")
    for index, value in enumerate(requirement.values):
        yield from _value_faults(value, child(values, index))


def _key_faults(name: str, path: str) -> Iterator[Fault]:
    if not is_qualified_name(name):
        yield Fault(
            path,
            name,
            "is not a label key: an optional DNS prefix and `/`, then at most 63 letters, digits, `-`, `_`, `.`",
        )


def _value_faults(value: str, path: str) -> Iterator[Fault]:
    if not is_label_value(value):
        yield Fault(
            path,
            value,
            "is not a label value: at most 63 letters, digits, `-`, `_`, `.`, first and last a letter or digit",
        )
