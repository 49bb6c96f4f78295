"""The Warning events of a pass: what waits for a person, each said once while it lasts (JOB-14, JOB-15a, CHG-5a)."""

from nodewright.engine.memory import CrMemory
from nodewright.engine.status import PassResult
from nodewright.model.plan import Event, EventType
from nodewright.model.reason import Code

_Key = tuple[str, str, str]


def announce(memory: CrMemory, result: PassResult) -> tuple[Event, ...]:
    """The events that were not there in the last pass."""
    active = {**_troubles(result), **_configmaps(result), **_jobs(result)}
    fresh = tuple(event for key, event in active.items() if key not in memory.said)
    memory.said = set(active)
    return fresh


def _troubles(result: PassResult) -> dict[_Key, Event]:
    return {(t.code.value, t.node, t.key): _warning(t.code, t.text, t.action) for t in result.troubles if not t.silent}


def _configmaps(result: PassResult) -> dict[_Key, Event]:
    refused = [(name, reason) for name, reason in result.held.items() if reason.code is Code.CONFIG_REFUSED]
    return {(reason.code.value, name, reason.text): _warning(reason.code, reason.text) for name, reason in refused}


def _jobs(result: PassResult) -> dict[_Key, Event]:
    """Jobs that were refused, or whose name somebody else has."""
    active: dict[_Key, Event] = {}
    for name, outcome in result.outcomes.items():
        if outcome.reason is not None and outcome.reason.code in (Code.JOB_REFUSED, Code.JOB_NAME_TAKEN):
            text = outcome.reason.text
            active[(Code.JOB_REFUSED.value, name, text)] = _warning(Code.JOB_REFUSED, f"{text} (node {name})")
    return active


def _warning(code: Code, text: str, action: str = "Reconcile") -> Event:
    return Event(EventType.WARNING, code.value, action, text)
