"""Claims about who asks and what they may do, and about what discovery says: what `kubectl auth` and `kubectl api-resources` read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api_server.backends import Answer, Api, OverHttp

AUTHENTICATION = "/apis/authentication.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
PODS = {"verb": "get", "resource": "pods"}


async def _ask(api: Api, path: str, spec: dict[str, Any] | None = None) -> Answer:
    return await api.post(path, {} if spec is None else {"spec": spec})


async def test_i_am_told_who_i_am(api: Api) -> None:
    answer = await _ask(api, f"{AUTHENTICATION}/selfsubjectreviews")
    assert answer.status == 201
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("SelfSubjectReview", "authentication.k8s.io/v1")
    assert list(answer.body["metadata"]) == ["creationTimestamp"]
    user = answer.body["status"]["userInfo"]
    assert user["username"]
    assert user["groups"] == ["system:masters", "system:authenticated"]


async def test_an_administrator_may_do_everything(api: Api) -> None:
    answer = await _ask(api, f"{AUTHORIZATION}/selfsubjectaccessreviews", {"resourceAttributes": PODS})
    assert (answer.status, answer.body["status"]) == (201, {"allowed": True})
    answer = await _ask(api, f"{AUTHORIZATION}/selfsubjectrulesreviews", {"namespace": api.namespace})
    assert answer.status == 201
    assert answer.body["spec"] == {}
    rules = answer.body["status"]
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in rules["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in rules["nonResourceRules"]
    assert rules["incomplete"] is False


async def test_rules_are_those_of_a_namespace(api: Api) -> None:
    answer = await _ask(api, f"{AUTHORIZATION}/selfsubjectrulesreviews", {})
    assert (answer.status, answer.reason, answer.message) == (400, "BadRequest", "no namespace on request")


async def test_a_local_review_asks_about_its_own_namespace(api: Api) -> None:
    path = f"{AUTHORIZATION}/namespaces/{api.namespace}/localsubjectaccessreviews"
    who = {"user": "admin", "groups": ["system:masters"]}
    answer = await _ask(api, path, {**who, "resourceAttributes": {**PODS, "namespace": api.namespace}})
    assert (answer.status, answer.body["status"]) == (201, {"allowed": True})
    assert answer.body["metadata"]["namespace"] == api.namespace
    refused = await _ask(api, path, {**who, "resourceAttributes": {**PODS, "namespace": "other"}})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", "spec.resourceAttributes.namespace")]


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("/api/v1", {"kind": "APIResourceList", "groupVersion": "v1"}),
        ("/apis/batch/v1", {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "batch/v1"}),
    ],
)
async def test_resources_are_listed_by_name(api: Api, path: str, head: dict[str, str]) -> None:
    answer = await api.get(path)
    assert {name: value for name, value in answer.body.items() if name != "resources"} == head
    names = [entry["name"] for entry in answer.body["resources"]]
    assert names == sorted(names)


async def test_who_impersonates_is_somebody_else(api: Api) -> None:
    """`kubectl --as` and `--as-group`."""
    if not isinstance(api.backend, OverHttp):
        pytest.skip("in process the user is part of the request")
    for name, groups, expected in (
        ("bob", ["g"], ["g", "system:authenticated"]),
        (
            "system:serviceaccount:ns:robot",
            [],
            ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
        ),
    ):
        headers = [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]
        async with api.backend.session.post(
            f"{api.backend.url}{AUTHENTICATION}/selfsubjectreviews", json={}, headers=headers
        ) as answer:
            assert answer.status == 201
            assert (await answer.json())["status"]["userInfo"] == {"username": name, "groups": expected}
