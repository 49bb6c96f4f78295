"""Which change asks for a pass of which CR (LIF-3)."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import pytest

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec
from nodewright.model.objects import DeploymentPolicyObject, Node, NodeWrightObject, ObjectMeta
from nodewright.model.snapshot import CR
from nodewright.operator import triggers

T = TypeVar("T")


@dataclass
class Change(Generic[T]):
    old: T | None
    new: T | None


def cr(name: str, *, role: str = "gpu", priority: int = 200, sequencing: str = "node", policy: str = "") -> CR:
    spec = {
        "nodeSelectors": {"matchLabels": {"role": role}}, "priority": priority, "sequencing": sequencing, "deploymentPolicy": policy,
    }  # fmt: skip
    return CR(meta=ObjectMeta(name=name), spec=NodeWrightSpec.from_json(msgspec.json.encode(spec)))


def node(**parts: Any) -> Node:
    return msgspec.convert({"metadata": {"name": "n1", "labels": {"role": "gpu"}}, **parts}, Node)


def nodewright(**meta: Any) -> NodeWrightObject:
    return NodeWrightObject(metadata=msgspec.convert({"name": "cr", "uid": "u", "generation": 1, **meta}, ObjectMeta))


def test_a_node_concerns_the_crs_that_select_it_or_have_a_key_on_it() -> None:
    bearer = node(metadata={"name": "n1", "labels": {"role": "gpu"}, "annotations": {keys.cordon_key("left"): "true"}})
    crs = [cr("selects"), cr("left", role="cpu"), cr("neither", role="cpu")]
    assert triggers.concerned_by_node(bearer, crs) == {"selects", "left"}


def test_a_cr_whose_spec_cannot_be_read_is_concerned_only_where_it_has_a_key() -> None:
    broken = CR(meta=ObjectMeta(name="broken"), spec=None)
    assert triggers.concerned_by_node(node(), [broken]) == set()


def test_with_sequencing_all_its_successors_are_concerned_by_each_of_its_nodes() -> None:
    # ROL-17
    crs = [
        cr("before", role="cpu", priority=50),
        cr("all", priority=100, sequencing="all"),
        cr("after", role="cpu", priority=150),
    ]
    assert triggers.concerned_by_node(node(), crs) == {"all", "after"}
    equal = [cr("b-all", sequencing="all"), cr("a", role="cpu"), cr("c", role="cpu")]
    assert triggers.concerned_by_node(node(), equal) == {"b-all", "c"}


@pytest.mark.parametrize(
    "changed",
    [
        {"metadata": {"name": "n1", "labels": {"role": "cpu"}}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
        {"metadata": {"name": "n1", "labels": {"role": "gpu"}, "annotations": {keys.node_state_key("cr"): "{}"}}},
        {"metadata": {"name": "n1", "labels": {"role": "gpu"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"status": {"nodeInfo": {"bootID": "b2"}}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"status": {"conditions": [{"type": keys.not_ready_condition("cr"), "status": "True"}]}},
    ],
)
def test_a_change_that_a_decision_may_depend_on_matters(changed: dict[str, Any]) -> None:
    assert triggers.node_matters(Change(node(), node(**changed)))


@pytest.mark.parametrize(
    "changed",
    [
        {"metadata": {"name": "n1", "labels": {"role": "gpu"}, "resourceVersion": "9"}},
        {"metadata": {"name": "n1", "labels": {"role": "gpu"}, "annotations": {"cni/ip": "10.0.0.1"}}},
        {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}},
    ],
)
def test_heartbeats_and_other_softwares_keys_do_not(changed: dict[str, Any]) -> None:
    assert not triggers.node_matters(Change(node(), node(**changed)))


def test_a_node_that_comes_or_goes_matters() -> None:
    assert triggers.node_matters(Change(None, node()))
    assert triggers.node_matters(Change(node(), None))


def test_a_status_write_concerns_only_its_cr() -> None:
    old, new = nodewright(resourceVersion="1"), nodewright(resourceVersion="2")
    assert triggers.is_status_only(Change(old, new))
    assert not triggers.is_more_than_status(Change(old, new))


@pytest.mark.parametrize(
    "changed",
    [
        {"generation": 2},
        {"annotations": {keys.PAUSE: "true"}},
        {"labels": {"a": "b"}},
        {"finalizers": [keys.FINALIZER]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"uid": "another"},
    ],
)
def test_any_other_change_of_a_cr_concerns_every_cr(changed: dict[str, Any]) -> None:
    # trap 54 for the deletion
    assert triggers.is_more_than_status(Change(nodewright(), nodewright(**changed)))


def test_a_cr_that_comes_or_goes_concerns_every_cr() -> None:
    assert triggers.is_more_than_status(Change(None, nodewright()))
    assert triggers.is_more_than_status(Change(nodewright(), None))


def test_a_policy_concerns_those_who_name_it() -> None:
    policy = DeploymentPolicyObject(metadata=ObjectMeta(name="careful"))
    assert triggers.users_of(policy, [cr("a", policy="careful"), cr("b", policy="other"), cr("c")]) == ["a"]
