"""Claims about deletion: preconditions, grace, finalizers, policies, namespaces."""

from __future__ import annotations

import secrets

from tests.contract.api_server.backends import Api

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
JOB_SPEC = {
    "suspend": True,
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}},
}


async def _map(api: Api, **metadata: object) -> None:
    await api.made(api.config_maps(), {"metadata": {"name": "a", **metadata}})


async def test_a_deletion_answers_a_status_with_the_uid(api: Api) -> None:
    made = await api.made(api.config_maps(), {"metadata": {"name": "a"}})
    gone = await api.delete(api.config_maps("a"))
    assert gone.status == 200
    assert gone.body["kind"] == "Status"
    assert gone.body["status"] == "Success"
    assert gone.details == {"name": "a", "kind": "configmaps", "uid": made.uid}
    assert (await api.get(api.config_maps("a"))).status == 404


async def test_a_deletion_of_another_incarnation_is_409(api: Api) -> None:
    await _map(api)
    other = "00000000-0000-4000-8000-000000000000"
    refused = await api.delete(api.config_maps("a"), {"preconditions": {"uid": other}})
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert f"the UID in the precondition ({other}) does not match the UID in record (" in refused.message
    assert refused.message.startswith(
        'Operation cannot be fulfilled on configmaps "a": '
    ) or refused.message.startswith('Operation cannot be fulfilled on ConfigMap "a": ')
    assert (await api.get(api.config_maps("a"))).status == 200


async def test_a_deletion_of_another_version_is_409(api: Api) -> None:
    made = await api.made(api.config_maps(), {"metadata": {"name": "a"}})
    await api.merge(api.config_maps("a"), {"data": {"k": "v"}})
    refused = await api.delete(api.config_maps("a"), {"preconditions": {"resourceVersion": made.version}})
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert f"the ResourceVersion in the precondition ({made.version}) does not match the ResourceVersion in record" in (
        refused.message
    )


async def test_a_finalizer_keeps_an_object_until_it_is_removed(api: Api) -> None:
    await _map(api, finalizers=["example.com/hold"])
    held = await api.delete(api.config_maps("a"))
    assert held.status == 200
    assert held.body["kind"] == "ConfigMap"
    assert held.body["metadata"]["deletionTimestamp"]
    assert held.body["metadata"]["deletionGracePeriodSeconds"] == 0
    again = await api.delete(api.config_maps("a"))
    assert again.version == held.version, "a second deletion changes nothing"
    released = await api.merge(api.config_maps("a"), {"metadata": {"finalizers": None}})
    assert released.status == 200
    assert "finalizers" not in released.body["metadata"]
    assert (await api.get(api.config_maps("a"))).status == 404


async def test_no_finalizer_is_added_once_the_end_has_begun(api: Api) -> None:
    await _map(api, finalizers=["example.com/hold"])
    await api.delete(api.config_maps("a"))
    refused = await api.merge(
        api.config_maps("a"), {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    )
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueForbidden", "metadata.finalizers")] * 2, "it is checked twice"
    assert refused.message.endswith(
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/more"}'
    )
    await api.merge(api.config_maps("a"), {"metadata": {"finalizers": None}})


async def test_the_last_version_a_watch_tells_still_has_the_finalizer(api: Api) -> None:
    await _map(api, finalizers=["example.com/hold"])
    held = await api.delete(api.config_maps("a"))
    events = await api.watch(api.config_maps(), resourceVersion=held.version, fieldSelector="metadata.name=a")
    await api.merge(api.config_maps("a"), {"metadata": {"finalizers": None}})
    event = await events.next()
    assert event is not None
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["finalizers"] == ["example.com/hold"]
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(held.version)


async def test_a_policy_becomes_a_finalizer_of_the_garbage_collector(api: Api) -> None:
    """The collector itself is a client, which a real cluster has: a finalizer of ours keeps the object."""
    for name, policy, finalizer in (("f", "Foreground", "foregroundDeletion"), ("o", "Orphan", "orphan")):
        await api.made(api.config_maps(), {"metadata": {"name": name, "finalizers": ["example.com/hold"]}})
        held = await api.delete(api.config_maps(name), {"propagationPolicy": policy})
        assert sorted(held.body["metadata"]["finalizers"]) == sorted(["example.com/hold", finalizer])
        await api.merge(api.config_maps(name), {"metadata": {"finalizers": None}})


async def test_an_unknown_policy_is_422(api: Api) -> None:
    await _map(api)
    refused = await api.delete(api.config_maps("a"), {"propagationPolicy": "Sideways"})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueNotSupported", "propagationPolicy")]


async def test_a_job_without_a_policy_orphans(api: Api) -> None:
    made = await api.made(api.jobs(), {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}, "spec": JOB_SPEC})
    held = await api.delete(api.jobs("a"))
    assert sorted(held.body["metadata"]["finalizers"]) == ["example.com/hold", "orphan"]
    assert held.body["metadata"]["generation"] == made.body["metadata"]["generation"] + 1
    await api.merge(api.jobs("a"), {"metadata": {"finalizers": None}})


