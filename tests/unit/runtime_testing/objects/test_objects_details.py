"""Details of the pure functions that no request shows alone: times of the record, its size, CEL, JSONPath, ages, our own CRDs."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_runtime.testing.api_server.objects.ages import age, duration, parse_time
from controller_runtime.testing.api_server.objects.apply import MOST_UPDATERS, ApplyConflict, apply, update_managers
from controller_runtime.testing.api_server.objects.json_patches import MOST_OPERATIONS
from controller_runtime.testing.api_server.objects.jsonpath import JsonPath, JsonPathError
from controller_runtime.testing.api_server.objects.merge_schema import ListType, MapType, MergeSchema
from controller_runtime.testing.api_server.objects.merge_tables import schema_of
from controller_runtime.testing.api_server.objects.patches import PatchError, json_patch, strategic_merge_patch
from controller_runtime.testing.api_server.objects.schemas import StructuralSchema
from controller_runtime.testing.api_server.objects.selectors import FieldQuery, LabelQuery
from controller_runtime.testing.api_server.objects.tables import layout_of

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CRDS = Path(__file__).parents[4] / "crds"
MAPS = schema_of("", "ConfigMap")


def _map(**values: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "u"}, "data": values}


def _updated(live: dict[str, Any] | None, after: dict[str, Any], manager: str, seconds: int = 0) -> dict[str, Any]:
    return update_managers(
        live, after, manager=manager, api_version="v1", schema=MAPS, now=NOW + timedelta(seconds=seconds)
    )


def _times(obj: Mapping[str, Any]) -> dict[str, str]:
    return {entry["manager"]: entry.get("time", "")[11:19] for entry in obj["metadata"]["managedFields"]}


# --- the record ------------------------------------------------------------------------------------------------------


def test_an_entry_s_time_moves_only_when_its_manager_came_to_own_something() -> None:
    live = _updated(None, _map(a="1"), "one")
    same = _updated(live, _map(a="1"), "one", seconds=5)
    assert _times(same) == {"one": "12:00:00"}
    more = _updated(same, _map(a="1", b="2"), "one", seconds=9)
    assert _times(more) == {"one": "12:00:09"}
    less = _updated(more, _map(a="1"), "two", seconds=12)
    assert _times(less) == {"one": "12:00:09"}


def test_an_apply_that_changes_nothing_keeps_the_entry_s_time() -> None:
    first = apply(None, _map(a="1"), manager="one", force=False, schema=MAPS, now=NOW, api_version="v1")
    later = NOW + timedelta(minutes=1)
    assert apply(first, _map(a="1"), manager="one", force=False, schema=MAPS, now=later, api_version="v1") == first
    other = apply(first, _map(a="2"), manager="one", force=False, schema=MAPS, now=later, api_version="v1")
    assert _times(other) == {"one": "12:01:00"}


def test_entries_are_sorted_by_operation_then_time_then_manager() -> None:
    live = _updated(None, _map(a="1"), "z")
    live = _updated(live, _map(a="1", b="1", c="1"), "b", seconds=1)
    live = _updated(live, _map(a="1", b="1", c="2"), "a", seconds=1)
    live = apply(live, _map(d="1"), manager="y", force=False, schema=MAPS, now=NOW, api_version="v1")
    assert [entry["manager"] for entry in live["metadata"]["managedFields"]] == ["y", "z", "a", "b"]


def test_the_oldest_of_too_many_updaters_are_folded_into_one() -> None:
    live = _updated(None, _map(k0="v"), "m0")
    for number in range(1, MOST_UPDATERS + 3):
        values = {f"k{each}": "v" for each in range(number + 1)}
        live = _updated(live, _map(**values), f"m{number}", seconds=number)
    entries = live["metadata"]["managedFields"]
    assert len(entries) == MOST_UPDATERS
    ancient = next(entry for entry in entries if entry["manager"] == "ancient-changes")
    assert ancient["fieldsV1"]["f:data"] == {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}


def test_a_record_that_cannot_be_read_is_forgotten() -> None:
    live = _updated(None, _map(a="1"), "one")
    broken = _map(a="1")
    broken["metadata"]["managedFields"] = [{"manager": "x", "operation": "Guess", "apiVersion": "v1"}]
    assert _times(_updated(live, broken, "two")) == {"one": "12:00:00"}


def test_a_subresource_s_write_cannot_bring_a_record() -> None:
    live = _updated(None, _map(a="1"), "one")
    brought = {**live, "metadata": {**live["metadata"], "managedFields": [{}]}}
    after = update_managers(live, brought, manager="two", subresource="status", api_version="v1", schema=MAPS, now=NOW)
    assert _times(after) == {"one": "12:00:00"}


def test_applies_are_not_recorded_as_updates() -> None:
    with pytest.raises(ValueError, match="records updates, not 'Apply'"):
        update_managers(None, _map(), manager="x", operation="Apply", api_version="v1", schema=MAPS, now=NOW)


def test_a_conflict_carries_its_managers_and_fields() -> None:
    live = _updated(None, _map(a="1", b="1"), "one")
    with pytest.raises(ApplyConflict) as conflict:
        apply(live, _map(a="2", b="2"), manager="two", force=False, schema=MAPS, now=NOW, api_version="v1")
    assert conflict.value.managers == ['"one" using v1']
    assert conflict.value.fields == [".data.a", ".data.b"]


def test_null_for_what_the_server_sets_is_no_order_to_remove_it() -> None:
    live = _map(a="1")
    live["metadata"]["creationTimestamp"] = "2026-05-01T00:00:00Z"
    applied = _map(a="1")
    applied["metadata"] = {"name": "x", "creationTimestamp": None, "labels": {"l": "1"}}
    after = apply(live, applied, manager="one", force=False, schema=MAPS, now=NOW, api_version="v1")
    assert after["metadata"]["creationTimestamp"] == "2026-05-01T00:00:00Z"
    assert after["metadata"]["labels"] == {"l": "1"}


def test_nobody_owns_what_a_write_cannot_change() -> None:
    nodes = schema_of("", "Node")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"unschedulable": True}}
    node["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    created = update_managers(None, node, manager="one", api_version="v1", schema=nodes, now=NOW)
    assert [entry["fieldsV1"] for entry in created["metadata"]["managedFields"]] == [
        {"f:spec": {"f:unschedulable": {}}}
    ]


# --- schemas ---------------------------------------------------------------------------------------------------------


def test_merge_schemas_of_crds_follow_the_list_and_map_types() -> None:
    schema = MergeSchema.from_crd(
        {
            "type": "object",
            "properties": {
                "l": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a", "b"],
                    "items": {"type": "object", "properties": {"b": {"type": "string", "default": "z"}}},
                },
                "m": {"type": "object", "x-kubernetes-map-type": "atomic"},
            },
        }
    )
    found = schema.field("l")
    assert (found.list_type, found.list_keys, found.key_defaults) == (ListType.MAP, ("a", "b"), {"b": "z"})
    assert schema.field("m").map_type is MapType.ATOMIC
    assert schema.field("metadata").field("finalizers").list_type is ListType.SET


@pytest.mark.parametrize("name", ["nodewrights", "deploymentpolicies"])
def test_our_own_crds_are_read_whole(name: str) -> None:
    """No rule of theirs is ignored, so that the embedded server refuses what a real one refuses."""
    crd = yaml.safe_load((CRDS / f"nodewright.nvidia.com_{name}.yaml").read_text(encoding="utf-8"))
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        assert StructuralSchema.from_crd(schema).ignored_rules == ()
        MergeSchema.from_crd(schema)
        assert (
            len(
                layout_of(
                    "nodewright.nvidia.com", crd["spec"]["names"]["kind"], version["additionalPrinterColumns"]
                ).columns
            )
            > 1
        )


def _with_rule(rule: str, **more: str) -> StructuralSchema:
    spec = {"type": "object", "x-kubernetes-validations": [{"rule": rule, **more}]}
    return StructuralSchema.from_crd({"type": "object", "properties": {"spec": spec}})


@pytest.mark.parametrize(
    ("rule", "spec", "holds"),
    [
        ("size(self.a) <= 2", {"a": "xy"}, True),
        ("size(self.a) <= 2", {"a": [1, 2, 3]}, False),
        ("self.a < 3 && self.b == 'x'", {"a": 2, "b": "x"}, True),
        ("self.a < 3 && self.b == 'x'", {"a": 2, "b": "y"}, False),
        ("has(self.a)", {}, False),
        ("!has(self.a.b)", {"a": {}}, True),
        ("self.on == true", {"on": False}, False),
        ("self.a.all(x, x > 1)", {"a": [0]}, True),  # cannot be read
    ],
)
def test_the_cel_that_can_be_read(rule: str, spec: dict[str, Any], *, holds: bool) -> None:
    assert (_with_rule(rule).validate({"spec": spec}) == []) is holds


def test_a_rule_that_asks_for_what_is_not_there_fails() -> None:
    (error,) = _with_rule("self.a < 3", message="a is small").validate({"spec": {}})
    assert str(error) == 'spec: Invalid value: "object": no such key: a evaluating rule: a is small'


def test_rules_that_cannot_be_read_are_counted() -> None:
    assert _with_rule("self.a > self.b").ignored_rules == ("self.a > self.b",)


def test_a_status_is_validated_alone() -> None:
    number = {"type": "object", "properties": {"n": {"type": "integer"}}}
    schema = StructuralSchema.from_crd({"type": "object", "properties": {"spec": number, "status": number}})
    wrong = {"spec": {"n": "x"}, "status": {"n": "x"}}
    assert [error.path for error in schema.validate(wrong, only="status")] == ["status.n"]
    assert schema.validate({"spec": {"n": "x"}}, only="status") == []


# --- patches ---------------------------------------------------------------------------------------------------------


def test_too_many_operations_are_refused() -> None:
    with pytest.raises(PatchError, match="maximum operations in a JSON patch is 10000, got 10001") as refused:
        json_patch({}, [{"op": "test", "path": "/a"}] * (MOST_OPERATIONS + 1))
    assert refused.value.status == 413


def test_the_whole_document_can_be_tested_and_replaced() -> None:
    assert (
        json_patch(
            {"a": 1}, [{"op": "test", "path": "", "value": {"a": 1}}, {"op": "replace", "path": "", "value": {}}]
        )
        == {}
    )


def test_true_is_not_one() -> None:
    with pytest.raises(PatchError):
        json_patch({"a": True}, [{"op": "test", "path": "/a", "value": 1}])


def test_a_job_s_conditions_merge_by_type_in_a_strategic_patch_and_are_one_field_for_an_apply() -> None:
    jobs = schema_of("batch", "Job")
    live = {"status": {"conditions": [{"type": "A", "status": "True"}]}}
    patched = strategic_merge_patch(live, {"status": {"conditions": [{"type": "B", "status": "True"}]}}, jobs)
    assert [each["type"] for each in patched["status"]["conditions"]] == ["B", "A"]
    assert jobs.field("status").field("conditions").list_type is ListType.ATOMIC


def test_replacing_a_list_of_a_strategic_patch() -> None:
    pods = schema_of("", "Pod")
    live = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    patch = {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}}
    assert strategic_merge_patch(live, patch, pods)["spec"]["containers"] == [{"name": "c"}]


def test_lists_of_lists_are_refused() -> None:
    schema = MergeSchema(fields={"l": MergeSchema(patch_strategies=("merge",))})
    with pytest.raises(PatchError) as refused:
        strategic_merge_patch({"l": [[1]]}, {"l": [[2]]}, schema)
    assert (refused.value.status, refused.value.cause) == (422, "lists of lists are not supported")


# --- selectors, paths, ages ------------------------------------------------------------------------------------------


def test_a_field_query_names_the_object_it_is_about() -> None:
    query = FieldQuery.parse("metadata.name=a,metadata.namespace!=b")
    assert query.required("metadata.name") == "a"
    assert query.required("metadata.namespace") is None


def test_fields_can_have_readers_of_their_own() -> None:
    query = FieldQuery.parse("spec.unschedulable=false")
    assert query.matches({}, {"spec.unschedulable": lambda node: str(bool(node.get("x"))).lower()})
    assert FieldQuery.parse("spec.unschedulable=true").matches(
        {"spec": {"unschedulable": True}}, ["spec.unschedulable"]
    )


def test_a_label_query_takes_objects_without_labels() -> None:
    assert LabelQuery.parse("!a").matches(None)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        ("{.a.b}", [1]),
        ("$.a['b']", [1]),
        (".l[0].n", ["x"]),
        (".l[-1].n", ["y"]),
        (".l[*].n", ["x", "y"]),
        (".l[0:1].n", ["x"]),
        ('.l[?(@.n=="y")].v', [2]),
        (".l[?(@.v>1)].n", ["y"]),
        (".l[?(@.w)].n", []),
        (r".d\.e/f", ["z"]),
        (".a.c", []),
        (".a.b.c", []),
    ],
)
def test_paths_of_printer_columns(path: str, found: list[Any]) -> None:
    obj = {"a": {"b": 1}, "l": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "d.e/f": "z"}
    assert JsonPath.parse(path).find(obj) == found


def test_a_path_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(JsonPathError):
        JsonPath.parse(".a..b")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86400, "8d"),
        (730 * 86400, "2y"),
        (800 * 86400, "2y70d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_durations_as_people_read_them(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_an_age_without_a_time_is_unknown() -> None:
    assert age(parse_time(None), NOW) == "<unknown>"
    assert age(parse_time("2026-05-01T11:59:50.000000Z"), NOW) == "10s"
