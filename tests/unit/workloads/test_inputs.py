"""When a Job still matches the spec: equal values in any spelling do, any changed field does not (JOB-10)."""

import dataclasses
import random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from nodewright.api import keys
from nodewright.api.nodewright import Package
from nodewright.api.quantities import parse_quantity
from nodewright.model.objects import Condition, Job, JobStatus, ObjectMeta
from nodewright.model.snapshot import PlanSettings
from nodewright.workloads.inputs import Inputs, dump, inputs_of, matches, parse
from tests.unit.workloads.conftest import DIGEST, TUNING, parsed

SETTINGS = PlanSettings(agent_image="agent:1")
UPGRADED = dataclasses.replace(SETTINGS, agent_image="agent:2")
PLAIN = {key: value for key, value in TUNING.items() if key != "agentImageOverride"}


def package(**fields: Any) -> Package:
    written = {key: value for key, value in (PLAIN | fields).items() if value is not None}
    return parsed({"packages": {"tuning": written}}).packages["tuning"]


def job_of(made_from: Package, settings: PlanSettings = SETTINGS, *, finished: bool = False) -> Job:
    conditions = (Condition(type="Failed", status="True"),) if finished else ()
    annotations = {keys.INPUTS: dump(inputs_of(made_from, settings))}
    return Job(metadata=ObjectMeta(name="j", annotations=annotations), status=JobStatus(conditions=conditions))


