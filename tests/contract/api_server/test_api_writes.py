"""Claims about create, replace and the words of refusals."""

from __future__ import annotations

from tests.contract.api_server.backends import Api


def _map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_a_created_object_carries_what_only_the_server_sets(api: Api) -> None:
    made = await api.made(api.config_maps(), _map("a", key="value"))
    metadata = made.body["metadata"]
    assert made.body["kind"] == "ConfigMap"
    assert made.body["apiVersion"] == "v1"
    assert metadata["namespace"] == api.namespace
    assert metadata["resourceVersion"].isdigit()
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")
    assert "generation" not in metadata


async def test_kind_and_version_may_be_left_to_the_path(api: Api) -> None:
    made = await api.made(api.config_maps(), {"metadata": {"name": "a"}})
    assert made.body["kind"] == "ConfigMap"


async def test_a_generated_name_is_the_prefix_and_five_letters(api: Api) -> None:
    made = await api.made(api.config_maps(), {"metadata": {"generateName": "some-"}})
    name = made.body["metadata"]["name"]
    assert name.startswith("some-")
    assert len(name) == len("some-") + 5
    assert made.body["metadata"]["generateName"] == "some-"


async def test_a_name_is_needed(api: Api) -> None:
    refused = await api.post(api.config_maps(), {"metadata": {}})
    assert refused.status == 422
    assert refused.reason == "Invalid"
    assert refused.causes == [("FieldValueRequired", "metadata.name")]
    assert refused.message == 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'


async def test_a_name_has_a_form(api: Api) -> None:
    refused = await api.post(api.config_maps(), _map("Bad_Name"))
    assert refused.status == 422
    assert refused.causes == [("FieldValueInvalid", "metadata.name")]
    assert refused.message.startswith(
        'ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must'
    )


async def test_a_label_has_a_form(api: Api) -> None:
    refused = await api.post(api.config_maps(), {"metadata": {"name": "a", "labels": {"key": "not good", "-x": "y"}}})
    assert refused.status == 422
    assert refused.causes == [("FieldValueInvalid", "metadata.labels")] * 2
    said = [cause["message"] for cause in refused.details["causes"]]
    assert any('"not good": a valid label must be an empty string or consist of' in text for text in said), said
    assert any('"-x": name part must consist of alphanumeric characters' in text for text in said), said


async def test_annotations_are_bounded(api: Api) -> None:
    refused = await api.post(api.config_maps(), {"metadata": {"name": "a", "annotations": {"k": "x" * 262145}}})
    assert refused.status == 422
    assert refused.causes == [("FieldValueTooLong", "metadata.annotations")]
    assert "may not be more than 262144 bytes" in refused.message


async def test_a_taken_name_is_refused(api: Api) -> None:
    await api.made(api.config_maps(), _map("a"))
    refused = await api.post(api.config_maps(), _map("a"))
    assert (refused.status, refused.reason) == (409, "AlreadyExists")
    assert refused.message == 'configmaps "a" already exists'
    assert refused.details == {"name": "a", "kind": "configmaps"}


async def test_what_is_not_there_is_named(api: Api) -> None:
    missing = await api.get(api.config_maps("nobody"))
    assert (missing.status, missing.reason) == (404, "NotFound")
    assert missing.message == 'configmaps "nobody" not found'
    assert missing.details == {"name": "nobody", "kind": "configmaps"}
    grouped = await api.get(api.jobs("nobody"))
    assert grouped.message == 'jobs.batch "nobody" not found'
    assert grouped.details == {"name": "nobody", "group": "batch", "kind": "jobs"}


async def test_unknown_paths_are_404(api: Api) -> None:
    group = await api.get("/apis/nobody.example.com/v1/things")
    assert (group.status, group.body) == (404, "404 page not found\n")
    resource = await api.get("/api/v1/things")
    assert resource.status == 404
    assert resource.message == "the server could not find the requested resource"
    subresource = await api.get(api.config_maps("a") + "/status")
    assert subresource.status == 404


async def test_a_namespace_must_be_there(api: Api) -> None:
    refused = await api.post("/api/v1/namespaces/nobody-has-this/configmaps", _map("a"))
    assert (refused.status, refused.reason) == (404, "NotFound")
    assert refused.message == 'namespaces "nobody-has-this" not found'


async def test_body_and_path_agree_about_the_namespace(api: Api) -> None:
    refused = await api.post(api.config_maps(), {"metadata": {"name": "a", "namespace": "other"}})
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert refused.message == "the namespace of the provided object does not match the namespace sent on the request"


async def test_body_and_path_agree_about_the_name(api: Api) -> None:
    await api.made(api.config_maps(), _map("a"))
    refused = await api.put(api.config_maps("a"), _map("b"))
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert refused.message == "the name of the object (b) does not match the name on the URL (a)"


async def test_body_and_path_agree_about_the_version(api: Api) -> None:
    refused = await api.post(api.jobs(), {"apiVersion": "batch/v1beta1", "kind": "Job", "metadata": {"name": "a"}})
    assert refused.status == 400


async def test_a_new_object_brings_no_version(api: Api) -> None:
    refused = await api.post(api.config_maps(), {"metadata": {"name": "a", "resourceVersion": "7"}})
    assert refused.status == 500
    assert "resourceVersion should not be set on objects to be created" in refused.message


