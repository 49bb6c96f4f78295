"""Taints, silence, zones, tolerations and pods nobody wants: the pure parts."""

from typing import Any

import msgspec
import pytest

from nodewright.simulator.controllers import node_health
from nodewright.simulator.controllers.eviction import borne_for
from nodewright.simulator.controllers.node_health import NOT_READY, UNREACHABLE, UNSCHEDULABLE, Pulse, ZoneState
from nodewright.simulator.controllers.pod_garbage import Quarantine, surplus
from nodewright.simulator.controllers.views import Node, NodeStatus, Taint, Toleration
from tests.unit.simulator.controllers.cluster_objects import START, at, node, pod

FOREIGN = ("example.com/mine", "NoSchedule")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (node(), None),
        (node(None), None),
        (node(taints=[FOREIGN]), None),
        (node("False"), {(NOT_READY, "NoSchedule")}),
        (node("False", taints=[FOREIGN]), {FOREIGN, (NOT_READY, "NoSchedule")}),
        (node("False", taints=[(NOT_READY, "NoSchedule")]), None),
        (node("Unknown", taints=[(NOT_READY, "NoSchedule")]), {(UNREACHABLE, "NoSchedule")}),
        (node(taints=[(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]), {(NOT_READY, "NoExecute")}),
        (node(unschedulable=True), {(UNSCHEDULABLE, "NoSchedule")}),
        (node(taints=[(UNSCHEDULABLE, "NoSchedule")]), set()),
    ],
)
def test_no_schedule_taints_follow_conditions_and_cordon(given: Node, expected: set[tuple[str, str]] | None) -> None:
    found = node_health.no_schedule_taints(given, START)
    assert (None if found is None else {(one.key, one.effect) for one in found}) == expected


def test_the_two_no_execute_taints_exclude_each_other() -> None:
    given = node("Unknown", taints=[FOREIGN, (NOT_READY, "NoExecute"), (NOT_READY, "NoSchedule")])
    found = node_health.with_no_execute(given, UNREACHABLE, START)
    assert [(one.key, one.effect) for one in found] == [FOREIGN, (NOT_READY, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    assert found[-1].time_added == "2030-01-01T00:00:00Z"
    assert [one.key for one in node_health.with_no_execute(given, None, START)] == [FOREIGN[0], NOT_READY]


def test_a_silent_node_is_told_unknown_once() -> None:
    bodies = node_health.unknown_conditions(node("True"), START)
    assert [(one["type"], one["reason"]) for one in bodies][:2] == [
        ("Ready", "NodeStatusUnknown"),
        ("MemoryPressure", "NodeStatusNeverUpdated"),
    ]
    everything = [{"type": one["type"], "status": "Unknown"} for one in bodies]
    status = msgspec.convert({"conditions": everything}, NodeStatus)
    assert node_health.unknown_conditions(msgspec.structs.replace(node(), status=status), START) == []


def test_a_pulse_is_a_new_heartbeat_or_a_renewed_lease() -> None:
    pulse = Pulse("1", None, START)
    pulse.hear("1", None, at(40))
    assert pulse.heard == START
    pulse.hear("1", "r", at(41))
    assert pulse.heard == at(41)
    pulse.hear("2", "r", at(50))
    assert pulse.heard == at(50)
    pulse.hear("2", None, at(60))  # a lease that went is no life
    assert pulse.heard == at(50)


@pytest.mark.parametrize(
    ("ready", "not_ready", "expected"),
    [
        (0, 0, ZoneState.NORMAL),
        (0, 1, ZoneState.FULL),
        (1, 2, ZoneState.NORMAL),
        (2, 3, ZoneState.PARTIAL),
        (3, 3, ZoneState.NORMAL),
    ],
)
def test_how_a_zone_is(ready: int, not_ready: int, expected: ZoneState) -> None:
    """B145."""
    assert node_health.zone_state(ready=ready, not_ready=not_ready, unhealthy_share=0.55) is expected


A, B = Taint(key="a", effect="NoExecute", value="1"), Taint(key="b", effect="NoExecute")
ALL = {"operator": "Exists"}


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        ([], [], None),
        ([], [Taint(key="a", effect="NoSchedule")], None),
        ([], [A], 0),
        ([ALL], [A, B], None),
        ([{"key": "a", "value": "1"}], [A], None),
        ([{"key": "a", "value": "2"}], [A], 0),
        ([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}], [A], 0),
        ([{"key": "a", "operator": "Exists", "tolerationSeconds": 300}], [A], 300),
        ([{"key": "a", "operator": "Exists", "tolerationSeconds": 300}], [A, B], 0),
        ([{"key": "a", "operator": "Exists", "tolerationSeconds": 300}, ALL], [A, B], 300),
        ([{**ALL, "tolerationSeconds": 9}, {"key": "a", "operator": "Exists", "tolerationSeconds": 5}], [A, B], 9),
        ([{**ALL, "tolerationSeconds": -4}], [A], 0),
    ],
)
def test_how_long_a_pod_bears_its_nodes_taints(
    tolerations: list[dict[str, Any]], taints: list[Taint], expected: float | None
) -> None:
    assert borne_for(msgspec.convert(tolerations, list[Toleration]), taints) == expected


def test_finished_pods_above_the_limit_go_evicted_ones_first() -> None:
    """JOB-18."""
    pods = [pod("a", "Succeeded"), pod("b", "Failed", reason="Evicted"), pod("c", "Failed"), pod("d")]
    assert [one.metadata.name for one in surplus(pods, 2)] == ["b"]
    assert [one.metadata.name for one in surplus(pods, 1)] == ["b", "a"]
    assert surplus(pods, 3) == []
    assert surplus(pods, 0) == []


def test_a_node_that_comes_back_in_quarantine_starts_afresh() -> None:
    quarantine = Quarantine(40)
    assert quarantine.over(["n"], at(0)) == []
    assert quarantine.over([], at(20)) == []
    assert quarantine.over(["n"], at(40)) == []
    assert quarantine.over(["n"], at(80)) == ["n"]
