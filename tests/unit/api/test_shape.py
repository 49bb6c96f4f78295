"""A raw object becomes a model or a list of all its faults, never an exception (LIF-4, admission.md)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nodewright.api.deployment_policy import (
    DeploymentPolicySpec,
    ExponentialStrategy,
    FixedStrategy,
    LinearStrategy,
    Strategy,
    StrategyKind,
    parse_policy,
    parse_policy_spec,
)
from nodewright.api.graph import dependency_faults
from nodewright.api.nodewright import (
    InterruptType,
    NodeWright,
    NodeWrightSpec,
    Package,
    Sequencing,
    config_key_matches,
    parse_nodewright,
    parse_nodewright_spec,
)
from nodewright.api.shape import parse_leniently
from nodewright.api.status import parse_status
from nodewright.api.validation import check_nodewright, check_policy


def spec_of(raw: dict[str, Any]) -> NodeWrightSpec:
    spec = parse_nodewright_spec(raw)
    assert isinstance(spec, NodeWrightSpec), spec
    return spec


def test_an_empty_spec_has_the_defaults() -> None:
    """ADM-23."""
    spec = spec_of({})
    assert (spec.priority, spec.sequencing, spec.serial) == (200, Sequencing.NODE, False)
    assert (spec.runtime_required, spec.auto_taint_new_nodes, spec.runtime_required_cordon_after) == (
        False,
        False,
        False,
    )
    drain = spec.drain_config
    assert (drain.disable_eviction, drain.delete_empty_dir_data, drain.force, drain.ignore_daemon_sets) == (
        False,
        True,
        True,
        True,
    )
    assert (drain.timeout_seconds, drain.grace_period_seconds) == (None, None)
    assert spec.interruption_budget is None
    assert spec.packages == {}


def test_the_override_of_the_policy_has_no_default_else_it_would_always_win() -> None:
    """CON-4a, ROL-15."""
    assert spec_of({}).deployment_policy_options.reset_batch_state_on_completion is None


def test_a_strategy_has_the_defaults() -> None:
    """ROL-9."""
    exponential = ExponentialStrategy()
    assert (exponential.initial_batch, exponential.batch_threshold, exponential.safety_limit) == (1, 100, 50)
    assert (exponential.growth_factor, LinearStrategy().delta, exponential.failure_threshold) == (2, 1, None)
    assert DeploymentPolicySpec().reset_batch_state_on_completion is True


def test_a_strategy_tells_its_kind_and_parameters() -> None:
    """ROL-8."""
    linear = LinearStrategy(delta=3)
    assert (Strategy(linear=linear).kind, Strategy(linear=linear).parameters) == (StrategyKind.LINEAR, linear)
    assert Strategy(linear=linear, fixed=FixedStrategy()).kind is StrategyKind.FIXED
    assert (Strategy().kind, Strategy().parameters) == (None, None)


def test_an_empty_node_selector_selects_every_node_and_an_empty_pod_selector_protects_no_pod() -> None:
    """ROL-1, INT-4: the asymmetry is the seed's."""
    spec = spec_of({"nodeSelectors": {}, "podNonInterruptLabels": {}})
    assert spec.node_selector_matcher({"any": "thing"})
    assert not spec.protected_pod_matcher({"any": "thing"})
    protecting = spec_of({"podNonInterruptLabels": {"matchLabels": {"a": "b"}}})
    assert protecting.protected_pod_matcher({"a": "b"})


def test_a_package_gives_its_text_as_values_and_keeps_it_as_written() -> None:
    """CON-4, CON-22, ADM-23."""
    raw = {
        "version": "1.2.3",
        "image": "reg:5000/tuning",
        "stageTimeout": "1h30m",
        "gracefulShutdown": "0",
        "resources": {"cpuRequest": 1, "cpuLimit": "4000m", "memoryRequest": "8192Mi", "memoryLimit": "8Gi"},
        "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"x": [1]}}, "unknown": 1}],
        "interrupt": {"type": "service", "services": ["b", "a"]},
    }
    package = spec_of({"packages": {"tuning": raw}}).packages["tuning"]
    assert (package.stage_timeout_seconds, package.graceful_shutdown_seconds) == (5400.0, 0.0)
    assert package.image_reference == "reg:5000/tuning:1.2.3"
    assert package.interrupt is not None
    assert (package.interrupt.type, package.interrupt.services) == (InterruptType.SERVICE, ("b", "a"))
    assert package.model_dump(by_alias=True, exclude_unset=True, mode="json") == raw


