"""Claims about patches as requests: preconditions, codes, subresources. What a patch does to an object is in `objects`."""

from __future__ import annotations

import secrets

import pytest

from tests.contract.api_server.backends import Answer, Api

NODES = "/api/v1/nodes"


@pytest.fixture
async def node(api: Api):  # type: ignore[no-untyped-def]
    """A node's path; it is removed again, since nodes live in no namespace."""
    name = f"claims-{secrets.token_hex(4)}"
    made = await api.post(NODES, {"metadata": {"name": name, "labels": {"a": "1"}}, "spec": {"unschedulable": True}})
    assert made.status == 201, made
    yield f"{NODES}/{name}"
    await api.delete(f"{NODES}/{name}")


async def _map(api: Api) -> Answer:
    return await api.made(api.config_maps(), {"metadata": {"name": "a"}, "data": {"key": "1"}})


async def test_a_failed_test_of_a_json_patch_is_422_without_a_cause(api: Api) -> None:
    """Trap 35."""
    await _map(api)
    refused = await api.json_patch(
        api.config_maps("a"), {"op": "test", "path": "/data/key", "value": "9"}, {"op": "remove", "path": "/data/key"}
    )
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == []
    assert (await api.get(api.config_maps("a"))).body["data"] == {"key": "1"}


async def test_a_json_patch_that_does_not_fit_is_422(api: Api) -> None:
    await _map(api)
    refused = await api.json_patch(api.config_maps("a"), {"op": "remove", "path": "/data/nothing"})
    assert (refused.status, refused.reason) == (422, "Invalid")


async def test_a_test_for_null_proves_absence_where_the_map_is_there(api: Api) -> None:
    await _map(api)
    done = await api.json_patch(
        api.config_maps("a"),
        {"op": "test", "path": "/data/other", "value": None},
        {"op": "add", "path": "/data/other", "value": "2"},
    )
    assert done.body["data"] == {"key": "1", "other": "2"}
    refused = await api.json_patch(
        api.config_maps("a"), {"op": "test", "path": "/metadata/annotations/key", "value": None}
    )
    assert refused.status == 422
    absent = await api.json_patch(
        api.config_maps("a"),
        {"op": "test", "path": "/metadata/annotations", "value": None},
        {"op": "add", "path": "/metadata/annotations", "value": {"key": "1"}},
    )
    assert absent.body["metadata"]["annotations"] == {"key": "1"}


async def test_a_body_that_is_no_patch_is_400(api: Api) -> None:
    await _map(api)
    refused = await api.call("PATCH", api.config_maps("a"), b"no json", content_type="application/merge-patch+json")
    assert (refused.status, refused.reason) == (400, "BadRequest")


async def test_an_unknown_kind_of_patch_is_415(api: Api) -> None:
    await _map(api)
    refused = await api.call("PATCH", api.config_maps("a"), {}, content_type="application/json")
    assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")


async def test_a_patch_of_nothing_is_404(api: Api) -> None:
    refused = await api.merge(api.config_maps("nobody"), {"data": {"key": "1"}})
    assert (refused.status, refused.reason) == (404, "NotFound")


async def test_a_merge_patch_with_an_old_version_is_409(api: Api) -> None:
    made = await _map(api)
    await api.merge(api.config_maps("a"), {"data": {"key": "2"}})
    refused = await api.merge(
        api.config_maps("a"), {"metadata": {"resourceVersion": made.version}, "data": {"key": "3"}}
    )
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert "the object has been modified" in refused.message


async def test_a_merge_patch_with_another_uid_is_422(api: Api, node: str) -> None:
    """The precondition of the executor's node writes."""
    patch = {"metadata": {"uid": "00000000-0000-4000-8000-000000000000", "labels": {"b": "2"}}}
    refused = await api.merge(node, patch)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", "metadata.uid")] * 2
    assert refused.message.endswith(
        'is invalid: metadata.uid: Invalid value: "00000000-0000-4000-8000-000000000000": field is immutable'
    )
    status = await api.strategic(f"{node}/status", patch)
    assert (status.status, status.causes) == (422, [("FieldValueInvalid", "metadata.uid")] * 2)
    live = await api.get(node)
    assert live.body["metadata"]["labels"] == {"a": "1"}
    taken = await api.merge(node, {"metadata": {"uid": live.uid, "labels": {"b": "2"}}})
    assert taken.status == 200


