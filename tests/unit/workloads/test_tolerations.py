"""Which taints a stage pod puts up with, and who wins (CON-24)."""

from typing import Any

import pytest

from nodewright.api.tolerations import EFFECTS, Toleration
from nodewright.model.snapshot import PlanSettings
from nodewright.workloads.tolerations import pod_tolerations

SETTINGS = PlanSettings(agent_image="a:1")
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def first_match(user: list[dict[str, Any]], key: str, effect: str, value: str = "") -> Toleration | None:
    """The toleration Kubernetes uses for a taint: the first that matches."""
    made = pod_tolerations(tuple(Toleration.model_validate(item) for item in user), SETTINGS)
    parsed = [Toleration.model_validate(item) for item in made]
    return next((t for t in parsed if t.tolerates(key=key, value=value, effect=effect)), None)


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_cordon_of_any_effect_is_tolerated(effect: str) -> None:
    assert first_match([], UNSCHEDULABLE, effect) is not None


@pytest.mark.parametrize("key", ["nodewright.nvidia.com", "skyhook.nvidia.com"])
def test_the_runtime_required_taint_and_its_legacy_form_are_tolerated(key: str) -> None:
    """MIG-6."""
    assert first_match([], key, "NoSchedule", "runtime-required") is not None
    assert first_match([], key, "NoSchedule", "something-else") is None


@pytest.mark.parametrize("key", [NOT_READY, UNREACHABLE])
def test_a_reboot_may_take_as_long_as_it_takes(key: str) -> None:
    """Trap B145: unbounded NoExecute, or the pod is evicted after five minutes."""
    found = first_match([], key, "NoExecute")
    assert found is not None
    assert found.toleration_seconds is None


@pytest.mark.parametrize(
    "user",
    [
        {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 90},
        {"key": NOT_READY, "effect": "NoExecute", "tolerationSeconds": 90},  # Equal the empty value
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 90},  # every key
    ],
)
def test_the_users_own_entry_wins_with_its_bound(user: dict[str, Any]) -> None:
    found = first_match([user], NOT_READY, "NoExecute")
    assert found is not None
    assert found.toleration_seconds == 90


def test_an_entry_that_matches_another_taint_changes_nothing() -> None:
    other = {"key": NOT_READY, "operator": "Equal", "value": "x", "effect": "NoExecute", "tolerationSeconds": 90}
    found = first_match([other], NOT_READY, "NoExecute")
    assert found is not None
    assert found.toleration_seconds is None


def test_an_entry_for_one_effect_of_the_cordon_leaves_the_others_tolerated() -> None:
    user = {"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    found = first_match([user], UNSCHEDULABLE, "NoExecute")
    assert found is not None
    assert found.toleration_seconds == 5
    assert first_match([user], UNSCHEDULABLE, "NoSchedule") is not None
    assert first_match([user], UNSCHEDULABLE, "PreferNoSchedule") is not None


def test_the_users_entries_come_last_as_written() -> None:
    user = {"key": "a.b/c", "operator": "Exists"}
    assert pod_tolerations((Toleration.model_validate(user),), SETTINGS)[-1] == user


def test_a_runtime_required_taint_named_like_the_legacy_one_is_tolerated_once() -> None:
    settings = PlanSettings(agent_image="a:1", taint_key="skyhook.nvidia.com")
    assert [item["key"] for item in pod_tolerations((), settings)].count("skyhook.nvidia.com") == 1
