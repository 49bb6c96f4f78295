"""Cases of strategic merge patches; see `objects_cases.py`."""

from typing import Any, Final

from tests.contract.objects_cases import ABSENT, STRATEGIC, PatchCase

_TAINTS = [{"key": "a", "effect": "NoSchedule", "value": "1"}, {"key": "b", "effect": "NoExecute"}]
_CONTAINERS = [
    {"name": "one", "image": "i1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
    {"name": "two", "image": "i2"},
]
_POD = {"spec": {"containers": _CONTAINERS}, "metadata": {"finalizers": ["x.example.com/a", "x.example.com/b"]}}
_CONDITIONS = [{"type": "Ready", "status": "True"}, {"type": "Custom", "status": "False", "message": "m"}]
_IMAGE = "spec.containers.0.image"


def _containers(*containers: Any, **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **more}}


STRATEGIC_PATCHES: Final = (
    PatchCase(
        name="taints are replaced",
        kind="node",
        live={"spec": {"taints": _TAINTS}},
        type=STRATEGIC,
        patch={"spec": {"taints": _TAINTS[:1]}},
        expect={"spec.taints": _TAINTS[:1]},
    ),
    PatchCase(
        name="null removes the taints",
        kind="node",
        live={"spec": {"taints": _TAINTS}},
        type=STRATEGIC,
        patch={"spec": {"taints": None}},
        expect={"spec.taints": ABSENT},
    ),
    PatchCase(
        name="annotations merge",
        kind="node",
        live={"metadata": {"annotations": {"a": "1", "b": "2"}}},
        type=STRATEGIC,
        patch={"metadata": {"annotations": {"a": None, "c": "3"}}},
        expect={"metadata.annotations.a": ABSENT, "metadata.annotations.b": "2", "metadata.annotations.c": "3"},
    ),
    PatchCase(
        name="$patch: replace of a map",
        kind="node",
        live={"metadata": {"annotations": {"a": "1"}}},
        type=STRATEGIC,
        patch={"metadata": {"annotations": {"$patch": "replace", "c": "3"}}},
        expect={"metadata.annotations": {"c": "3"}},
    ),
    PatchCase(
        name="$patch: delete of a map",
        kind="node",
        live={"metadata": {"annotations": {"a": "1"}}},
        type=STRATEGIC,
        patch={"metadata": {"annotations": {"$patch": "delete"}}},
        expect={"metadata.annotations": ABSENT},
    ),
    PatchCase(
        name="conditions merge by type",
        kind="node",
        live={"status": {"conditions": _CONDITIONS}},
        type=STRATEGIC,
        subresource="status",
        patch={"status": {"conditions": [{"type": "Custom", "status": "True"}, {"type": "New", "status": "True"}]}},
        expect={"status.conditions.*type": ["Ready", "Custom", "New"]},
    ),
    PatchCase(
        name="a condition that is new goes first when it comes alone",
        kind="node",
        live={"status": {"conditions": _CONDITIONS}},
        type=STRATEGIC,
        subresource="status",
        patch={"status": {"conditions": [{"type": "New", "status": "True"}]}},
        expect={"status.conditions.*type": ["New", "Ready", "Custom"]},
    ),
    PatchCase(
        name="$patch: delete removes a condition",
        kind="node",
        live={"status": {"conditions": _CONDITIONS}},
        type=STRATEGIC,
        subresource="status",
        patch={"status": {"conditions": [{"type": "Custom", "$patch": "delete"}]}},
        expect={"status.conditions.*type": ["Ready"]},
    ),
    PatchCase(
        name="deleting a condition that is not there",
        kind="node",
        live={"status": {"conditions": _CONDITIONS}},
        type=STRATEGIC,
        subresource="status",
        patch={"status": {"conditions": [{"type": "Other", "$patch": "delete"}]}},
        expect={"status.conditions.*type": ["Ready", "Custom"]},
    ),
    PatchCase(
        name="containers merge by name",
        kind="pod",
        live=_POD,
        type=STRATEGIC,
        patch=_containers({"name": "two", "image": "i3"}),
        expect={"spec.containers.*name": ["one", "two"], "spec.containers.1.image": "i3"},
    ),
    PatchCase(
        name="$setElementOrder alone changes the order",
        kind="pod",
        type=STRATEGIC,
        live={
            "metadata": {"finalizers": ["x.example.com/a", "x.example.com/b", "x.example.com/c"]},
            **_containers(*_CONTAINERS),
        },
        patch={"metadata": {"$setElementOrder/finalizers": ["x.example.com/c", "x.example.com/a"]}},
        expect={"metadata.finalizers": ["x.example.com/b", "x.example.com/c", "x.example.com/a"]},
    ),
    PatchCase(
        name="$setElementOrder with a change",
        kind="pod",
        live=_POD,
        type=STRATEGIC,
        patch=_containers(
            {"name": "two", "image": "i3"}, **{"$setElementOrder/containers": [{"name": "one"}, {"name": "two"}]}
        ),
        expect={"spec.containers.*name": ["one", "two"], "spec.containers.1.image": "i3"},
    ),
    PatchCase(
        name="finalizers are a set",
        kind="pod",
        live=_POD,
        type=STRATEGIC,
        patch={"metadata": {"finalizers": ["x.example.com/b", "x.example.com/c"]}},
        expect={"metadata.finalizers": ["x.example.com/a", "x.example.com/b", "x.example.com/c"]},
    ),
    PatchCase(
        name="$deleteFromPrimitiveList",
        kind="pod",
        live=_POD,
        type=STRATEGIC,
        patch={"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example.com/a", "x.example.com/z"]}},
        expect={"metadata.finalizers": ["x.example.com/b"]},
    ),
    PatchCase(
        name="$retainKeys",
        kind="node",
        live={"metadata": {"annotations": {"a": "1", "b": "2"}}},
        type=STRATEGIC,
        patch={"metadata": {"annotations": {"$retainKeys": ["b", "c"], "c": "3"}}},
        expect={"metadata.annotations": {"b": "2", "c": "3"}},
    ),
    PatchCase(
        name="$retainKeys without a key that is set",
        kind="node",
        type=STRATEGIC,
        patch={"metadata": {"annotations": {"$retainKeys": ["b"], "c": "3"}}},
        live={"metadata": {"annotations": {"a": "1"}}},
        refused=(400, "invalid patch format of retainKeys"),
    ),
    PatchCase(
        name="an order that does not match",
        kind="pod",
        live=_POD,
        type=STRATEGIC,
        patch=_containers(
            {"name": "two", "image": "i3"},
            {"name": "one", "image": "i4"},
            **{"$setElementOrder/containers": [{"name": "one"}, {"name": "two"}]},
        ),
        refused=(
            500,
            "The order in patch list:\n[map[image:i3 name:two] map[image:i4 name:one]]\n doesn't match "
            "$setElementOrder list:\n[map[name:one] map[name:two]]\n",
        ),
    ),
    PatchCase(
        name="an element without its key",
        kind="pod",
        live=_POD,
        type=STRATEGIC,
        patch=_containers({"image": "i"}),
        refused=(500, "map: map[image:i] does not contain declared merge key: name"),
    ),
    PatchCase(
        name="an unknown $patch",
        kind="node",
        live={"metadata": {"annotations": {"a": "1"}}},
        type=STRATEGIC,
        patch={"metadata": {"annotations": {"$patch": "keep"}}},
        refused=(500, "unknown patch type: keep in map: map[$patch:keep]"),
    ),
    PatchCase(
        name="$patch: merge in a list",
        kind="pod",
        live=_POD,
        type=STRATEGIC,
        patch=_containers({"name": "one", "$patch": "merge"}),
        refused=(500, "merging lists cannot yet be specified in the patch"),
    ),
    PatchCase(
        name="a list where a map is",
        kind="pod",
        live=_POD,
        type=STRATEGIC,
        patch=[],
        refused=(400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ),
)
