"""The numbers of PodDisruptionBudgets."""

from typing import Any

import msgspec
import pytest

from nodewright.simulator.controllers.budgets import failed, needs_scale, numbers, selects
from nodewright.simulator.controllers.times import stamp
from nodewright.simulator.controllers.views import LabelSelector, Pod
from tests.unit.simulator.controllers.cluster_objects import at, budget, pod

THREE = [pod("a", ready=True), pod("b", ready=True), pod("c")]


@pytest.mark.parametrize(
    ("spec", "pods", "scale", "expected"),
    [  # expected pods, desired, healthy, allowed
        ({"minAvailable": 1}, THREE, 0, (3, 1, 2, 1)),
        ({"minAvailable": 2}, THREE, 0, (3, 2, 2, 0)),
        ({"minAvailable": 5}, THREE, 0, (3, 5, 2, 0)),
        ({"minAvailable": 0}, [], 0, (0, 0, 0, 0)),
        ({"minAvailable": "50%"}, THREE, 3, (3, 2, 2, 0)),
        ({"minAvailable": "34%"}, THREE, 3, (3, 2, 2, 0)),
        ({"minAvailable": "33%"}, THREE, 3, (3, 1, 2, 1)),
        ({"maxUnavailable": 1}, THREE, 3, (3, 2, 2, 0)),
        ({"maxUnavailable": 2}, THREE, 3, (3, 1, 2, 1)),
        ({"maxUnavailable": "10%"}, THREE, 3, (3, 2, 2, 0)),
        ({"maxUnavailable": 9}, THREE, 3, (3, 0, 2, 2)),
        ({"maxUnavailable": 1}, THREE, 0, (0, 0, 2, 0)),
        ({"minAvailable": 1}, [*THREE, pod("d", ready=True, deleted=True)], 0, (4, 1, 2, 1)),
    ],
)
def test_what_may_be_evicted(
    spec: dict[str, Any], pods: list[Pod], scale: int, expected: tuple[int, int, int, int]
) -> None:
    """B130."""
    given = budget(**spec)
    assert needs_scale(given) == (given.spec.max_unavailable is not None or isinstance(spec.get("minAvailable"), str))
    status = numbers(given, pods, scale, at(0)).status
    assert (
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
        status.disruptions_allowed,
    ) == expected
    assert status.observed_generation == 3
    assert status.conditions[0].status == ("True" if expected[3] else "False")


def test_a_granted_eviction_counts_for_two_minutes() -> None:
    given = budget(minAvailable=1, status={"disruptedPods": {"a": stamp(at(0)), "gone": stamp(at(0))}})
    found = numbers(given, THREE, 0, at(100))
    assert (found.status.current_healthy, found.status.disrupted_pods) == (1, {"a": stamp(at(0))})
    assert found.recheck == 20
    later = numbers(given, THREE, 0, at(121))
    assert (later.status.current_healthy, later.status.disrupted_pods, later.recheck) == (2, {}, None)


def test_numbers_that_do_not_change_give_the_same_status() -> None:
    given = budget(minAvailable=1)
    settled = msgspec.structs.replace(given, status=numbers(given, THREE, 0, at(0)).status)
    assert numbers(settled, THREE, 0, at(500)).status == settled.status


def test_without_a_count_nothing_may_be_evicted() -> None:
    status = failed(budget(maxUnavailable=1, status={"disruptionsAllowed": 2}), "found no controllers", at(0))
    assert (status.disruptions_allowed, status.conditions[0].reason) == (0, "SyncFailed")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "x"}}, True),
        ({"matchLabels": {"app": "y"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "z"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_which_pods_a_selector_chooses(selector: dict[str, Any] | None, expected: bool) -> None:
    chosen = None if selector is None else msgspec.convert(selector, LabelSelector)
    assert selects(chosen, {"app": "x"}) is expected
