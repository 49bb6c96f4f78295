"""What all models of this API share: shape, spelling, and how a raw object becomes a model without ever raising.

*Shape* is what the CRD schema guarantees (a number is a number); *validity* is what `validation` says about a
well-shaped spec. A shape fault is reported with its path, and the rest of the object is still looked at, so that all
faults show at once (admission.md). Relies on pydantic and msgspec; every model and the parsing functions rely on it.
"""

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
    """Field path as Kubernetes writes it: `spec.packages[tuning].version`."""
    value: object
    """The value found there; None if it is missing."""
    message: str
    """What is wrong and the way out, for a person."""

    def __str__(self) -> str:
        shown = "" if self.value is None else f" {_short(self.value)}:"
        return f"{self.path}:{shown} {self.message}"


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
            try:
                without = msgspec.json.encode(_without_nulls(msgspec.json.decode(raw)))
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                without = raw if isinstance(raw, bytes) else raw.encode(errors="replace")
            return cls.model_validate_json(without)


M = TypeVar("M", bound=Model)

_PLACEHOLDERS: Final[dict[str, object]] = {"type": "noop"}
"""Stand-ins for required fields that are missing, so that what surrounds them can still be checked."""


def parse_leniently(model: type[M], raw: object, *, path: str) -> tuple[M, list[Fault]]:
    """The model of a decoded object and its shape faults; what is misshapen is left out of the model."""
    faults: list[Fault] = []
    remaining = _without_nulls(raw)
    # Each round removes at least one misshapen value, so a document cannot need more rounds than it has values.
    while True:
        try:
            return model.model_validate_json(msgspec.json.encode(remaining)), faults
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False)
            faults += _faults(details, path)
            remaining = _mended(remaining, details)


def decode_object(raw: bytes | str | object) -> tuple[object, list[Fault]]:
    """Decoded JSON, or the fault that it is none."""
    if not isinstance(raw, bytes | str):
        return raw, []
    try:
        return msgspec.json.decode(raw), []
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return {}, [Fault("", None, f"is not a JSON object: {error}")]


def child(path: str, *steps: str | int) -> str:
    """A field path below `path`: names in upper or lower camel case are joined by dots, keys and indexes stand in brackets."""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def key(path: str, name: object) -> str:
    """The path of a map's or list's entry."""
    return f"{path}[{name}]"


_MAPS: Final = frozenset({"packages", "configMap", "configInterrupts", "dependsOn", "matchLabels"})


def _faults(details: list[ErrorDetails], path: str) -> list[Fault]:
    seen: dict[str, Fault] = {}
    for detail in details:
        steps = _real_steps(detail)
        where = path
        previous: str | int = ""
        for step in steps:
            where = key(where, step) if isinstance(step, int) or previous in _MAPS else child(where, str(step))
            previous = "" if previous in _MAPS else step
        missing = detail["type"] == "missing"
        message = "is required" if missing else detail["msg"][0].lower() + detail["msg"][1:]
        seen.setdefault(where, Fault(where, None if missing else detail["input"], message))
    return list(seen.values())


def _real_steps(detail: ErrorDetails) -> tuple[str | int, ...]:
    # A union names the alternative it tried as a last step, which is no field of the document.
    steps = detail["loc"]
    return steps[:-1] if steps and steps[-1] in {"str", "int", "float"} else steps


def _mended(document: object, details: list[ErrorDetails]) -> object:
    result = _copied(document)
    whole = False
    doomed: list[tuple[Any, str | int]] = []
    for detail in details:
        steps = _real_steps(detail)
        if not steps:
            whole = True
            continue
        holder: Any = result
        for step in steps[:-1]:
            holder = holder[step]
        if detail["type"] == "missing":
            holder[steps[-1]] = _PLACEHOLDERS[str(steps[-1])]
        elif steps[-1] == "[key]":
            doomed.append((result, steps[-2]))
        else:
            doomed.append((holder, steps[-1]))
    for holder, step in sorted(doomed, key=lambda pair: pair[1] if isinstance(pair[1], int) else -1, reverse=True):
        if isinstance(holder, dict):
            holder.pop(step, None)
        elif isinstance(step, int) and step < len(holder):
            del holder[step]
    return {} if whole else result


def _copied(document: object) -> Any:
    if isinstance(document, dict):
        return {name: _copied(value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [_copied(value) for value in document]
    return document


def _without_nulls(document: object) -> Any:
    if isinstance(document, dict):
        return {name: _without_nulls(value) for name, value in document.items() if value is not None}
    if isinstance(document, list | tuple):
        return [_without_nulls(value) for value in document]
    return document


def _short(value: object) -> str:
    text = repr(value) if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode(errors="replace")
    return text if len(text) <= 80 else f"{text[:77]}..."