async def test_a_replacement_of_an_old_version_is_refused(api: Api) -> None:
    first = await api.made(api.config_maps(), _map("a", key="1"))
    await api.merge(api.config_maps("a"), {"data": {"key": "2"}})
    refused = await api.put(api.config_maps("a"), {**first.body, "data": {"key": "3"}})
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert refused.details == {"name": "a", "kind": "configmaps"}


async def test_a_replacement_without_version_is_taken_for_some_kinds(api: Api) -> None:
    await api.made(api.config_maps(), _map("a", key="1"))
    assert (await api.put(api.config_maps("a"), _map("a", key="2"))).status == 200
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}
    await api.made(api.leases(), lease)
    refused = await api.put(api.leases("a"), lease)
    assert refused.status == 422
    assert refused.causes == [("FieldValueInvalid", "metadata.resourceVersion")]
    assert "must be specified for an update" in refused.message


async def test_a_replacement_may_create_a_lease_and_no_config_map(api: Api) -> None:
    refused = await api.put(api.config_maps("a"), _map("a"))
    assert (refused.status, refused.reason) == (404, "NotFound")
    made = await api.put(api.leases("a"), {"metadata": {"name": "a"}, "spec": {}})
    assert made.status == 201


async def test_a_replacement_of_another_incarnation_is_refused(api: Api) -> None:
    await api.made(api.config_maps(), _map("a"))
    other = "00000000-0000-4000-8000-000000000000"
    refused = await api.put(api.config_maps("a"), {"metadata": {"name": "a", "uid": other}})
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert f"Precondition failed: UID in precondition: {other}, UID in object meta: " in refused.message


async def test_a_write_that_changes_nothing_stores_nothing(api: Api) -> None:
    made = await api.made(api.config_maps(), _map("a", key="1"))
    again = await api.merge(api.config_maps("a"), {"data": {"key": "1"}})
    assert again.status == 200
    assert again.version == made.version
    replaced = await api.put(api.config_maps("a"), made.body)
    assert replaced.version == made.version


async def test_versions_rise_over_all_resources(api: Api) -> None:
    first = await api.made(api.config_maps(), _map("a"))
    second = await api.made(api.leases(), {"metadata": {"name": "a"}, "spec": {}})
    third = await api.merge(api.config_maps("a"), {"data": {"key": "2"}})
    assert int(first.version) < int(second.version) < int(third.version)


async def test_what_only_the_server_sets_stays(api: Api) -> None:
    made = await api.made(api.config_maps(), _map("a"))
    changed = await api.merge(
        api.config_maps("a"),
        {
            "metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7},
            "data": {"k": "v"},
        },
    )
    assert changed.status == 200
    assert changed.body["metadata"]["creationTimestamp"] == made.body["metadata"]["creationTimestamp"]
    assert "generation" not in changed.body["metadata"]
    refused = await api.merge(api.config_maps("a"), {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}})
    assert refused.status == 422
    assert refused.causes == [("FieldValueInvalid", "metadata.deletionTimestamp")] * 2


async def test_a_replacement_names_its_object(api: Api) -> None:
    await api.made(api.config_maps(), _map("a"))
    refused = await api.put(api.config_maps("a"), {"data": {"k": "v"}})
    assert (refused.status, refused.message) == (
        400,
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    )


async def test_a_finalizer_has_a_form(api: Api) -> None:
    refused = await api.post(api.config_maps(), {"metadata": {"name": "a", "finalizers": ["bare"]}})
    assert refused.status == 422
    assert refused.causes == [("FieldValueInvalid", "metadata.finalizers[0]")]


async def test_owners_are_whole_and_one_controls(api: Api) -> None:
    whole = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "controller": True}
    metadata = {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]}
    refused = await api.post(api.config_maps(), {"metadata": metadata})
    assert refused.causes == [("FieldValueInvalid", "metadata.ownerReferences.uid")]
    both = await api.post(
        api.config_maps(), {"metadata": {"name": "a", "ownerReferences": [whole, {**whole, "uid": "2"}]}}
    )
    assert both.causes == [("FieldValueInvalid", "metadata.ownerReferences")]
    assert both.message.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/x and Pod/x'
    )


async def test_a_dry_run_answers_and_stores_nothing(api: Api) -> None:
    made = await api.post(api.config_maps(), _map("a"), dryRun="All")
    assert made.status == 201
    assert made.body["metadata"]["uid"]
    assert "resourceVersion" not in made.body["metadata"]
    assert (await api.get(api.config_maps("a"))).status == 404
    stored = await api.made(api.config_maps(), _map("a", key="1"))
    tried = await api.merge(api.config_maps("a"), {"data": {"key": "2"}}, dryRun="All")
    assert tried.body["data"] == {"key": "2"}
    assert tried.version == stored.version
    assert (await api.get(api.config_maps("a"))).version == stored.version
    assert (await api.delete(api.config_maps("a"), dryRun="All")).status == 200
    assert (await api.get(api.config_maps("a"))).status == 200


async def test_unsupported_methods_are_405(api: Api) -> None:
    refused = await api.call("PATCH", api.config_maps(), {}, content_type="application/merge-patch+json")
    assert (refused.status, refused.reason) == (405, "MethodNotAllowed")
    assert refused.message == "the server does not allow this method on the requested resource"


async def test_strings_of_a_secret_become_data(api: Api) -> None:
    path = api.config_maps().replace("configmaps", "secrets")
    made = await api.made(path, {"metadata": {"name": "a"}, "stringData": {"key": "value"}})
    assert made.body["data"] == {"key": "dmFsdWU="}
    assert made.body["type"] == "Opaque"
    assert "stringData" not in made.body
