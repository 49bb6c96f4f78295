"""The contract cases on the pure functions; the servers run the same in `tests/contract/test_objects.py`."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller_runtime.testing.api_server.objects.apply import ApplyConflict, ApplyError, update_managers
from controller_runtime.testing.api_server.objects.last_applied import apply
from controller_runtime.testing.api_server.objects.merge_schema import MergeSchema
from controller_runtime.testing.api_server.objects.merge_tables import schema_of
from controller_runtime.testing.api_server.objects.patches import (
    PatchError,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from controller_runtime.testing.api_server.objects.schemas import StructuralSchema
from controller_runtime.testing.api_server.objects.selectors import FieldQuery, LabelQuery, SelectorError
from controller_runtime.testing.api_server.objects.tables import layout_of
from tests.contract.objects_apply_cases import APPLIES, ApplyCase, Step
from tests.contract.objects_cases import JSON, KINDS, MERGE, WIDGET_COLUMNS, WIDGET_SCHEMA, PatchCase
from tests.contract.objects_last_applied_cases import LAST_APPLIED
from tests.contract.objects_patch_cases import JSON_PATCHES, MERGE_PATCHES
from tests.contract.objects_runner import check_cells, check_values, complete, owned_by
from tests.contract.objects_schema_cases import LABELLED, SCHEMAS, SELECTORS, SchemaCase, SelectorCase
from tests.contract.objects_strategic_cases import STRATEGIC_PATCHES
from tests.contract.objects_table_cases import TABLES, TableCase

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
WIDGET = StructuralSchema.from_crd(WIDGET_SCHEMA)
MERGED_WIDGET = MergeSchema.from_crd(WIDGET_SCHEMA)


def _schema(kind: str) -> MergeSchema:
    return MERGED_WIDGET if kind == "widget" else schema_of("", KINDS[kind][1])


def _stored(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    """What a server stores of it: without empty maps in the metadata, with defaults."""
    obj["metadata"] = {name: item for name, item in obj.get("metadata", {}).items() if item not in ({}, None)}
    return WIDGET.default(WIDGET.prune(obj)) if kind == "widget" else obj


@pytest.mark.parametrize("case", [*JSON_PATCHES, *MERGE_PATCHES, *STRATEGIC_PATCHES], ids=lambda case: case.name)
def test_a_patch(case: PatchCase) -> None:
    live = _stored(case.kind, complete(case.kind, case.live, "x"))

    def patched() -> dict[str, Any]:
        if case.type == JSON:
            return json_patch(live, case.patch)  # type: ignore[no-any-return]
        if case.type == MERGE:
            return merge_patch(live, case.patch)
        return strategic_merge_patch(live, case.patch, _schema(case.kind))

    if case.refused:
        with pytest.raises(PatchError) as refused:
            patched()
        assert (refused.value.status, refused.value.message) == case.refused
        assert refused.value.cause == case.cause
    else:
        check_values(_stored(case.kind, patched()), case.expect)


class _Invalid(Exception):  # noqa: N818
    """Validation refuses the object."""


class _Object:
    """One object that is written to, with the bit of a server that applies need."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.fields: dict[str, Any] | None = None
        self.now = NOW

    def write(self, step: Step) -> None:
        self.now += timedelta(seconds=1)
        version, schema = KINDS[self.kind][0], _schema(self.kind)
        if step.verb == "apply":
            after = apply(
                self.fields,
                complete(self.kind, step.fields, "x"),
                manager=step.manager,
                force=step.force,
                schema=schema,
                now=self.now,
                subresource=step.subresource,
                api_version=version,
            )
            if not step.subresource and self.kind == "widget":
                after.pop("status", None)
            stored = WIDGET.default(WIDGET.prune(after), keep_nulls=True) if self.kind == "widget" else after
            if self.kind == "widget" and WIDGET.validate(stored):
                raise _Invalid
            self.fields = stored
        else:
            new = merge_patch(self.fields or complete(self.kind, {}, "x"), step.fields)
            self.fields = update_managers(
                self.fields,
                _stored(self.kind, new),
                manager=step.manager,
                subresource=step.subresource,
                api_version=version,
                schema=schema,
                now=self.now,
            )
        self.fields["metadata"]["uid"] = "u"


@pytest.mark.parametrize("case", [*APPLIES, *LAST_APPLIED], ids=lambda case: case.name)
def test_applies(case: ApplyCase) -> None:
    obj = _Object(case.kind)
    for step in case.steps:
        if step.invalid:
            with pytest.raises(_Invalid):
                obj.write(step)
        elif step.refused:
            with pytest.raises((ApplyConflict, ApplyError)) as refused:
                obj.write(step)
            error: Any = refused.value
            assert (error.status, error.message) == (step.refused[0], step.refused[1].replace("NAME", "x"))
        else:
            obj.write(step)
    if obj.fields is not None:
        check_values(obj.fields, case.expect)
        if case.owned is not None:
            assert owned_by(obj.fields, metadata=case.metadata) == case.owned
            entries = obj.fields["metadata"].get("managedFields", ())
            assert {entry["manager"] for entry in entries if "time" not in entry} == set(case.untimed)


@pytest.mark.parametrize("case", SCHEMAS, ids=lambda case: case.name)
def test_a_schema(case: SchemaCase) -> None:
    given = complete("widget", {"spec": case.spec, "metadata": {"name": "x", **case.metadata}}, "")
    obj = WIDGET.default(WIDGET.prune(given))
    errors = WIDGET.validate(obj)
    assert {(error.path, error.type.value, error.message) for error in errors} == case.causes
    if not case.causes:
        check_values(obj, case.expect)
        assert WIDGET.unknown_fields(given) == sorted(case.unknown)


@pytest.mark.parametrize("case", SELECTORS, ids=lambda case: case.text)
def test_a_selector(case: SelectorCase) -> None:
    supported = {
        "node": ("metadata.name", "spec.unschedulable"),
        "pod": ("metadata.name", "metadata.namespace", "spec.nodeName"),
    }.get(case.kind, ("metadata.name", "metadata.namespace"))
    own = "" if case.kind == "configmap" else case.kind

    def names() -> str:
        if not case.field:
            labels = LabelQuery.parse(case.text)
            return "".join(name[-1] for name, given in LABELLED.items() if labels.matches(given))
        fields = FieldQuery.parse(case.text)
        objects = [{"metadata": {"name": name, "namespace": "default"}} for name in LABELLED]
        return "".join(obj["metadata"]["name"][-1] for obj in objects if fields.matches(obj, supported, own))

    if case.refused:
        with pytest.raises(SelectorError) as refused:
            names()
        assert str(refused.value) == case.refused
    else:
        assert names() == case.names


@pytest.mark.parametrize("case", TABLES, ids=lambda case: case.name)
def test_a_table(case: TableCase) -> None:
    version, kind, _ = case.resource
    columns = WIDGET_COLUMNS if kind == "Widget" else None
    layout = layout_of(version.rpartition("/")[0], kind, columns)
    obj = {"kind": kind, **case.object}
    obj["metadata"] = {**obj["metadata"], "creationTimestamp": "2026-05-01T11:59:30Z"}
    if kind == "Namespace":
        obj["status"] = {"phase": "Active"}
    described = [(each["name"], each["type"], each["priority"]) for each in layout.definitions()]
    assert described == list(case.columns)
    check_cells(layout.row(obj, NOW)["cells"], case.cells)
