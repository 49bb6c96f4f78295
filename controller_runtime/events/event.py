"""What an event is about and how it is written: the `events.k8s.io/v1` object and the patch that continues a series.

Pure but for the random part of names. Relied on by `recorder`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Literal

from controller_runtime.transport import Resource

EVENTS = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
NOTE_BYTES = 1024
"""The API refuses longer notes."""
_WORD_BYTES = 128
"""The API refuses longer reasons, actions and instance names."""
_NAME_LENGTH = 253
_HEX_BYTES = 8

EventType = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReference:
    """The object an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    """Empty for cluster-scoped objects; their events live in the recorder's namespace for those."""
    uid: str = ""
    resource_version: str = ""

    def to_json(self) -> dict[str, str]:
        """As the API spells it, without empty fields."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class EventKey:
    """What makes two events one series. The note is not part of it; `subject` is what the caller sets apart."""

    regarding: tuple[str, str, str, str]
    type: EventType
    reason: str
    action: str
    subject: str = ""

    @classmethod
    def of(cls, event: Event) -> EventKey:
        """The key of one event; an object's resourceVersion does not count, its UID does."""
        about = event.regarding
        return cls(
            (about.kind, about.namespace, about.name, about.uid), event.type, event.reason, event.action, event.subject
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event as it was asked for."""

    regarding: ObjectReference
    related: ObjectReference | None
    type: EventType
    reason: str
    action: str
    note: str
    subject: str = ""
    """Events of one object, reason and action about different subjects are different series."""


def event_name(object_name: str) -> str:
    """`<object>.<hex>`, a valid name however long the object's is."""
    suffix = "." + secrets.token_hex(_HEX_BYTES)
    return object_name.lower().replace("_", "-")[: _NAME_LENGTH - len(suffix)].rstrip("-.") + suffix


def event_body(
    event: Event, *, name: str, namespace: str, time: str, reporting_controller: str, reporting_instance: str
) -> dict[str, Any]:
    """The object to create; the fields the API marks as deprecated are left out."""
    body: dict[str, Any] = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": time,
        "reportingController": reporting_controller,
        "reportingInstance": clipped(reporting_instance, _WORD_BYTES),
        "action": clipped(event.action, _WORD_BYTES),
        "reason": clipped(event.reason, _WORD_BYTES),
        "type": event.type,
        "regarding": event.regarding.to_json(),
        "note": clipped(event.note, NOTE_BYTES),
    }
    if event.related is not None:
        body["related"] = event.related.to_json()
    return body


def series_patch(*, count: int, time: str) -> dict[str, Any]:
    """The merge patch that continues a series; `count` is at least 2. Nothing else of an event may change."""
    return {"series": {"count": count, "lastObservedTime": time}}


def clipped(text: str, limit: int) -> str:
    """`text` in at most `limit` bytes of valid UTF-8, ending in an ellipsis if something was cut off."""
    encoded = text.encode("utf-8", errors="replace")
    if len(encoded) <= limit:
        return encoded.decode("utf-8")
    return encoded[: limit - 3].decode("utf-8", errors="ignore") + "…"
