"""The Warning events of a pass: what waits for a person, each said once while it lasts (JOB-14, JOB-15a, CHG-5a)."""

from collections.abc import Iterable, Mapping

from nodewright.engine.status import PassResult
from nodewright.engine.troubles import Trouble
from nodewright.model.plan import Event, EventType
from nodewright.model.reason import Code

Key = tuple[str, str, str]
"""What tells one Warning from another while it lasts."""
Said = set[Key]


def announce(said: Said, result: PassResult) -> tuple[Event, ...]:
    """The events that were not there in the last pass."""
    return fresh(said, {**trouble_events(result.troubles), **_configmaps(result), **_jobs(result)})


def fresh(said: Said, active: Mapping[Key, Event]) -> tuple[Event, ...]:
    """The events that have not been said while they last. `said` remembers the rest: one that ends and comes back is said again."""
    new = tuple(event for key, event in active.items() if key not in said)
    said.clear()
    said.update(active)
    return new


def trouble_events(troubles: Iterable[Trouble]) -> dict[Key, Event]:
    """The events of troubles that are due."""
    return {(t.code.value, t.node, t.key): _warning(t.code, t.text, t.action) for t in troubles if not t.silent}


def _configmaps(result: PassResult) -> dict[Key, Event]:
    refused = [(name, reason) for name, reason in result.held.items() if reason.code is Code.CONFIG_REFUSED]
    return {(reason.code.value, name, reason.text): _warning(reason.code, reason.text) for name, reason in refused}


def _jobs(result: PassResult) -> dict[Key, Event]:
    """Jobs that were refused, or whose name, or that of the ConfigMap they mount, somebody else has."""
    active: dict[Key, Event] = {}
    for name, outcome in result.outcomes.items():
        if outcome.reason is not None and outcome.reason.code in (Code.JOB_REFUSED, Code.JOB_NAME_TAKEN):
            text = outcome.reason.text
            active[(Code.JOB_REFUSED.value, name, text)] = _warning(Code.JOB_REFUSED, f"{text} (node {name})")
    for reason in result.foreign:
        active[(reason.code.value, "", reason.text)] = _warning(reason.code, reason.text)
    return active


def _warning(code: Code, text: str, action: str = "Reconcile") -> Event:
    return Event(EventType.WARNING, code.value, action, text)
