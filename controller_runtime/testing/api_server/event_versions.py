"""Events in their two versions: stored as core/v1, shown as events.k8s.io/v1 where asked. Relies on nothing."""

from __future__ import annotations

from controller_runtime.testing.api_server.values import Object

_NAMES = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_REPORTING = ("reportingComponent", "reportingInstance")
_BACK = {core: new for new, core in _NAMES.items()}
ALWAYS: Object = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
"""What the encoder never leaves out."""


def to_core(item: Object) -> Object:
    """From events.k8s.io/v1 to core/v1."""
    core = {_NAMES.get(name, name): value for name, value in item.items()}
    return {**ALWAYS, **core}


def to_new(item: Object) -> Object:
    """From core/v1 to events.k8s.io/v1."""
    kept = {name: value for name, value in item.items() if value != "" or name not in _REPORTING}
    return {_BACK.get(name, name): value for name, value in kept.items()}
