"""Nodes of a simulation fit the selectors, or are what a real cluster has (CLI-13)."""

import json
from typing import Any

import pytest

from nodewright.api.deployment_policy import DeploymentPolicySpec
from nodewright.api.nodewright import NodeWrightSpec
from nodewright.simulator.made_nodes import MadeNodes, NodesError, make_nodes, read_nodes


def spec(**selector: Any) -> NodeWrightSpec:
    return NodeWrightSpec.model_validate_json(json.dumps({"nodeSelectors": selector, "deploymentPolicy": "p"}))


def labels(nodes: MadeNodes) -> list[dict[str, str]]:
    return [
        {k: v for k, v in item["metadata"]["labels"].items() if not k.startswith("kubernetes.io/")}
        for item in nodes.items
    ]


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchLabels": {"pool": "gpu", "zone": "a"}},
        {"matchExpressions": [expression("pool", "In", "a", "b"), expression("pool", "NotIn", "a")]},
        {"matchExpressions": [expression("pool", "Exists"), expression("pool", "NotIn", "x")]},
        {"matchExpressions": [expression("control", "DoesNotExist"), expression("pool", "In", "a", "b")]},
        {"matchExpressions": [expression("pool", "In", "a", "b"), expression("pool", "In", "b", "c")]},
    ],
)
def test_every_made_node_is_selected(selector: dict[str, Any]) -> None:
    one = spec(**selector)
    assert all(one.node_selectors.matches(have) for have in labels(make_nodes(7, {"a": one}, {})))


def test_selectors_that_exclude_each_other_take_turns() -> None:
    specs = {"a": spec(matchLabels={"pool": "a"}), "b": spec(matchLabels={"pool": "b"})}
    assert [have["pool"] for have in labels(make_nodes(4, specs, {}))] == ["a", "b", "a", "b"]


def test_values_of_an_in_take_turns() -> None:
    one = spec(matchExpressions=[expression("pool", "In", "a", "b")])
    assert [have["pool"] for have in labels(make_nodes(4, {"a": one}, {}))] == ["a", "b", "a", "b"]


def test_nodes_are_spread_over_compartments() -> None:
    policy = DeploymentPolicySpec.model_validate_json(
        json.dumps({"compartments": [{"name": "east", "selector": {"matchLabels": {"zone": "east"}}}]})
    )
    made = labels(make_nodes(4, {"a": spec(matchLabels={"pool": "x"})}, {"p": policy}))
    assert [have.get("zone") for have in made] == ["east", None, "east", None]


def test_a_selector_that_nothing_can_satisfy_is_said() -> None:
    one = spec(matchLabels={"pool": "a"}, matchExpressions=[expression("pool", "DoesNotExist")])
    assert any("selects none" in note for note in make_nodes(2, {"a": one}, {}).notes)


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_a_number_that_makes_no_sense_is_refused(count: int) -> None:
    with pytest.raises(NodesError, match="give 1 to 10000"):
        make_nodes(count, {}, {})


def node(name: str, *, ready: str = "True", **metadata: Any) -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready}], "images": ["much"]}
    return {"kind": "Node", "metadata": {"name": name, "uid": "u", **metadata}, "spec": {}, "status": status}


def test_what_kubectl_gives_keeps_labels_taints_and_our_annotations() -> None:
    one = node("n1", labels={"a": "b"}, annotations={"nodewright.nvidia.com/status_x": "complete", "other": "y"})
    one["spec"] = {"taints": [{"key": "t", "effect": "NoSchedule"}], "unschedulable": True, "providerID": "z"}
    (item,) = read_nodes(json.dumps({"kind": "List", "items": [one]})).items
    assert item["metadata"]["labels"] == {"a": "b"}
    assert item["metadata"]["annotations"] == {"nodewright.nvidia.com/status_x": "complete"}
    assert item["spec"] == {"taints": [{"key": "t", "effect": "NoSchedule"}], "unschedulable": True}
    assert "uid" not in item["metadata"]


def test_a_node_that_is_not_ready_has_a_silent_kubelet() -> None:
    read = read_nodes(json.dumps({"items": [node("n1"), node("n2", ready="Unknown")]}))
    assert read.silent == {"n2"}
    assert any("not Ready" in note for note in read.notes)


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"items": []}', '{"items": [{"kind": "Pod", "metadata": {"name": "x"}}]}']
)
def test_anything_else_is_refused_with_the_command_that_makes_it(text: str) -> None:
    with pytest.raises(NodesError):
        read_nodes(text)
