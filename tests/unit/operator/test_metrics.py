"""The metrics of rollouts (OBS-1): names, labels and values exactly, and nothing of what is gone."""

import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from nodewright.operator.metrics import DomainMetrics

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]

STATUSES = {"complete", "in_progress", "waiting", "blocked", "erroring", "paused", "disabled", "unknown"}
STATES = {"complete", "in_progress", "skipped", "erroring", "unknown"}
STAGES = {"apply", "config", "interrupt", "post-interrupt", "upgrade", "uninstall", "uninstall-interrupt"}


def entry(version: str, stage: str, state: str, **more: Any) -> dict[str, Any]:
    return {"name": "tuning", "version": version, "image": "i", "stage": stage, "state": state, **more}


STATUS: dict[str, Any] = {
    "status": "in_progress",
    "nodeStatus": {"n1": "complete", "n2": "in_progress", "n3": "waiting", "n4": "waiting"},
    "nodeState": {
        "n1": {"tuning|1.1.0": entry("1.1.0", "post-interrupt", "complete")},
        "n2": {
            "tuning|1.1.0": entry("1.1.0", "upgrade", "erroring", restarts=2),
            "tuning|1.0.0": entry("1.0.0", "config", "complete", restarts=1),
        },
        "n3": {"tuning|1.0.0": entry("1.0.0", "config", "complete")},
    },
    "packageList": "other:2.0.0,tuning:1.1.0",
    "compartmentStatuses": {
        "canary": {
            "matched": 4,
            "ceiling": 2,
            "inProgress": 1,
            "completed": 1,
            "progressPercent": 25,
            "batchState": {"currentBatch": 3, "consecutiveFailures": 2, "shouldStop": True},
        },
        "__default__": {"matched": 0, "ceiling": 0, "inProgress": 0, "completed": 0, "progressPercent": 100},
    },
}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> DomainMetrics:
    made = DomainMetrics(registry, publish_legacy=False)
    made.publish("gpu", STATUS, policy_name="gpu-rollout", strategies={"canary": "linear"})
    return made


def scraped(registry: CollectorRegistry) -> Series:
    """All series of a scrape, as Prometheus reads them."""
    text = generate_latest(registry).decode()
    series: Series = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        for sample in family.samples:
            identity = (sample.name, frozenset(sample.labels.items()))
            assert identity not in series, "a series twice in one scrape is refused by Prometheus"
            series[identity] = sample.value
    return series


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return scraped(registry).get((name, frozenset(labels.items())))


def label_values(registry: CollectorRegistry, name: str, label: str) -> set[str]:
    return {dict(labels)[label] for series, labels in scraped(registry) if series == name}


def test_a_status_is_one_and_every_other_is_there_at_zero(registry: CollectorRegistry, metrics: DomainMetrics) -> None:
    for status in STATUSES:
        shown = value(registry, "nodewright_status", nodewright_name="gpu", status=status)
        assert shown == (1.0 if status == "in_progress" else 0.0)
    assert label_values(registry, "nodewright_status", "status") == STATUSES


def test_what_people_wrote_into_a_status_breaks_nothing(registry: CollectorRegistry, metrics: DomainMetrics) -> None:
    # LIF-1, LIF-4: a CR in deletion publishes its status on as it was found
    node = {"tuning|1.1.0": {}, "x": "text", "tuning|1.0.0": entry("1.0.0", "config", "complete", restarts="many")}
    metrics.publish("cr", {"status": "complete", "nodeState": {"n1": node}}, strategies={})
    assert value(registry, "nodewright_status", nodewright_name="cr", status="complete") == 1


def test_a_status_not_computed_yet_reads_unknown(registry: CollectorRegistry, metrics: DomainMetrics) -> None:
    metrics.publish("new", {}, strategies={})
    assert value(registry, "nodewright_status", nodewright_name="new", status="unknown") == 1.0
    assert value(registry, "nodewright_node_target_count", nodewright_name="new") == 0.0


