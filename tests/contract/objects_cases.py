"""What Kubernetes does with patches, applies, schemas, selectors and tables, as data.

Each case says what a client sends and what comes of it, so that it can be run on the pure functions, on the embedded API server and
on a real one; where they differ, the embedded one is wrong. The real answers were taken from Kubernetes 1.36. Objects are given without
`apiVersion`, `kind` and name, which the runner adds. `WIDGETS` is the CRD of the custom kind that most cases use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

JSON, MERGE, STRATEGIC = "json-patch", "merge-patch", "strategic-merge-patch"
ABSENT: Final = object()
"""Expected at a path where nothing must be."""
UNPROCESSABLE: Final = "the server rejected our request due to an error in our request"
"""All that the server says about a patch that does not apply."""
GROUP: Final = "contract.example.com"

WIDGET_SPEC: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer", "minimum": 0, "maximum": 10},
        "share": {"type": "number", "exclusiveMinimum": True, "minimum": 0, "multipleOf": 0.5},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "amount": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "tone": {"type": "string", "default": "calm"},
        "hue": {"type": "string", "nullable": True, "default": "red"},
        "quiet": {"type": "string"},
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"depth": {"type": "integer", "default": 3}, "note": {"type": "string"}},
        },
        "parts": {
            "type": "array",
            "maxItems": 3,
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "size": {"type": "integer", "default": 1},
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
        },
        "ports": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string"},
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
        },
        "words": {"type": "array", "items": {"type": "string"}},
        "colours": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "selector": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "x-kubernetes-map-type": "atomic",
        },
        "options": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
        "budget": {
            "type": "object",
            "properties": {"percent": {"type": "integer"}, "count": {"type": "integer"}},
            "oneOf": [{"required": ["percent"]}, {"required": ["count"]}],
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object", "properties": {"known": {"type": "string"}}}},
        },
    },
}
WIDGET_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": WIDGET_SPEC,
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                },
            },
        },
    },
    "x-kubernetes-validations": [
        {
            "rule": "size(self.metadata.name) <= 40",
            "message": "the name must not be longer than 40 characters",
            "fieldPath": ".metadata.name",
        }
    ],
}
WIDGET_COLUMNS: Final[list[dict[str, Any]]] = [
    {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
    {"name": "First", "type": "string", "jsonPath": ".spec.parts[0].id"},
    {"name": "Big", "type": "integer", "jsonPath": '.spec.parts[?(@.id=="big")].size', "priority": 1},
    {"name": "Words", "type": "string", "jsonPath": ".spec.words"},
    {"name": "Dotted", "type": "string", "jsonPath": ".metadata.annotations.example\\.com/a"},
    {"name": "Not a number", "type": "integer", "jsonPath": ".spec.mode"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
WIDGETS: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": WIDGET_COLUMNS,
                "schema": {"openAPIV3Schema": WIDGET_SCHEMA},
            }
        ],
    },
}
KINDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "configmap": ("v1", "ConfigMap", "/api/v1/namespaces/default/configmaps"),
    "node": ("v1", "Node", "/api/v1/nodes"),
    "pod": ("v1", "Pod", "/api/v1/namespaces/default/pods"),
    "widget": (f"{GROUP}/v1", "Widget", f"/apis/{GROUP}/v1/widgets"),
}
"""apiVersion, kind and the collection's path by the cases' short names."""


@dataclass(frozen=True, kw_only=True)
class PatchCase:
    """One patch of one object, as a dry run."""

    name: str
    kind: str = "widget"
    live: Mapping[str, Any] = field(default_factory=dict)
    type: str
    patch: Any
    expect: Mapping[str, Any] = field(default_factory=dict)
    """Values by dotted path; `ABSENT` for none."""
    refused: tuple[int, str] | None = None
    """Status and message."""
    cause: str = ""
    """What the pure function says was wrong where the server says nothing."""
    subresource: str = ""


def _free(**fields: Any) -> dict[str, Any]:
    return {"spec": {"free": fields}}


def _op(op: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": op, "path": f"/spec/free{path}", **rest}


def _json(name: str, live: Mapping[str, Any], operations: Sequence[Any], expect: Any) -> PatchCase:
    """A JSON patch of `spec.free`; `expect` is what it is afterwards, or why it is refused."""
    refused = (422, UNPROCESSABLE) if isinstance(expect, str) else None
    return PatchCase(
        name=name,
        live=_free(**live),
        type=JSON,
        patch=list(operations),
        expect={} if refused else {"spec.free": expect},
        refused=refused,
        cause=expect if isinstance(expect, str) else "",
    )


JSON_PATCHES: Final = (
    _json("add to a map", {"a": 1}, [_op("add", "/b", value=2)], {"a": 1, "b": 2}),
    _json("add replaces what is there", {"a": 1}, [_op("add", "/a", value=[])], {"a": []}),
    _json(
        "add to a missing parent",
        {},
        [_op("add", "/a/b", value=1)],
        'add operation does not apply: doc is missing path: "/spec/free/a/b": missing value',
    ),
    _json("add at an index", {"a": [1, 3]}, [_op("add", "/a/1", value=2)], {"a": [1, 2, 3]}),
    _json("add at the end", {"a": [1]}, [_op("add", "/a/-", value=2)], {"a": [1, 2]}),
    _json("add at the length", {"a": [1]}, [_op("add", "/a/1", value=2)], {"a": [1, 2]}),
    _json(
        "add past the end",
        {"a": [1]},
        [_op("add", "/a/2", value=2)],
        "error in add for path: '/spec/free/a/2': Unable to access invalid index: 2: invalid index referenced",
    ),
    _json("a negative index counts from the end", {"a": [1, 2]}, [_op("remove", "/a/-1")], {"a": [1]}),
    _json(
        "an index that is no number",
        {"a": [1]},
        [_op("add", "/a/x", value=2)],
        "error in add for path: '/spec/free/a/x': value was not a proper array index: 'x': "
        'strconv.Atoi: parsing "x": invalid syntax',
    ),
    _json("remove", {"a": 1, "b": 2}, [_op("remove", "/a")], {"b": 2}),
    _json(
        "remove what is not there",
        {"b": 2},
        [_op("remove", "/a")],
        "error in remove for path: '/spec/free/a': Unable to remove nonexistent key: a: missing value",
    ),
    _json("replace", {"a": 1}, [_op("replace", "/a", value="x")], {"a": "x"}),
    _json("replace adds a missing key", {}, [_op("replace", "/a", value=1)], {"a": 1}),
    _json(
        "replace in a missing parent",
        {},
        [_op("replace", "/a/b", value=1)],
        "replace operation does not apply: doc is missing path: /spec/free/a/b: missing value",
    ),
    _json(
        "replace past the end",
        {"a": [1]},
        [_op("replace", "/a/1", value=1)],
        "replace operation does not apply: doc is missing key: /spec/free/a/1: missing value",
    ),
    _json(
        "move", {"a": {"x": 1}, "b": {}}, [_op("move", "/b/y", **{"from": "/spec/free/a/x"})], {"a": {}, "b": {"y": 1}}
    ),
    _json(
        "move what is not there",
        {},
        [_op("move", "/b", **{"from": "/spec/free/a"})],
        "error in move for path: 'a': Unable to remove nonexistent key: a: missing value",
    ),
    _json("copy", {"a": {"x": 1}}, [_op("copy", "/b", **{"from": "/spec/free/a"})], {"a": {"x": 1}, "b": {"x": 1}}),
    _json("copy from a missing key gives null", {}, [_op("copy", "/b", **{"from": "/spec/free/a"})], {"b": None}),
    _json(
        "a copy is no alias",
        {"a": {"x": 1}},
        [_op("copy", "/b", **{"from": "/spec/free/a"}), _op("add", "/b/x", value=2)],
        {"a": {"x": 1}, "b": {"x": 2}},
    ),
    _json("test holds", {"a": {"x": [1, "y"]}}, [_op("test", "/a", value={"x": [1, "y"]})], {"a": {"x": [1, "y"]}}),
    _json("test fails", {"a": 1}, [_op("test", "/a", value=2)], "testing value /spec/free/a failed: test failed"),
    _json(
        "a number is not its text",
        {"a": 1},
        [_op("test", "/a", value="1")],
        "testing value /spec/free/a failed: test failed",
    ),
    _json("test for null proves absence", {"b": 1}, [_op("test", "/a", value=None)], {"b": 1}),
    _json("test without a value proves absence", {"b": 1}, [_op("test", "/a")], {"b": 1}),
    _json(
        "test for null of what is there",
        {"a": 0},
        [_op("test", "/a", value=None)],
        "testing value /spec/free/a failed: test failed",
    ),
    _json(
        "test for null fails where the parent is missing",
        {},
        [_op("test", "/a/b", value=None)],
        "test operation does not apply: is missing path: /spec/free/a/b: missing value",
    ),
    _json(
        "test past the end",
        {"a": []},
        [_op("test", "/a/0", value=None)],
        "error in test for path: '/spec/free/a/0': Unable to access invalid index: 0: invalid index referenced",
    ),
    _json(
        "a failed test undoes what came before",
        {"a": 1},
        [_op("add", "/b", value=1), _op("test", "/a", value=2)],
        "testing value /spec/free/a failed: test failed",
    ),
    _json(
        "escapes",
        {"a/b": 1, "c~d": 2, "e~1f": 3},
        [_op("remove", "/a~1b"), _op("remove", "/c~0d"), _op("remove", "/e~01f")],
        {},
    ),
    _json("no path", {}, [{"op": "add", "value": 1}], "add operation failed to decode path: missing value"),
    _json(
        "no path to test",
        {},
        [{"op": "test", "value": 1}],
        "test operation failed to decode path: operation missing path field: missing value",
    ),
    _json("an unknown operation", {}, [_op("merge", "/a")], "Unexpected kind: merge"),
    PatchCase(
        name="no list of operations",
        type=JSON,
        patch={},
        refused=(
            400,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
    ),
    PatchCase(
        name="a path that is no text",
        type=JSON,
        patch=[{"op": "add", "path": 1}],
        refused=(
            400,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
    ),
)

MERGE_PATCHES: Final = (
    PatchCase(
        name="null removes", live=_free(a=1, b=2), type=MERGE, patch=_free(a=None), expect={"spec.free": {"b": 2}}
    ),
    PatchCase(
        name="maps merge, lists are replaced",
        live=_free(a={"x": 1, "l": [1]}),
        type=MERGE,
        patch=_free(a={"y": 2, "l": [2]}),
        expect={"spec.free.a": {"x": 1, "y": 2, "l": [2]}},
    ),
    PatchCase(
        name="nulls of a new map are dropped",
        live=_free(),
        type=MERGE,
        patch=_free(a={"x": None, "y": 1}),
        expect={"spec.free.a": {"y": 1}},
    ),
    PatchCase(
        name="nulls in lists' maps are dropped in new lists",
        live=_free(),
        type=MERGE,
        patch=_free(a=[{"x": None}, None]),
        expect={"spec.free.a": [{}, None]},
    ),
    PatchCase(
        name="nulls in a list that replaces a map stay",
        live=_free(a={"x": 1}),
        type=MERGE,
        patch=_free(a=[{"x": None}]),
        expect={"spec.free.a": [{"x": None}]},
    ),
    PatchCase(
        name="a map replaces a scalar",
        live=_free(a=1),
        type=MERGE,
        patch=_free(a={"x": {"y": None}}),
        expect={"spec.free.a": {"x": {}}},
    ),
    PatchCase(
        name="a scalar replaces a map", live=_free(a={"x": 1}), type=MERGE, patch=_free(a=1), expect={"spec.free.a": 1}
    ),
    PatchCase(
        name="a merge patch that is no map",
        type=MERGE,
        patch=[],
        refused=(
            400,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ),
    PatchCase(
        name="null for a field with a default",
        live={"spec": {"tone": "loud"}},
        type=MERGE,
        patch={"spec": {"tone": None}},
        expect={"spec.tone": "calm"},
    ),
)

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
PATCHES: Final = (*JSON_PATCHES, *MERGE_PATCHES, *STRATEGIC_PATCHES)
