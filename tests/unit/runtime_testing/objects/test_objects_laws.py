"""Laws of patches, applies and schemas, on generated values."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controller_runtime.testing.api_server.objects.apply import ApplyConflict, apply, update_managers
from controller_runtime.testing.api_server.objects.field_sets import FieldPath, from_fields_v1, to_fields_v1
from controller_runtime.testing.api_server.objects.merge_schema import MergeSchema
from controller_runtime.testing.api_server.objects.patches import json_patch, merge_patch, strategic_merge_patch
from controller_runtime.testing.api_server.objects.schemas import StructuralSchema
from controller_runtime.testing.api_server.objects.typed_objects import compare, merge
from controller_runtime.testing.api_server.objects.values import same
from tests.contract.objects_cases import WIDGET_SCHEMA

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SCHEMA = MergeSchema.from_crd(WIDGET_SCHEMA)
STRUCTURE = StructuralSchema.from_crd(WIDGET_SCHEMA)
LAWS = settings(max_examples=50, deadline=None)

NAMES = st.sampled_from(["a", "b", "c/d", "e~f", "0", "-"])
SCALARS = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "y"]), st.sampled_from([0.5, 1.5]))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
MAPS = st.dictionaries(NAMES, VALUES, max_size=4)
NULLED: st.SearchStrategy[Any] = st.recursive(
    st.one_of(SCALARS, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


PARTS = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from("abc")}, optional={"size": st.integers(0, 2)}),
    min_size=1,
    max_size=3,
    unique_by=lambda part: part["id"],
)
# No empty containers: an empty list of type map or set is nobody's, so that it comes and goes; a map emptied by its owner is null.
COLOURS = st.lists(st.sampled_from(["red", "green", "blue"]), min_size=1, max_size=3, unique=True)
SPECS = _optional(
    replicas=st.integers(0, 3),
    mode=st.sampled_from("ab"),
    words=st.lists(st.sampled_from("xy"), max_size=2),
    parts=PARTS,
    colours=COLOURS,
    selector=st.dictionaries(st.sampled_from("kl"), st.sampled_from("vw"), max_size=2),
    options=st.dictionaries(st.sampled_from("op"), st.sampled_from("12"), min_size=1, max_size=2),
    free=st.dictionaries(
        st.sampled_from("fg"),
        st.dictionaries(st.sampled_from("hi"), SCALARS, min_size=1, max_size=2),
        min_size=1,
        max_size=2,
    ),
)
MANAGERS = st.sampled_from(["one", "two", "three"])
APPLIERS = st.lists(st.tuples(MANAGERS, SPECS.filter(bool)), min_size=1, max_size=4)
"""Without empty specs, which can leave null behind, as lists that lose their last element do; validation refuses those."""


def _widget(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "contract.example.com/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": spec}


def _applied(live: dict[str, Any] | None, spec: dict[str, Any], manager: str, *, force: bool = True) -> dict[str, Any]:
    after = apply(
        live,
        _widget(spec),
        manager=manager,
        force=force,
        schema=SCHEMA,
        now=NOW,
        api_version="contract.example.com/v1",
    )
    after["metadata"]["uid"] = "u"
    return after


def _chain(writes: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    live: dict[str, Any] | None = None
    for manager, spec in writes:
        live = _applied(live, spec, manager)
    assert live is not None
    return live


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The merge patch that leads from one to the other."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, item in after.items():
        held = before.get(name)
        if isinstance(held, dict) and isinstance(item, dict):
            patch[name] = _difference(held, item)
        elif name not in before or not same(held, item):
            patch[name] = item
    return patch


def _operations(before: dict[str, Any], after: dict[str, Any], path: str = "") -> list[dict[str, Any]]:
    """A JSON patch that leads from one to the other, each step guarded by a test."""
    steps: list[dict[str, Any]] = []
    for name in before.keys() | after.keys():
        where = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in after:
            steps += [{"op": "test", "path": where, "value": before[name]}, {"op": "remove", "path": where}]
        elif name not in before:
            steps += [{"op": "test", "path": where, "value": None}, {"op": "add", "path": where, "value": after[name]}]
        elif isinstance(before[name], dict) and isinstance(after[name], dict):
            steps += _operations(before[name], after[name], where)
        elif not same(before[name], after[name]):
            steps.append({"op": "replace", "path": where, "value": after[name]})
    return steps


@LAWS
@given(before=MAPS, after=MAPS)
def test_a_merge_patch_of_the_difference_leads_from_one_object_to_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert same(merge_patch(before, _difference(before, after)), after)


@LAWS
@given(before=MAPS, after=MAPS)
def test_a_json_patch_of_the_difference_leads_from_one_object_to_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert same(json_patch(before, _operations(before, after)), after)


def _without_nulls_in_lists(value: Any, *, inside: bool = False) -> Any:
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if not (inside and item is None)}
        return {name: _without_nulls_in_lists(item, inside=inside) for name, item in kept.items()}
    if isinstance(value, list):
        return [_without_nulls_in_lists(item, inside=True) for item in value if item is not None]
    return value


@LAWS
@given(document=MAPS, patch=st.dictionaries(NAMES, NULLED, max_size=4))
def test_a_merge_patch_twice_is_once_and_changes_nothing_it_was_given(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    patch = _without_nulls_in_lists(patch)  # those stay where the list replaces a map, and go where it replaces a list
    given_before = json.dumps([document, patch])
    once = merge_patch(document, patch)
    assert same(merge_patch(once, patch), once)
    assert json.dumps([document, patch]) == given_before


@LAWS
@given(document=MAPS, patch=st.dictionaries(NAMES, NULLED, max_size=4))
def test_without_list_strategies_a_strategic_patch_of_maps_and_scalars_is_a_merge_patch(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    def flat(value: Any) -> Any:
        """Nulls in lists are dropped by the one and kept by the other."""
        if isinstance(value, dict):
            return {name: flat(item) for name, item in value.items()}
        return [] if isinstance(value, list) else value

    document, patch = flat(document), flat(patch)
    assert same(strategic_merge_patch(document, patch, MergeSchema()), merge_patch(document, patch))


@LAWS
@given(writes=APPLIERS)
def test_an_apply_twice_is_once(writes: list[tuple[str, dict[str, Any]]]) -> None:
    live = _chain(writes)
    manager, spec = writes[-1]
    assume(live["metadata"].get("managedFields"))  # without a record the next apply starts one
    assert _applied(live, spec, manager, force=False) == live


@LAWS
@given(writes=APPLIERS)
def test_a_forced_apply_never_conflicts_and_then_has_its_way(writes: list[tuple[str, dict[str, Any]]]) -> None:
    live = _chain(writes)  # raises where one conflicts
    changes = compare(live, merge(live, _widget(writes[-1][1]), SCHEMA), SCHEMA)
    assert not changes.added
    assert not changes.modified


@LAWS
@given(writes=APPLIERS, spec=SPECS)
def test_an_apply_conflicts_exactly_with_the_owners_of_what_it_would_change(
    writes: list[tuple[str, dict[str, Any]]], spec: dict[str, Any]
) -> None:
    live = _chain(writes)
    forced = _applied(live, spec, "new")
    changes = compare(live["spec"], forced["spec"], SCHEMA.field("spec"))
    changed = {("f:spec", *path) for path in changes.modified | changes.added}
    owners = {
        entry["manager"]
        for entry in live["metadata"].get("managedFields", ())
        if from_fields_v1(entry["fieldsV1"]) & changed
    }
    found: set[str] = set()
    try:
        _applied(live, spec, "new", force=False)
    except ApplyConflict as conflict:
        found = set(conflict.managers)
    assert found == {f'"{owner}"' for owner in owners}


@LAWS
@given(writes=APPLIERS)
def test_who_applies_nothing_owns_nothing_and_the_others_keep_theirs(writes: list[tuple[str, dict[str, Any]]]) -> None:
    live = _chain(writes)
    left = _applied(live, {}, writes[0][0])
    before, after = (
        {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}
        for obj in (live, left)
    )
    mine = after.pop(writes[0][0], {})
    before.pop(writes[0][0], None)
    assert mine == {"f:spec": {}}  # an empty map is a field of its own
    assert {manager: fields for manager, fields in before.items() if fields != {"f:spec": {}}}.items() <= after.items()


@LAWS
@given(before=SPECS, after=SPECS)
def test_after_an_update_the_writer_owns_exactly_what_it_changed(before: dict[str, Any], after: dict[str, Any]) -> None:
    live = _applied(None, before, "one")
    written = {**_widget(after), "metadata": {"name": "x", "uid": "u"}}
    updated = update_managers(
        live, written, manager="two", api_version="contract.example.com/v1", schema=SCHEMA, now=NOW
    )
    changes = compare(live["spec"], after, SCHEMA.field("spec"))
    changed = {("f:spec", *path) for path in changes.modified | changes.added}
    owned = {
        entry["manager"]: from_fields_v1(entry["fieldsV1"]) for entry in updated["metadata"].get("managedFields", ())
    }
    assert owned.get("two", frozenset()) == changed
    assert not owned.get("one", frozenset()) & changed


ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"id":"a"}', 'v:"x"'])
PATHS: st.SearchStrategy[FieldPath] = st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple)


@LAWS
@given(fields=st.frozensets(PATHS, max_size=6))
def test_a_field_set_survives_its_json_form(fields: frozenset[FieldPath]) -> None:
    assert from_fields_v1(json.loads(json.dumps(to_fields_v1(fields)))) == fields


@LAWS
@given(before=SPECS, after=SPECS)
def test_a_comparison_backwards_has_added_and_removed_swapped(before: dict[str, Any], after: dict[str, Any]) -> None:
    there, back = compare(before, after, SCHEMA.field("spec")), compare(after, before, SCHEMA.field("spec"))
    assert (there.added, there.removed, there.modified) == (back.removed, back.added, back.modified)


WILD = st.dictionaries(
    st.sampled_from([*WIDGET_SCHEMA["properties"]["spec"]["properties"], "odd"]),
    st.one_of(
        NULLED, SPECS, st.lists(st.one_of(SPECS, st.fixed_dictionaries({"id": NULLED, "odd": NULLED})), max_size=2)
    ),
    max_size=5,
)


@LAWS
@given(spec=WILD)
def test_pruning_and_defaulting_twice_is_once_and_leaves_nothing_unknown(spec: dict[str, Any]) -> None:
    obj = _widget(spec)
    pruned = STRUCTURE.prune(obj)
    assert same(STRUCTURE.prune(pruned), pruned)
    assert STRUCTURE.unknown_fields(pruned) == []
    defaulted = STRUCTURE.default(pruned)
    assert same(STRUCTURE.default(defaulted), defaulted)
    assert same(STRUCTURE.prune(defaulted), defaulted)


@LAWS
@given(spec=WILD)
def test_validation_answers_for_whatever_comes(spec: dict[str, Any]) -> None:
    errors = STRUCTURE.validate(_widget(spec))
    assert all(str(error).startswith(f"{error.path}: ") for error in errors)


@LAWS
@given(spec=SPECS)
def test_what_fits_the_schema_is_valid_after_defaulting(spec: dict[str, Any]) -> None:
    assert STRUCTURE.validate(STRUCTURE.default(_widget(spec))) == []
