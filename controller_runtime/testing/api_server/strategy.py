"""What is special about a kind when it is written, deleted or selected. `Strategy` is right for plain objects.

The registry gives each resource one; `writes` and `deletion` ask it. Strategies get objects they may change at the
top level; anything deeper may be shared with the store and is copied before it is changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from controller_runtime.testing.api_server.refusals import FieldProblem
from controller_runtime.testing.api_server.values import Object, User

FieldReader = Callable[[Object], str]


@dataclass(frozen=True, slots=True)
class Moment:
    """When, by whom and with what luck a write happens."""

    now: datetime
    rng: random.Random
    user: User

    @property
    def stamp(self) -> str:
        """The time as Kubernetes writes it."""
        return stamp(self.now)


def stamp(moment: datetime) -> str:
    """RFC 3339 in seconds, UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def text(*path: str) -> FieldReader:
    """Reads a string at a path; empty where there is none."""

    def read(item: Object) -> str:
        found: object = item
        for step in path:
            if not isinstance(found, dict):
                return ""
            found = found.get(step)
        if isinstance(found, bool):
            return "true" if found else "false"
        return "" if found is None else str(found)

    return read


def flag(*path: str) -> FieldReader:
    """Reads a boolean at a path; `false` where there is none."""
    read = text(*path)
    return lambda item: read(item) or "false"


class Strategy:
    """Plain objects: no defaults, no validation but the metadata's, status split off if there is one."""

    unknown_field = '"{0}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    """What is said of a field that cannot be selected by."""
    status_keeps_metadata = False
    """A write of the status subresource changes no metadata."""

    def __init__(
        self,
        *,
        generation: bool = False,
        status: bool = False,
        selectable: Mapping[str, FieldReader] | None = None,
        unconditional: bool = True,
        creates_on_update: bool = False,
        orphans_by_default: bool = False,
        answers_deleted: bool = False,
    ) -> None:
        self.generation = generation
        """`metadata.generation` counts changes of what is neither metadata nor status."""
        self.status = status
        """There is a status subresource."""
        self.selectable = {
            "metadata.name": text("metadata", "name"),
            "metadata.namespace": text("metadata", "namespace"),
            **(selectable or {}),
        }
        self.unconditional = unconditional
        """A replacement without resourceVersion is taken."""
        self.creates_on_update = creates_on_update
        """A replacement of what is not there creates it."""
        self.orphans_by_default = orphans_by_default
        """Without a policy a deletion orphans the dependents."""
        self.answers_deleted = answers_deleted
        """A deletion answers the object instead of a `Status`."""

    @property
    def of_apply(self) -> Strategy:
        """The strategy for what a server-side apply made of an object."""
        return self

    def default(self, item: Object) -> None:
        """Drop what a client may not set on creation, and set defaults; the client owns them."""
        if self.status:
            item.pop("status", None)

    def prepare_create(self, item: Object, moment: Moment) -> None:
        """Set what the server sets in a new object; nobody owns it."""

    def prepare_update(self, item: Object, old: Object, subresource: str) -> None:
        """Undo what this way of writing may not change, and set defaults."""
        if subresource == "status":
            for name in old.keys() | item.keys():
                if name in ("metadata", "status", "apiVersion", "kind"):
                    continue
                keep(item, old, name)
            if self.status_keeps_metadata:
                kept = {name: value for name, value in old["metadata"].items() if name != "managedFields"}
                if "managedFields" in item["metadata"]:
                    kept["managedFields"] = item["metadata"]["managedFields"]
                item["metadata"] = kept
        elif self.status and not subresource:
            keep(item, old, "status")

    def validate_create(self, item: Object) -> Sequence[FieldProblem]:
        """What is wrong with a new object."""
        return ()

    def validate_update(self, item: Object, old: Object, subresource: str) -> Sequence[FieldProblem]:
        """What is wrong with a change."""
        return ()

    def complete(self, item: Object) -> None:
        """What is added to a new object that was found valid."""

    def grace_seconds(self, item: Object, asked: int | None) -> int | None:
        """Seconds of grace a deletion gives; None for kinds without graceful deletion."""
        return None

    def spec_changed(self, item: Object, old: Object) -> bool:
        """Whether a change counts for the generation."""
        names = (item.keys() | old.keys()) - {"metadata", "status", "apiVersion", "kind"}
        return any(item.get(name) != old.get(name) for name in names)


def keep(item: Object, old: Object, name: str) -> None:
    """Let a top-level field be as it was."""
    if name in old:
        item[name] = old[name]
    else:
        item.pop(name, None)


def immutable(path: str, value: object) -> FieldProblem:
    """The problem of a field that may not change."""
    return FieldProblem(path, "FieldValueInvalid", f"Invalid value: {render(value)}: field is immutable")


def render(value: object) -> str:
    """A value as Kubernetes quotes it in a problem."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    import msgspec

    return msgspec.json.encode(value).decode()
