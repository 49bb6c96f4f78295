"""Claims about custom resources: definition, defaults, pruning, validation, status, generation."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.contract.api_server.backends import Api

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
    },
}


def _definition(group: str, *, status: bool = True) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        ],
    }
    if status:
        version["subresources"] = {"status": {}}
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"},
            "versions": [version],
        },
    }


async def _serve(api: Api, group: str, definition: dict[str, Any]) -> str:
    await api.made(CRDS, definition)
    path = f"/apis/{group}/v1/widgets"
    probe = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "probe"}, "spec": {"size": 1}}

    async def takes_writes() -> bool:
        """For a moment after a CRD is established its objects are still answered with 404 or 429."""
        return (await api.post(path, probe)).status == 201

    await api.until(takes_writes)
    await api.delete(f"{path}/probe")
    return path


@pytest.fixture
def group() -> str:
    return f"g{secrets.token_hex(4)}.example.com"


@pytest_asyncio.fixture
async def widgets(api: Api, group: str) -> AsyncIterator[str]:
    """The path of a custom resource with a status subresource."""
    yield await _serve(api, group, _definition(group))
    await api.delete(f"{CRDS}/widgets.{group}")


def _widget(group: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1, **spec}}


async def test_a_definition_is_established(api: Api, group: str, widgets: str) -> None:

    async def is_established() -> bool:
        found = (await api.get(f"{CRDS}/widgets.{group}")).body["status"].get("conditions") or ()
        return len(found) > 1

    await api.until(is_established)
    definition = await api.get(f"{CRDS}/widgets.{group}")
    status = definition.body["status"]
    assert {entry["type"]: entry["status"] for entry in status["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert status["storedVersions"] == ["v1"]
    assert status["acceptedNames"]["listKind"] == "WidgetList"
    assert "finalizers" not in definition.body["metadata"], "that comes with the deletion"


async def test_defaults_are_set_and_unknown_fields_pruned(api: Api, group: str, widgets: str) -> None:
    made = await api.made(widgets, _widget(group, nonsense=1, free={"kept": True}))
    assert made.body["spec"] == {"size": 1, "color": "red", "free": {"kept": True}}
    assert made.body["metadata"]["generation"] == 1


async def test_unknown_fields_warn_or_are_refused(api: Api, group: str, widgets: str) -> None:
    warned = await api.post(widgets, _widget(group, nonsense=1), fieldValidation="Warn", dryRun="All")
    assert warned.headers["warning"] == '299 - "unknown field \\"spec.nonsense\\""'
    ignored = await api.post(widgets, _widget(group, nonsense=1), fieldValidation="Ignore", dryRun="All")
    assert "warning" not in ignored.headers
    refused = await api.post(widgets, _widget(group, nonsense=1), fieldValidation="Strict")
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert refused.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.nonsense"'
    )
    invalid_too = await api.post(widgets, _widget(group, nonsense=1, size=12), fieldValidation="Warn")
    assert invalid_too.status == 422
    assert invalid_too.headers["warning"] == warned.headers["warning"]


async def test_the_schema_is_enforced(api: Api, group: str, widgets: str) -> None:
    refused = await api.post(widgets, _widget(group, size=12, color="green"))
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert sorted(refused.causes) == [("FieldValueInvalid", "spec.size"), ("FieldValueNotSupported", "spec.color")]
    assert refused.details["kind"] == "Widget"
    assert refused.details["group"] == group
    assert refused.message.startswith(f'Widget.{group} "a" is invalid: [')
    missing = await api.post(widgets, {**_widget(group), "spec": {}})
    assert missing.causes == [("FieldValueRequired", "spec.size")]
    assert missing.message == f'Widget.{group} "a" is invalid: spec.size: Required value'


async def test_the_status_is_split_off(api: Api, group: str, widgets: str) -> None:
    made = await api.made(widgets, {**_widget(group), "status": {"seen": 1}})
    assert "status" not in made.body
    ignored = await api.merge(f"{widgets}/a", {"status": {"seen": 2}, "spec": {"size": 2}})
    assert "status" not in ignored.body
    assert ignored.body["metadata"]["generation"] == 2
    written = await api.merge(
        f"{widgets}/a/status",
        {"status": {"seen": 3, "nonsense": 1}, "spec": {"size": 3}, "metadata": {"labels": {"k": "v"}}},
    )
    assert written.body["status"] == {"seen": 3}
    assert written.body["spec"]["size"] == 2
    assert written.body["metadata"]["generation"] == 2, "a status is no new generation"
    assert "labels" not in written.body["metadata"], "a status write changes no metadata"
    labelled = await api.merge(f"{widgets}/a", {"metadata": {"labels": {"k": "v"}}})
    assert labelled.body["metadata"]["generation"] == 2
    assert labelled.body["status"] == {"seen": 3}


async def test_a_status_with_an_old_version_is_409(api: Api, group: str, widgets: str) -> None:
    made = await api.made(widgets, _widget(group))
    await api.merge(f"{widgets}/a", {"spec": {"size": 2}})
    refused = await api.merge(
        f"{widgets}/a/status", {"metadata": {"resourceVersion": made.version}, "status": {"seen": 1}}
    )
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message.startswith(
        f'Operation cannot be fulfilled on widgets.{group} "a": the object has been modified'
    )


async def test_without_a_subresource_the_status_counts(api: Api, group: str) -> None:
    path = await _serve(api, group, _definition(group, status=False))
    made = await api.made(path, {**_widget(group), "status": {"seen": 1}})
    assert made.body["status"] == {"seen": 1}
    changed = await api.merge(f"{path}/a", {"status": {"seen": 2}})
    assert changed.body["metadata"]["generation"] == 2
    assert (await api.merge(f"{path}/a/status", {"status": {"seen": 3}})).status == 404
    await api.delete(f"{CRDS}/widgets.{group}")


async def test_a_strategic_patch_is_415(api: Api, group: str, widgets: str) -> None:
    await api.made(widgets, _widget(group))
    refused = await api.strategic(f"{widgets}/a", {"spec": {"size": 2}})
    assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")
    assert refused.message.startswith(
        "the body of the request was in an unknown format - accepted media types include: "
    )


async def test_a_replacement_needs_a_version(api: Api, group: str, widgets: str) -> None:
    await api.made(widgets, _widget(group))
    refused = await api.put(f"{widgets}/a", _widget(group, size=2))
    assert refused.status == 422
    assert refused.causes == [("FieldValueInvalid", "metadata.resourceVersion")]
    new = await api.put(f"{widgets}/b", {**_widget(group), "metadata": {"name": "b"}})
    assert (new.status, new.reason) == (404, "NotFound"), "and creates nothing"


async def test_items_of_a_list_carry_their_kind(api: Api, group: str, widgets: str) -> None:
    await api.made(widgets, _widget(group))
    listed = await api.get(widgets)
    assert listed.body["kind"] == "WidgetList"
    assert listed.body["items"][0]["kind"] == "Widget"
    assert listed.body["items"][0]["apiVersion"] == f"{group}/v1"


async def test_columns_are_the_definitions(api: Api, group: str, widgets: str) -> None:
    await api.made(widgets, _widget(group, size=3))
    table = await api.call("GET", widgets, accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
    assert [(column["name"], column["priority"]) for column in table.body["columnDefinitions"]] == [
        ("Name", 0),
        ("Size", 0),
        ("Color", 1),
    ]
    assert [row["cells"] for row in table.body["rows"]] == [["a", 3, "red"]]


async def test_discovery_names_it(api: Api, group: str, widgets: str) -> None:
    async def found_it() -> bool:
        return await api.status_of(f"/apis/{group}/v1") == 200

    await api.until(found_it)
    found = await api.get(f"/apis/{group}/v1")
    resources = {entry["name"]: entry for entry in found.body["resources"]}
    assert resources["widgets"]["kind"] == "Widget"
    assert resources["widgets"]["namespaced"] is False
    assert resources["widgets/status"]["verbs"] == ["get", "patch", "update"]
    in_its_order = "delete deletecollection get list patch create update watch"
    assert resources["widgets"]["verbs"] == in_its_order.split()


async def test_a_definition_takes_its_objects_along(api: Api, group: str) -> None:
    path = await _serve(api, group, _definition(group))
    await api.made(path, {**_widget(group), "metadata": {"name": "a", "finalizers": ["example.com/hold"]}})
    ending = await api.delete(f"{CRDS}/widgets.{group}")
    assert ending.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert ending.body["status"]["conditions"][-1]["type"] == "Terminating"

    async def is_ending() -> bool:
        return "deletionTimestamp" in (await api.get(f"{path}/a")).body["metadata"]

    async def is_gone() -> bool:
        definition = await api.status_of(f"{CRDS}/widgets.{group}")
        return definition == 404 and await api.status_of(path) == 404

    await api.until(is_ending)
    assert (await api.get(f"{CRDS}/widgets.{group}")).status == 200
    await api.merge(f"{path}/a", {"metadata": {"finalizers": None}})
    await api.until(is_gone)


async def test_the_kind_is_checked(api: Api, group: str, widgets: str) -> None:
    refused = await api.post(widgets, {**_widget(group), "kind": "Gadget"})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.message == f'Gadget.{group} "a" is invalid: kind: Invalid value: "Gadget": must be Widget'


async def test_an_apply_of_an_unknown_field_is_refused_if_strict(api: Api, group: str, widgets: str) -> None:
    refused = await api.apply(f"{widgets}/a", _widget(group, zz=1), manager="me", fieldValidation="Strict")
    assert refused.status == 500
    assert refused.message == (
        f"failed to create typed patch object (/a; {group}/v1, Kind=Widget): .spec.zz: field not declared in schema"
    )


async def test_openapi_knows_what_every_object_has(api: Api, group: str, widgets: str) -> None:
    """`kubectl explain` shows it; what a schema says of apiVersion and kind does not count."""

    async def is_there() -> bool:
        return await api.status_of(f"/openapi/v3/apis/{group}/v1") == 200

    await api.until(is_there)
    document = await api.get(f"/openapi/v3/apis/{group}/v1")
    schemas = document.body["components"]["schemas"]
    found = next(schema for name, schema in schemas.items() if name.endswith(".v1.Widget"))["properties"]
    assert found["apiVersion"]["description"].startswith("APIVersion defines the versioned schema")
    assert found["kind"]["description"].startswith("Kind is a string value")
    meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    assert found["metadata"]["allOf"] == [{"$ref": f"#/components/schemas/{meta}"}]
    assert {"labels", "name", "ownerReferences", "uid"} <= schemas[meta]["properties"].keys()
    assert found["spec"]["properties"]["size"]["type"] == "integer"