def test_nodes_are_counted_by_status_with_zeros(registry: CollectorRegistry, metrics: DomainMetrics) -> None:
    shown = {
        s: value(registry, "nodewright_node_status_count", nodewright_name="gpu", status=s) for s in sorted(STATUSES)
    }
    assert shown == dict.fromkeys(STATUSES, 0.0) | {"complete": 1.0, "in_progress": 1.0, "waiting": 2.0}
    assert value(registry, "nodewright_node_target_count", nodewright_name="gpu") == 4.0


def test_packages_are_counted_by_state_and_stage_under_their_exact_names(
    registry: CollectorRegistry, metrics: DomainMetrics
) -> None:
    """B100: the label reads `post-interrupt`, as in node state."""
    new = {"nodewright_name": "gpu", "package_name": "tuning", "package_version": "1.1.0"}
    assert value(registry, "nodewright_package_stage_count", **new, stage="post-interrupt") == 1.0
    assert value(registry, "nodewright_package_stage_count", **new, stage="upgrade") == 1.0
    assert value(registry, "nodewright_package_state_count", **new, state="erroring") == 1.0
    assert value(registry, "nodewright_package_state_count", **new, state="complete") == 1.0
    assert value(registry, "nodewright_package_restarts_count", **new) == 2.0
    assert label_values(registry, "nodewright_package_stage_count", "stage") == STAGES
    assert label_values(registry, "nodewright_package_state_count", "state") == STATES


def test_a_package_that_is_on_no_node_yet_is_there_at_zero(registry: CollectorRegistry, metrics: DomainMetrics) -> None:
    labels = {"nodewright_name": "gpu", "package_name": "other", "package_version": "2.0.0"}
    assert value(registry, "nodewright_package_restarts_count", **labels) == 0.0
    assert value(registry, "nodewright_package_state_count", **labels, state="complete") == 0.0


def test_no_series_of_an_old_version_is_left_once_no_node_has_it(
    registry: CollectorRegistry, metrics: DomainMetrics
) -> None:
    """B100."""
    assert label_values(registry, "nodewright_package_state_count", "package_version") == {"1.0.0", "1.1.0", "2.0.0"}
    done = STATUS | {"nodeState": {"n1": {"tuning|1.1.0": entry("1.1.0", "config", "complete")}}}
    metrics.publish("gpu", done, strategies={})
    assert "1.0.0" not in generate_latest(registry).decode()


def test_markers_that_stay_on_nodes_for_good_are_no_series(registry: CollectorRegistry, metrics: DomainMetrics) -> None:
    """LIF-10 (a package that left the spec), CHG-6 (another version after a return)."""
    left = {
        "tuning|9.9.9": entry("9.9.9", "config", "unknown"),
        "gone|8.8.8": {"name": "gone", "version": "8.8.8", "stage": "config", "state": "complete"},
        "tuning|1.1.0": entry("1.1.0", "config", "unknown"),
    }
    metrics.publish("gpu", STATUS | {"nodeState": {"n1": left}}, strategies={})
    text = generate_latest(registry).decode()
    assert "9.9.9" not in text
    assert "gone" not in text
    labels = {"nodewright_name": "gpu", "package_name": "tuning", "package_version": "1.1.0", "state": "unknown"}
    assert value(registry, "nodewright_package_state_count", **labels) == 1.0


def test_compartments_show_their_numbers(registry: CollectorRegistry, metrics: DomainMetrics) -> None:
    labels = {
        "nodewright_name": "gpu",
        "policy_name": "gpu-rollout",
        "compartment_name": "canary",
        "strategy": "linear",
    }
    shown = {
        name: value(registry, f"nodewright_rollout_{name}", **labels)
        for name in (
            "matched_nodes", "ceiling", "in_progress", "completed", "progress_percent", "current_batch",
            "consecutive_failures", "should_stop",
        )
    }  # fmt: skip
    assert list(shown.values()) == [4.0, 2.0, 1.0, 1.0, 25.0, 3.0, 2.0, 1.0]