def test_a_pinned_package_is_pulled_by_its_digest() -> None:
    """CON-22."""
    assert Package(version="1.0.0", image="a/b", container_sha="sha256:0").image_reference == "a/b@sha256:0"


def test_packages_keep_their_order_and_their_list_is_sorted() -> None:
    """CON-3."""
    spec = spec_of({"packages": {"zz": {"version": "1.0.0"}, "aa": {"version": "2.0.0"}}})
    assert list(spec.packages) == ["zz", "aa"]
    assert spec.package_list == "aa:2.0.0,zz:1.0.0"


def test_what_admission_would_reject_still_parses() -> None:
    """LIF-4: the engine shows InvalidSpec, it does not fail."""
    spec = spec_of(
        {"priority": 0, "packages": {"X": {"stageTimeout": "soon", "name": "x"}}, "drainConfig": {"timeout": "-1s"}}
    )
    assert spec.packages["X"].stage_timeout_seconds is None


def test_null_is_as_good_as_absent() -> None:
    raw = {"priority": None, "packages": {"aa": {"version": "1.0.0", "interrupt": None, "env": None}}}
    assert NodeWrightSpec.from_json(json.dumps(raw)) == spec_of({"packages": {"aa": {"version": "1.0.0"}}})


def test_from_json_raises_on_a_wrong_shape() -> None:
    for raw in ('{"priority": "high"}', "{", "[]"):
        with pytest.raises(ValidationError):
            NodeWrightSpec.from_json(raw)


def test_unknown_fields_are_ignored() -> None:
    assert spec_of({"pause": True, "packages": {"aa": {"later": 1}}}).packages["aa"] == Package()


def test_every_misshapen_value_is_told_with_its_path_and_value() -> None:
    """admission.md: each fault with its field path and the value, never only the first."""
    faults = parse_nodewright(
        {
            "spec": {
                "priority": "high",
                "sequencing": "some",
                "nodeSelectors": {"matchLabels": {"a.b/c": 1}},
                "additionalTolerations": [{"key": 1}, {"key": "a", "operator": 2}],
                "packages": {
                    "tuning": {
                        "version": 1,
                        "interrupt": {},
                        "configInterrupts": {"a.conf": {"type": "explode"}},
                        "resources": {"cpuRequest": True},
                        "env": ["x"],
                    }
                },
            }
        }
    )
    assert isinstance(faults, list)
    assert {fault.path: fault.value for fault in faults} == {
        "spec.priority": "high",
        "spec.sequencing": "some",
        "spec.nodeSelectors.matchLabels[a.b/c]": 1,
        "spec.additionalTolerations[0].key": 1,
        "spec.additionalTolerations[1].operator": 2,
        "spec.packages[tuning].version": 1,
        "spec.packages[tuning].interrupt.type": None,
        "spec.packages[tuning].configInterrupts[a.conf].type": "explode",
        "spec.packages[tuning].resources.cpuRequest": True,
        "spec.packages[tuning].env[0]": "x",
    }


def test_a_fault_reads_as_path_value_and_way_out() -> None:
    faults = parse_nodewright({"spec": {"priority": "high"}})
    assert isinstance(faults, list)
    assert str(faults[0]) == "spec.priority: 'high' is misshapen: input should be a valid integer"


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[]", "3", {"spec": []}])
def test_what_is_no_object_is_a_fault_and_no_exception(raw: Any) -> None:
    """ADM-26."""
    assert isinstance(parse_nodewright(raw), list)
    assert isinstance(parse_policy(raw), list)


