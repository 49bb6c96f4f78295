"""The words of the docs are the program's: settings with their defaults, statuses, conditions, reasons, events, metrics."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_runtime.observability.metrics import RuntimeMetrics
from nodewright.api.status import State, Status
from nodewright.engine.conditions import OURS
from nodewright.engine.facts import STAGE_REASONS
from nodewright.engine.waiting import CONDITION as DELETION_BLOCKED
from nodewright.model.reason import Code
from nodewright.operator.metrics import DomainMetrics
from nodewright.operator.settings import Settings
from tests.unit.docs.pages import ROOT, page, rows, words

OTHERS = {"KUBECONFIG", "TRACEPARENT", "SIGTERM", "SIGINT"}
AGENT = {"AGENT_IMAGE": "registry.example/agent:1.2.3"}
ENGINE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "nodewright/engine").glob("*.py")))


class Asked(Mapping[str, str]):
    """An environment that remembers what was looked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return AGENT[name]

    def __iter__(self) -> Iterator[str]:
        return iter(AGENT)

    def __len__(self) -> int:
        return len(AGENT)


def variables() -> dict[str, str]:
    """The settings' table: defaults by variable."""
    found: dict[str, str] = {}
    for names, defaults, _ in rows(page("operator"), "variable"):
        values = words(defaults) or ["" if defaults != "required" else "required"] * len(words(names))
        found |= dict(zip(words(names), values, strict=False)) if not names.startswith("`OTEL") else {}
    return found


def test_every_setting_is_told_and_nothing_else() -> None:
    """CON-26."""
    asked = Asked()
    Settings.from_environment(asked)
    assert set(variables()) == asked.names
    loud = {each for each in words(page("operator")) if re.fullmatch(r"[A-Z]+(_[A-Z]+)*", each)}
    assert {each for each in loud if not each.startswith("OTEL_")} - OTHERS == asked.names


@pytest.mark.parametrize(("variable", "default"), sorted(variables().items()))
def test_the_default_that_is_told_is_the_default(variable: str, default: str) -> None:
    """CON-26: the environment with it set is the environment without."""
    if default == "required":
        assert variable == "AGENT_IMAGE"
        return
    assert Settings.from_environment({**AGENT, variable: default}) == Settings.from_environment(AGENT)


def test_every_status_and_state_is_explained() -> None:
    """ROL-20, ROL-21, CON-10. Nothing is `skipped` before interrupts are there."""
    statuses = [
        each for cells in rows(page("rollouts"), "Status of a node or a NodeWright") for each in words(cells[0])
    ]
    states = [each for cells in rows(page("rollouts"), "State of an entry") for each in words(cells[0])]
    assert sorted(statuses) == sorted(Status)
    assert sorted([*states, "skipped"]) == sorted(State)


def test_the_conditions_that_are_explained_are_those_that_the_engine_sets() -> None:
    """ROL-22, ROL-23."""
    told = {each for cells in rows(page("rollouts"), "Condition") for each in words(cells[0])}
    set_by_engine = {*re.findall(r'Wanted\(\s*"(\w+)"', ENGINE), DELETION_BLOCKED}
    assert told == set_by_engine
    assert told <= OURS


def test_the_reasons_of_stalled_are_those_that_the_engine_gives() -> None:
    """ROL-22a."""
    (cells,) = [cells for cells in rows(page("rollouts"), "Condition") if words(cells[0]) == ["Stalled"]]
    given = set(re.findall(r'Wanted\(\s*"Stalled",(?:[^()]|\([^()]*\))*?"([A-Z]\w+)",?\s*\)', ENGINE))
    assert set(words(cells[1])) == given | {DELETION_BLOCKED}


def test_every_event_that_is_told_can_be_given() -> None:
    """JOB-15a, JOB-17."""
    told = set(re.findall(r"`([A-Z][A-Za-z]+)`", page("operator").partition("## Events")[2].partition("## Notes")[0]))
    assert len(told) > 5
    assert told <= {*Code, *STAGE_REASONS.values(), "Apply", DELETION_BLOCKED}


def test_the_metrics_that_are_told_are_there_and_all_of_ours_are_told() -> None:
    """OBS-1."""
    registry = CollectorRegistry()
    ours = {each.name for each in DomainMetrics(registry, publish_legacy=False).describe()}
    text = RuntimeMetrics(registry).render()[0].decode()
    served = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    told = metrics(page("operator"))
    assert ours <= served
    assert told <= served
    assert {each for each in told if each.startswith("nodewright_")} == ours


def metrics(text: str) -> set[str]:
    """The names in the section, `_ceiling` being short for the one before with another end."""
    section = text.partition("## Metrics")[2].partition("##")[0]
    names = [each for each in words(section) if re.fullmatch(r"_?[a-z]+(_[a-z]+)+|_[a-z]+", each)]
    return {f"nodewright_rollout{each}" if each.startswith("_") else each for each in names}


def test_the_node_state_that_is_shown_reads_as_node_state() -> None:
    """CON-10."""
    from nodewright.model import node_state
    from tests.unit.docs.pages import blocks

    (shown,) = blocks(page("rollouts"), "json")
    entries: Any = node_state.parse(shown)
    assert list(entries) == ["tuning|1.2.3"]
