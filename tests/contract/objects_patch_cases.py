"""Cases of JSON patches and merge patches; see `objects_cases.py`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.contract.objects_cases import JSON, MERGE, UNPROCESSABLE, PatchCase


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
    _json("adding at -1 is adding at the end", {"a": [1, 2]}, [_op("add", "/a/-1", value=3)], {"a": [1, 2, 3]}),
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