@pytest.mark.parametrize("spec", [{1: 2, "packages": 7}, {"packages": {"aa": object()}}])
def test_what_json_cannot_say_is_a_fault_and_no_exception(spec: Any) -> None:
    """`lint` hands over what a YAML file holds."""
    assert isinstance(parse_nodewright({"spec": spec}), list)


def test_a_document_nested_too_deeply_is_a_fault() -> None:
    """ADM-26."""
    assert isinstance(parse_nodewright(b'{"spec":' + b"[" * 100_000), list)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["packages", "type", "interrupt", "env", "matchLabels", "matchExpressions", "resources", "cpuLimit"]
            )
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
FIELDS = st.sampled_from(sorted(field.alias or name for name, field in NodeWrightSpec.model_fields.items()))
POLICY_FIELDS = st.sampled_from(["default", "compartments", "resetBatchStateOnCompletion"])


@given(st.dictionaries(FIELDS, JSON, max_size=4))
def test_no_spec_whatever_makes_parsing_or_checking_raise(raw: dict[str, Any]) -> None:
    """LIF-4."""
    faults = parse_nodewright({"spec": raw})
    assert isinstance(faults, NodeWright | list)
    assert not isinstance(faults, list) or {fault.path for fault in faults} <= {
        fault.path for fault in check_nodewright({"spec": raw})
    }


@given(st.dictionaries(POLICY_FIELDS, JSON, max_size=3))
def test_no_policy_whatever_makes_parsing_or_checking_raise(raw: dict[str, Any]) -> None:
    assert isinstance(parse_policy_spec(raw), DeploymentPolicySpec | list)
    assert all(str(fault) for fault in check_policy({"spec": raw}))


@pytest.mark.parametrize(
    ("pattern", "name", "covers"),
    [
        ("a.conf", "a.conf", True),
        ("a.conf", "aXconf", False),
        ("*.conf", "a.conf", True),
        ("*.conf", ".conf", True),
        ("*.conf", "a.conf.bak", False),
        ("*", "anything", True),
        ("a*a", "a", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("*b*b*", "abb", True),
        ("*b*b*", "ab", False),
        ("a?.conf", "ab.conf", False),
        ("[a].conf", "a.conf", False),
    ],
)
def test_only_the_star_is_special_in_a_config_key(pattern: str, name: str, covers: bool) -> None:
    """ADM-13."""
    assert config_key_matches(pattern, name) is covers


def test_a_pattern_of_many_stars_is_matched_without_backtracking() -> None:
    assert not config_key_matches("*a" * 100 + "*b", "a" * 253)


def test_a_misshapen_part_of_a_status_is_left_out_and_the_rest_is_read() -> None:
    """LIF-1: status is published, not obeyed."""
    status = parse_status(
        {
            "status": "complete",
            "rollout": "three",
            "nodeOrder": {"n1": 0, "n2": "x"},
            "compartmentStatuses": {
                "__default__": {"matched": 3, "batchState": {"currentBatch": 2, "evaluated": True}}
            },
        }
    )
    assert (status.status, status.rollout, status.node_order) == ("complete", 0, {"n1": 0})
    assert status.compartment_statuses["__default__"].batch_state.current_batch == 2
    assert parse_status(None) == parse_status(b"garbage") == parse_status({})


@pytest.mark.parametrize("value", ["1.2", "2", "true"])
def test_a_number_where_text_is_wanted_says_to_quote_it(value: str) -> None:
    """YAML reads `version: 1.2` as a number: that is the way out, said once, and not also by who depends on it."""
    needs = '{"version": "1.0.0", "image": "x/b", "dependsOn": {"a": "1.2.0"}}'
    text = f'{{"packages": {{"a": {{"version": {value}, "image": "x/a"}}, "b": {needs}}}}}'
    spec, faults = parse_leniently(NodeWrightSpec, text.encode(), path="spec")
    assert [fault.path for fault in faults] == ["spec.packages[a].version"]
    assert str(faults[0]).endswith("input should be a valid string; put it in quotes")
    assert list(dependency_faults(spec.packages)) == []
