"""The JSON patch of a node: what it tests and what it changes (CON-11)."""

from typing import Any

from nodewright.model.objects import Node, NodeSpec, ObjectMeta
from nodewright.model.plan import NodePatch
from nodewright.operator.node_patch import operations

UID = {"op": "test", "path": "/metadata/uid", "value": "u1"}


def node(*, annotations: dict[str, str] | None = None, unschedulable: bool = False) -> Node:
    return Node(
        metadata=ObjectMeta(
            name="n1", uid="u1", resource_version="7", labels={"x": "y"}, annotations=annotations or {}
        ),
        spec=NodeSpec(unschedulable=unschedulable),
    )


def ops(on: Node, patch: NodePatch) -> list[dict[str, Any]]:
    return operations(on, patch, resource_version="9")


def test_each_own_key_is_tested_for_its_old_value_after_the_uid() -> None:
    patched = ops(node(annotations={"g/a": "old", "other": "1"}), NodePatch(annotations={"g/a": "new", "g/b": "first"}))
    assert patched == [
        UID,
        {"op": "test", "path": "/metadata/annotations/g~1a", "value": "old"},
        {"op": "add", "path": "/metadata/annotations/g~1a", "value": "new"},
        {"op": "test", "path": "/metadata/annotations/g~1b", "value": None},
        {"op": "add", "path": "/metadata/annotations/g~1b", "value": "first"},
    ]


def test_a_missing_map_is_tested_for_null_and_added_whole() -> None:
    patched = ops(node(), NodePatch(annotations={"b": "2", "a": "1", "gone": None}))
    assert patched == [
        UID,
        {"op": "test", "path": "/metadata/annotations", "value": None},
        {"op": "add", "path": "/metadata/annotations", "value": {"a": "1", "b": "2"}},
    ]


def test_removing_tests_the_value_that_goes_and_an_absent_key_is_only_tested() -> None:
    patched = ops(node(annotations={"a": "1"}), NodePatch(annotations={"a": None, "b": None}))
    assert patched == [
        UID,
        {"op": "test", "path": "/metadata/annotations/a", "value": "1"},
        {"op": "remove", "path": "/metadata/annotations/a"},
        {"op": "test", "path": "/metadata/annotations/b", "value": None},
    ]


def test_a_patch_that_changes_nothing_is_no_patch() -> None:
    assert ops(node(annotations={"a": "1"}), NodePatch(annotations={"a": "1", "b": None}, unschedulable=None)) == []
    assert ops(node(), NodePatch(annotations={"b": None})) == []


def test_cordoning_tests_that_the_node_was_schedulable() -> None:
    assert ops(node(), NodePatch(unschedulable=True)) == [
        UID,
        {"op": "test", "path": "/spec/unschedulable", "value": None},
        {"op": "add", "path": "/spec/unschedulable", "value": True},
    ]


def test_releasing_a_cordon_also_tests_the_newest_resource_version() -> None:
    # CON-11, trap 58: another CR may be adding its own cordon in that moment
    assert ops(node(unschedulable=True), NodePatch(unschedulable=False)) == [
        UID,
        {"op": "test", "path": "/spec/unschedulable", "value": True},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "9"},
        {"op": "remove", "path": "/spec/unschedulable"},
    ]


def test_a_slash_and_a_tilde_in_a_key_are_escaped() -> None:
    patched = ops(node(annotations={"g/~k": "1"}), NodePatch(annotations={"g/~k": "2"}))
    assert patched[1]["path"] == "/metadata/annotations/g~1~0k"
