"""What all models of this API share: shape, spelling, and how a raw object becomes a model without ever raising.

*Shape* is what a type can say (a number is a number); *validity* is what `validation` says about a well-shaped spec.
A shape fault is reported with its path, and the rest of the object is still looked at, so that all faults show at
once (admission.md). Relies on pydantic and msgspec; every model and the parsing functions rely on it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with an object: where, what stands there, and what should."""

    path: str
    """Field path as Kubernetes writes it: `spec.packages[tuning].version`; empty for the whole object."""
    value: object
    """The value found there; None if it is missing."""
    message: str
    """What is wrong and the way out, for a person."""

    def __str__(self) -> str:
        shown = "" if self.value is None else f"{_short(self.value)} "
        return f"{self.path}: {shown}{self.message}" if self.path else f"{shown}{self.message}"


class Model(BaseModel):
    """Base of all models: immutable, camelCase outside, unknown fields ignored, no conversion between types."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )

    @classmethod
    def from_json(cls, raw: bytes | str) -> Self:
        """Parse JSON; explicit nulls count as absent, as the API server has it. Raises pydantic's `ValidationError`."""
        try:
            return cls.model_validate_json(raw)
        except ValidationError:
            document, faults = _decoded(raw)
            if faults:
                raise
            return cls.model_validate_json(msgspec.json.encode(_without_nulls(document)))


M = TypeVar("M", bound=Model)

_PLACEHOLDERS: Final[dict[str, object]] = {"type": "noop"}
"""Stand-ins for the required fields of the models, so that what surrounds a missing one can still be checked."""

_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)


def parse(model: type[M], raw: object, *, path: str) -> M | list[Fault]:
    """The model of raw or decoded JSON, or all faults of its shape. Never raises."""
    parsed, faults = parse_leniently(model, raw, path=path)
    return faults or parsed


def parse_leniently(model: type[M], raw: object, *, path: str) -> tuple[M, list[Fault]]:
    """The model of raw or decoded JSON with its misshapen parts left out, and all faults of its shape. Never raises.

    The model must have no required field of its own.
    """
    document, unreadable = _decoded(raw)
    if unreadable:
        return model(), [Fault(path, None, f"is not a JSON object: {unreadable}")]
    faults: dict[str, Fault] = {}
    remaining = _without_nulls(document)
    # Each round removes or fills in at least one value, so a document cannot need more rounds than it has values.
    while True:
        try:
            return model.model_validate_json(msgspec.json.encode(remaining)), list(faults.values())
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False)
            for fault in _faults(details, path):
                faults.setdefault(fault.path, fault)
            remaining = _mended(remaining, details)


def bounds_faults(model: Model, path: str) -> Iterator[Fault]:
    """All numbers of the model, and of the models in it, that are beyond the `minimum` or `maximum` of their field."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        where = child(path, field.alias or name)
        if isinstance(value, Model):
            yield from bounds_faults(value, where)
        elif isinstance(value, tuple):
            for index, each in enumerate(value):
                if isinstance(each, Model):
                    yield from bounds_faults(each, child(where, index))
        elif isinstance(value, int) and isinstance(field.json_schema_extra, dict):
            least, most = field.json_schema_extra.get("minimum"), field.json_schema_extra.get("maximum")
            if (isinstance(least, int) and value < least) or (isinstance(most, int) and value > most):
                yield Fault(
                    where, value, f"must be {least} to {most}" if most is not None else f"must be at least {least}"
                )


def child(path: str, *steps: str | int) -> str:
    """The path of a field below `path`; an integer is the index of a list's entry."""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def entry(path: str, name: object) -> str:
    """The path of a map's entry."""
    return f"{path}[{name}]"


def _decoded(raw: object) -> tuple[Any, str]:
    """Plain JSON values and an empty text, or nothing and why not."""
    try:
        text: Any = raw if isinstance(raw, bytes | str | msgspec.Raw) else msgspec.json.encode(raw)
        document = msgspec.json.decode(text)
        msgspec.json.encode(document)  # integers beyond 64 bits can be read but not written
    except _UNREADABLE as error:
        return None, str(error) or type(error).__name__
    return document, ""


def _without_nulls(document: object) -> Any:
    if isinstance(document, dict):
        return {name: _without_nulls(value) for name, value in document.items() if value is not None}
    if isinstance(document, list):
        return [_without_nulls(value) for value in document if value is not None]
    return document


_MAPS: Final = frozenset({"packages", "configMap", "configInterrupts", "dependsOn", "matchLabels"})
"""Fields whose children are entries of a map, not fields."""


def _faults(details: Iterable[ErrorDetails], path: str) -> Iterable[Fault]:
    for detail in details:
        where, in_map = path, False
        for step in _steps(detail):
            where = entry(where, step) if in_map else child(where, step)
            in_map = not in_map and step in _MAPS
        missing = detail["type"] == "missing"
        message = "is required" if missing else f"is misshapen: {detail['msg'][:1].lower()}{detail['msg'][1:]}"
        if detail["type"] == "string_type" and isinstance(detail["input"], bool | int | float):
            message += "; put it in quotes"  # YAML reads a version such as 1.2 as a number
        yield Fault(where, None if missing else detail["input"], message)


def _steps(detail: ErrorDetails) -> tuple[str | int, ...]:
    # A union names the alternative it tried as a last step, which is no field of the document.
    steps = detail["loc"]
    return steps[:-1] if steps and steps[-1] in {"str", "int", "float"} else steps


def _mended(document: Any, details: Iterable[ErrorDetails]) -> Any:
    """The document with what was missing filled in, and without what was misshapen."""
    doomed: set[tuple[str | int, ...]] = set()
    result = document
    for detail in details:
        steps = _steps(detail)
        if detail["type"] == "missing":
            result = _replaced(result, steps, _PLACEHOLDERS[str(steps[-1])])
        else:
            doomed.add(steps)
    # From the last to the first, so that an index still points to what it pointed to.
    for steps in sorted(doomed, key=lambda each: [(isinstance(step, str), step) for step in each], reverse=True):
        result = _removed(result, steps)
    return result


def _replaced(document: Any, steps: tuple[str | int, ...], value: object) -> Any:
    if not steps:
        return value
    first, *rest = steps
    if isinstance(document, dict):
        return {**document, first: _replaced(document.get(first), tuple(rest), value)}
    return [_replaced(each, tuple(rest), value) if index == first else each for index, each in enumerate(document)]


def _removed(document: Any, steps: tuple[str | int, ...]) -> Any:
    if not steps:
        return {}
    first, *rest = steps
    if isinstance(document, dict):
        if not rest:
            return {name: each for name, each in document.items() if name != first}
        return {name: _removed(each, tuple(rest)) if name == first else each for name, each in document.items()}
    if not rest:
        return [each for index, each in enumerate(document) if index != first]
    return [_removed(each, tuple(rest)) if index == first else each for index, each in enumerate(document)]


def _short(value: object) -> str:
    text = repr(value) if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."