def test_without_policy_or_known_strategy_the_labels_say_so(
    registry: CollectorRegistry, metrics: DomainMetrics
) -> None:
    metrics.publish("gpu", STATUS, policy_name="", strategies={})
    assert label_values(registry, "nodewright_rollout_ceiling", "policy_name") == {"legacy"}
    assert label_values(registry, "nodewright_rollout_ceiling", "strategy") == {"unknown"}
    assert label_values(registry, "nodewright_rollout_ceiling", "compartment_name") == {"canary", "__default__"}


def test_a_changed_policy_leaves_no_series_of_the_old_one(registry: CollectorRegistry, metrics: DomainMetrics) -> None:
    metrics.publish("gpu", STATUS, policy_name="other", strategies={})
    assert label_values(registry, "nodewright_rollout_ceiling", "policy_name") == {"other"}


def test_a_deleted_cr_leaves_nothing(registry: CollectorRegistry, metrics: DomainMetrics) -> None:
    """B100, CHG-11."""
    metrics.publish("stays", STATUS, strategies={})
    metrics.forget("gpu")
    metrics.forget("never-was")
    assert {dict(labels)["nodewright_name"] for _, labels in scraped(registry)} == {"stays"}
    metrics.forget_all()
    assert scraped(registry) == {}


def test_the_legacy_names_carry_the_same_values() -> None:
    registry = CollectorRegistry()
    metrics = DomainMetrics(registry, publish_legacy=True)
    metrics.publish("gpu", STATUS, policy_name="p", strategies={"canary": "fixed"})
    both = scraped(registry)
    new = {series: shown for series, shown in both.items() if series[0].startswith("nodewright_")}
    old = {series: shown for series, shown in both.items() if series[0].startswith("skyhook_")}
    renamed = {
        (
            name.replace("nodewright_", "skyhook_", 1),
            frozenset(("skyhook_name" if key == "nodewright_name" else key, text) for key, text in labels),
        ): shown
        for (name, labels), shown in new.items()
    }
    assert old == renamed
    assert len(new) > 50


def test_no_legacy_name_unless_asked_for(registry: CollectorRegistry, metrics: DomainMetrics) -> None:
    assert "skyhook" not in generate_latest(registry).decode()


def test_what_was_published_is_not_kept_alive_nor_read_again(registry: CollectorRegistry) -> None:
    """A status of 5,000 nodes is a megabyte: the numbers are taken once."""
    metrics = DomainMetrics(registry, publish_legacy=False)
    status: dict[str, Any] = {"status": "complete", "nodeStatus": {"n": "complete"}}
    metrics.publish("gpu", status, strategies={})
    status["status"] = "erroring"
    status["nodeStatus"]["m"] = "erroring"
    assert value(registry, "nodewright_status", nodewright_name="gpu", status="complete") == 1.0
    assert value(registry, "nodewright_node_target_count", nodewright_name="gpu") == 1.0


def test_counting_5000_nodes_does_not_block_the_loop(registry: CollectorRegistry) -> None:
    """Design: at most 50 ms; the best of five, so that a busy machine does not fail it."""
    state = {f"p{i}|1.0.0": {"stage": "config", "state": "complete"} for i in range(3)}
    status = {
        "status": "complete",
        "nodeStatus": {f"n{i}": "complete" for i in range(5000)},
        "nodeState": {f"n{i}": state for i in range(5000)},
        "packageList": "p0:1.0.0,p1:1.0.0,p2:1.0.0",
    }
    metrics = DomainMetrics(registry, publish_legacy=True)
    spent = []
    for _ in range(5):
        begin = time.perf_counter()
        metrics.publish("gpu", status, strategies={})
        spent.append(time.perf_counter() - begin)
    assert min(spent) < 0.05