CHANGES: list[dict[str, Any]] = [
    {"version": "1.2.4"},
    {"image": "ghcr.io/other/tuning"},
    {"containerSHA": None},
    {"containerSHA": "sha256:" + "1" * 64},
    {"agentImageOverride": "agent:1"},
    {"env": None},
    {"env": [{"name": "TUNING_PROFILE", "value": "latency"}]},
    {"env": [{"name": "TUNING_PROFILE", "value": "throughput"}, {"name": "A", "value": "b"}]},
    {"resources": None},
    {"resources": TUNING["resources"] | {"cpuLimit": "501m"}},
    {"resources": TUNING["resources"] | {"memoryRequest": "128M"}},
]
NO_CHANGES: list[dict[str, Any]] = [
    {},
    {"resources": {"cpuRequest": "0.1", "cpuLimit": ".5", "memoryRequest": 134217728, "memoryLimit": "0.5Gi"}},
    {"env": [{"value": "throughput", "name": "TUNING_PROFILE"}]},
    {"stageTimeout": "5m"},  # JOB-2
    {"gracefulShutdown": "1m"},
    {"configMap": {"tuning.conf": "other"}},
    {"interrupt": {"type": "noop"}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_changed_field_does_not_match(change: dict[str, Any]) -> None:
    assert not matches(job_of(package()), package(**change), SETTINGS, has_pod=True)


@pytest.mark.parametrize("change", NO_CHANGES, ids=str)
def test_another_spelling_or_a_field_that_is_no_input_matches(change: dict[str, Any]) -> None:
    assert matches(job_of(package()), package(**change), SETTINGS, has_pod=False)


def test_the_order_of_env_is_part_of_it() -> None:
    """A later entry may refer to an earlier one."""
    a, b = {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}
    assert not matches(job_of(package(env=[a, b])), package(env=[b, a]), SETTINGS, has_pod=True)


def test_an_operator_upgrade_replaces_only_an_unfinished_job_without_a_pod() -> None:
    assert not matches(job_of(package()), package(), UPGRADED, has_pod=False)
    assert matches(job_of(package()), package(), UPGRADED, has_pod=True)
    assert matches(job_of(package(), finished=True), package(), UPGRADED, has_pod=False)


def test_a_changed_override_always_replaces() -> None:
    overridden = package(agentImageOverride="agent:9")
    assert not matches(job_of(overridden, finished=True), package(), SETTINGS, has_pod=True)
    assert not matches(job_of(package(), finished=True), overridden, SETTINGS, has_pod=True)


def test_with_an_override_an_operator_upgrade_is_no_change() -> None:
    """The operator's image is in none of its containers."""
    overridden = package(agentImageOverride="agent:9")
    assert matches(job_of(overridden), overridden, UPGRADED, has_pod=False)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"package":"a"}', '{"package":1,"agent":"b"}'])
def test_a_job_without_readable_inputs_matches_nothing(text: str | None) -> None:
    assert parse(text) is None
    annotations = {} if text is None else {keys.INPUTS: text}
    job = Job(metadata=ObjectMeta(annotations=annotations))
    assert not matches(job, package(), SETTINGS, has_pod=True)


@given(st.builds(Inputs, package=st.text(), agent=st.text()))
def test_the_annotation_reads_back(inputs: Inputs) -> None:
    assert parse(dump(inputs)) == inputs


def test_what_is_no_quantity_is_compared_as_text_and_never_raises() -> None:
    """LIF-4: an invalid spec that got past admission must not stop a pass."""
    broken = package(resources=TUNING["resources"] | {"cpuLimit": "much"})
    assert inputs_of(broken, SETTINGS) == inputs_of(
        package(resources=TUNING["resources"] | {"cpuLimit": "much"}), SETTINGS
    )
    assert inputs_of(broken, SETTINGS) != inputs_of(package(), SETTINGS)


milli = st.integers(min_value=1, max_value=10**12)


def spelled(thousandths: int, seed: int) -> str | int:
    """One of the spellings of a quantity."""
    whole, rest = divmod(thousandths, 1000)
    ways: list[str | int] = [f"{thousandths}m", f"{thousandths}000u", f"{whole}.{rest:03d}", f"{whole}.{rest:03d}0"]
    ways += [f"{thousandths}e-3"]
    if not rest:
        ways += [whole, str(whole)]
    return random.Random(seed).choice(ways)


@given(milli, milli, st.integers(), st.integers())
def test_quantities_match_exactly_when_their_values_are_equal(left: int, right: int, seed1: int, seed2: int) -> None:
    """CON-4."""
    rest = {"cpuRequest": "1m", "memoryRequest": "1", "memoryLimit": "1Gi"}
    for one, two in ((left, right), (left, left)):
        written1, written2 = spelled(one, seed1), spelled(two, seed2)
        equal = parse_quantity(written1) == parse_quantity(written2)
        hashes = [
            inputs_of(package(resources={**rest, "cpuLimit": written}), SETTINGS) for written in (written1, written2)
        ]
        assert (hashes[0] == hashes[1]) == equal


json_values = st.recursive(
    st.one_of(st.text(), st.booleans(), st.integers(min_value=-(2**53), max_value=2**53)),
    lambda inner: st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
env_lists = st.lists(st.dictionaries(st.text(), json_values, max_size=4), max_size=4)


def _shuffled(value: Any, shuffle: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        shuffle.shuffle(items)
        return {key: _shuffled(item, shuffle) for key, item in items}
    return value


@given(env_lists, st.randoms(use_true_random=False))
def test_env_matches_whatever_the_order_of_its_keys(env: list[dict[str, Any]], shuffle: random.Random) -> None:
    first = Package(version="1.0.0", image="i", env=tuple(env))
    second = Package(version="1.0.0", image="i", env=tuple(_shuffled(item, shuffle) for item in env))
    assert inputs_of(first, SETTINGS) == inputs_of(second, SETTINGS)


@given(env_lists, env_lists)
def test_different_env_does_not_match(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> None:
    first = Package(version="1.0.0", image="i", container_sha=DIGEST, env=tuple(one))
    second = Package(version="1.0.0", image="i", container_sha=DIGEST, env=tuple(two))
    assert (inputs_of(first, SETTINGS) == inputs_of(second, SETTINGS)) == (_typed(one) == _typed(two))


def _typed(value: Any) -> Any:
    """For comparison: Python takes True for 1."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    return [_typed(item) for item in value] if isinstance(value, list) else (type(value), value)


def test_hashes_nested_too_deep_to_read_are_none() -> None:
    """LIF-4: no annotation makes planning raise."""
    assert parse("[" * 100_000) is None