async def test_a_pod_without_a_node_goes_at_once(api: Api) -> None:
    await api.made(api.pods(), POD)
    gone = await api.delete(api.pods("a"))
    assert gone.status == 200
    assert gone.body["kind"] == "Pod"
    assert (await api.get(api.pods("a"))).status == 404


async def test_a_pod_on_a_node_is_given_its_grace(api: Api) -> None:
    spec = {**POD["spec"], "nodeName": "nowhere", "terminationGracePeriodSeconds": 25}  # type: ignore[dict-item]
    made = await api.made(api.pods(), {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}, "spec": spec})
    held = await api.delete(api.pods("a"))
    assert held.body["metadata"]["deletionGracePeriodSeconds"] == 25
    assert held.body["metadata"]["generation"] == made.body["metadata"]["generation"] + 1
    longer = await api.delete(api.pods("a"), {"gracePeriodSeconds": 60})
    assert longer.body["metadata"]["deletionGracePeriodSeconds"] == 25, "a grace only becomes shorter"
    shorter = await api.delete(api.pods("a"), {"gracePeriodSeconds": 5})
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
    assert shorter.body["metadata"]["deletionTimestamp"] < held.body["metadata"]["deletionTimestamp"]
    await api.merge(api.pods("a"), {"metadata": {"finalizers": None}})
    assert (await api.get(api.pods("a"))).status == 200, "the grace is the kubelet's to end"
    await api.delete(api.pods("a"), {"gracePeriodSeconds": 0})
    assert (await api.get(api.pods("a"))).status == 404


async def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
        await api.made(api.config_maps(), {"metadata": {"name": name, "labels": {"color": color}}})
    gone = await api.delete(api.config_maps(), labelSelector="color=red")
    assert gone.status == 200
    left = await api.get(api.config_maps(), labelSelector="color")
    assert [item["metadata"]["name"] for item in left.body["items"]] == ["c"]


async def test_a_namespace_ends_with_its_contents(api: Api) -> None:
    name = f"claims-{secrets.token_hex(4)}"
    await api.made("/api/v1/namespaces", {"metadata": {"name": name}})
    held = {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    path = f"/api/v1/namespaces/{name}/configmaps"
    await api.made(path, held)
    ending = await api.delete(f"/api/v1/namespaces/{name}")
    assert ending.status == 200
    assert ending.body["status"]["phase"] == "Terminating"
    refused = await api.post(path, {"metadata": {"name": "b"}})
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.causes == [("NamespaceTerminating", "metadata.namespace")]
    assert refused.message == (
        f'configmaps "b" is forbidden: unable to create new content in namespace {name} because it is being terminated'
    )

    async def is_ending() -> bool:
        return "deletionTimestamp" in (await api.get(f"{path}/a")).body["metadata"]

    async def is_gone() -> bool:
        return await api.status_of(f"/api/v1/namespaces/{name}") == 404

    await api.until(is_ending)
    await api.merge(f"{path}/a", {"metadata": {"finalizers": None}})
    await api.until(is_gone)


async def test_some_namespaces_stay(api: Api) -> None:
    refused = await api.delete("/api/v1/namespaces/kube-system")
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.message == 'namespaces "kube-system" is forbidden: this namespace may not be deleted'


async def test_two_ways_to_say_orphan_do_not_go_together(api: Api) -> None:
    await _map(api)
    refused = await api.delete(api.config_maps("a"), {"propagationPolicy": "Orphan", "orphanDependents": True})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", "propagationPolicy")]