async def test_a_patch_cannot_rename(api: Api) -> None:
    await _map(api)
    refused = await api.merge(api.config_maps("a"), {"metadata": {"name": "b"}})
    assert refused.status == 400
    assert refused.message == "the name of the object (b) does not match the name on the URL (a)"


async def test_node_conditions_merge_by_type(api: Api, node: str) -> None:
    for kind in ("Ready", "Other"):
        done = await api.strategic(f"{node}/status", {"status": {"conditions": [{"type": kind, "status": "True"}]}})
        assert done.status == 200
    assert {entry["type"] for entry in done.body["status"]["conditions"]} >= {"Ready", "Other"}
    gone = await api.strategic(f"{node}/status", {"status": {"conditions": [{"type": "Other", "$patch": "delete"}]}})
    assert "Other" not in {entry["type"] for entry in gone.body["status"]["conditions"]}
    assert "Ready" in {entry["type"] for entry in gone.body["status"]["conditions"]}


async def test_the_status_is_written_through_its_subresource_only(api: Api, node: str) -> None:
    status = {"conditions": [{"type": "Ours", "status": "True"}]}
    ignored = await api.strategic(node, {"status": status, "metadata": {"labels": {"x": "y"}}})
    assert ignored.status == 200
    assert "Ours" not in {entry["type"] for entry in ignored.body["status"].get("conditions", [])}
    written = await api.strategic(
        f"{node}/status", {"status": status, "spec": {"unschedulable": None}, "metadata": {"labels": {"s": "t"}}}
    )
    assert "Ours" in {entry["type"] for entry in written.body["status"]["conditions"]}
    assert written.body["spec"]["unschedulable"] is True, "the spec is not written through the status"
    assert written.body["metadata"]["labels"]["s"] == "t", "a node's status write changes its labels"


async def test_nodes_and_pods_have_no_two_same_taints(api: Api, node: str) -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    refused = await api.merge(node, {"spec": {"taints": [taint, taint]}})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueDuplicate", "metadata.taints[1]")] * 2


async def test_a_new_node_is_not_ready(api: Api) -> None:
    name = f"claims-{secrets.token_hex(4)}"
    made = await api.post(NODES, {"metadata": {"name": name}})
    assert made.body["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert made.body["status"]["nodeInfo"]["kubeletVersion"] == ""
    await api.delete(f"{NODES}/{name}")


async def test_an_apply_needs_a_manager(api: Api) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "1"}}
    refused = await api.call("PATCH", api.config_maps("a"), item, content_type="application/apply-patch+yaml")
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueRequired", "fieldManager")]
    assert refused.message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


async def test_an_apply_creates_and_says_so(api: Api) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "1"}}
    made = await api.apply(api.config_maps("a"), item, manager="me")
    assert made.status == 201
    entry = made.body["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["operation"]) == ("me", "Apply")
    again = await api.apply(api.config_maps("a"), item, manager="me")
    assert again.status == 200
    assert again.version == made.version


async def test_an_apply_of_what_another_owns_conflicts_unless_forced(api: Api) -> None:
    await _map(api)
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "2"}}
    refused = await api.apply(api.config_maps("a"), item, manager="me")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.causes == [("FieldManagerConflict", ".data.key")]
    assert refused.message == 'Apply failed with 1 conflict: conflict with "claims" using v1: .data.key'
    forced = await api.apply(api.config_maps("a"), item, manager="me", force="true")
    assert forced.status == 200
    assert forced.body["data"] == {"key": "2"}
