"""Claims about Jobs, pods, evictions and budgets, as far as the API server itself makes them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api_server.backends import Answer, Api

CONTAINER = {"name": "c", "image": "registry.example/x:1"}
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}


async def _job(api: Api, **spec: Any) -> Answer:
    return await api.made(
        api.jobs(), {"metadata": {"name": "a"}, "spec": {"suspend": True, "template": TEMPLATE, **spec}}
    )


async def test_a_job_gets_its_defaults(api: Api) -> None:
    made = await _job(api)
    spec = made.body["spec"]
    wanted = {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "completions": 1,
        "parallelism": 1,
        "podReplacementPolicy": "TerminatingOrFailed",
        "manualSelector": False,
    }
    assert {name: spec.get(name) for name in wanted} == wanted
    assert made.body["metadata"]["generation"] == 1
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 30
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


async def test_a_jobs_pods_are_found_by_its_uid_and_name(api: Api) -> None:
    made = await _job(api)
    uid = made.uid
    labels = made.body["spec"]["template"]["metadata"]["labels"]
    assert labels == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "job-name": "a",
    }
    assert made.body["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


async def test_a_job_with_a_failure_policy_replaces_failed_pods_only(api: Api) -> None:
    made = await _job(
        api, podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    )
    assert made.body["spec"]["podReplacementPolicy"] == "Failed"
    assert made.body["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


async def test_a_jobs_template_does_not_change(api: Api) -> None:
    await _job(api)
    refused = await api.strategic(
        api.jobs("a"), {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}}
    )
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", "spec.template.spec")]
    assert refused.message.startswith('Job.batch "a" is invalid: spec.template.spec: Invalid value: ')
    assert refused.message.endswith("field is immutable")


async def test_a_running_jobs_template_does_not_change_as_a_whole(api: Api) -> None:
    await _job(api, suspend=False)
    for change in ({"spec": {"nodeSelector": {"a": "b"}}}, {"metadata": {"labels": {"a": "b"}}}):
        refused = await api.strategic(api.jobs("a"), {"spec": {"template": change}})
        assert refused.causes == [("FieldValueInvalid", "spec.template")]
        assert refused.message.startswith('Job.batch "a" is invalid: spec.template: Invalid value: ')


async def test_a_suspended_job_that_never_ran_may_be_sent_elsewhere(api: Api) -> None:
    await _job(api)
    moved = await api.strategic(api.jobs("a"), {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}})
    assert moved.status == 200
    assert moved.body["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
    assert moved.body["metadata"]["generation"] == 2


async def test_a_jobs_labels_change_without_a_new_generation(api: Api) -> None:
    await _job(api)
    changed = await api.merge(api.jobs("a"), {"metadata": {"labels": {"k": "v"}}})
    assert changed.body["metadata"]["generation"] == 1
    assert changed.body["metadata"]["labels"]["k"] == "v"
    resumed = await api.merge(api.jobs("a"), {"spec": {"parallelism": 0}})
    assert resumed.body["metadata"]["generation"] == 2


async def test_a_jobs_status_is_split_off(api: Api) -> None:
    made = await api.made(
        api.jobs(),
        {"metadata": {"name": "a"}, "spec": {"suspend": True, "template": TEMPLATE}, "status": {"active": 3}},
    )
    assert made.body["status"] == {}
    ignored = await api.merge(api.jobs("a"), {"status": {"active": 3}})
    assert "active" not in ignored.body["status"] or ignored.body["status"]["active"] == 0


async def test_a_jobs_pods_end(api: Api) -> None:
    template = {"spec": {"containers": [CONTAINER]}}
    refused = await api.post(api.jobs(), {"metadata": {"name": "a"}, "spec": {"template": template}})
    assert refused.status == 422
    assert refused.causes == [("FieldValueRequired", "spec.template.spec.restartPolicy")]
    assert 'valid values: "OnFailure", "Never"' in refused.message


async def test_a_pod_gets_its_defaults(api: Api) -> None:
    made = await api.made(api.pods(), {"metadata": {"name": "a"}, "spec": {"containers": [CONTAINER]}})
    spec, status = made.body["spec"], made.body["status"]
    wanted = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "priority": 0,
        "enableServiceLinks": True,
    }
    assert {name: spec.get(name) for name in wanted} == wanted
    assert status["phase"] == "Pending"
    assert status["qosClass"] == "BestEffort"
    assert {(entry["key"], entry["tolerationSeconds"]) for entry in spec["tolerations"]} == {
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    }
    assert made.body["metadata"]["generation"] == 1


async def test_a_pods_spec_does_not_change(api: Api) -> None:
    await api.made(api.pods(), {"metadata": {"name": "a"}, "spec": {"containers": [CONTAINER]}})
    refused = await api.merge(api.pods("a"), {"spec": {"restartPolicy": "Never"}})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueForbidden", "spec")]
    assert refused.message.startswith(
        'Pod "a" is invalid: spec: Forbidden: pod updates may not change fields other than '
    )
    image = await api.strategic(api.pods("a"), {"spec": {"containers": [{"name": "c", "image": "other"}]}})
    assert image.status == 200
    assert image.body["metadata"]["generation"] == 2


async def test_a_pods_status_is_the_kubelets(api: Api) -> None:
    await api.made(api.pods(), {"metadata": {"name": "a"}, "spec": {"containers": [CONTAINER]}})
    ignored = await api.merge(api.pods("a"), {"status": {"phase": "Failed"}, "metadata": {"labels": {"k": "v"}}})
    assert ignored.body["status"]["phase"] == "Pending"
    written = await api.strategic(
        api.pods("a", "status"), {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    )
    assert written.body["status"]["phase"] == "Running"
    assert written.body["status"]["qosClass"] == "BestEffort"


async def test_a_pod_is_bound_once(api: Api) -> None:
    await api.made(api.pods(), {"metadata": {"name": "a"}, "spec": {"containers": [CONTAINER]}})
    target = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "nowhere"}}
    bound = await api.post(api.pods("a", "binding"), target)
    assert (bound.status, bound.body["status"]) == (201, "Success")
    live = await api.get(api.pods("a"))
    assert live.body["spec"]["nodeName"] == "nowhere"
    assert live.body["metadata"]["generation"] == 1, "a binding is no new generation"
    refused = await api.post(api.pods("a", "binding"), target)
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "nowhere"'
    )
    await api.delete(api.pods("a"), {"gracePeriodSeconds": 0})


# --- evictions --------------------------------------------------------------------------------------------------------


async def _running(api: Api, name: str = "a") -> None:
    spec = {"containers": [CONTAINER], "nodeName": "nowhere"}
    await api.made(api.pods(), {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert (await api.strategic(api.pods(name, "status"), {"status": ready})).status == 200


async def _budget(api: Api, name: str, minimum: int, *, healthy: int) -> None:
    """A budget, and its status as the controller writes it."""
    selector = {"matchLabels": {"app": "x"}}
    await api.made(api.budgets(), {"metadata": {"name": name}, "spec": {"minAvailable": minimum, "selector": selector}})
    if api.backend.embedded:
        status = {
            "observedGeneration": 1,
            "currentHealthy": healthy,
            "desiredHealthy": minimum,
            "disruptionsAllowed": max(healthy - minimum, 0),
            "expectedPods": healthy,
        }
        assert (await api.merge(api.budgets(name, "status"), {"status": status})).status == 200
        return

    async def is_counted() -> bool:
        return bool((await api.get(api.budgets(name))).body["status"].get("currentHealthy") == healthy)

    await api.until(is_counted)


def _eviction(name: str = "a", **options: Any) -> dict[str, Any]:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**eviction, "deleteOptions": options} if options else eviction


async def test_an_eviction_deletes_with_grace(api: Api) -> None:
    await _running(api)
    evicted = await api.post(api.pods("a", "eviction"), _eviction())
    assert (evicted.status, evicted.body["status"]) == (201, "Success")
    assert (await api.get(api.pods("a"))).body["metadata"]["deletionGracePeriodSeconds"] == 30
    await api.delete(api.pods("a"), {"gracePeriodSeconds": 0})


async def test_an_eviction_of_nobody_is_404(api: Api) -> None:
    refused = await api.post(api.pods("nobody", "eviction"), _eviction("nobody"))
    assert (refused.status, refused.reason) == (404, "NotFound")
    assert refused.message == 'pods "nobody" not found'


async def test_an_eviction_of_another_incarnation_is_409(api: Api) -> None:
    await _running(api)
    other = "00000000-0000-4000-8000-000000000000"
    refused = await api.post(api.pods("a", "eviction"), _eviction(preconditions={"uid": other}))
    assert (refused.status, refused.reason) == (409, "Conflict")
    await api.delete(api.pods("a"), {"gracePeriodSeconds": 0})


async def test_a_budget_refuses_an_eviction_with_429(api: Api) -> None:
    """Trap 57."""
    await _running(api)
    await _budget(api, "keep", 1, healthy=1)
    refused = await api.post(api.pods("a", "eviction"), _eviction())
    assert (refused.status, refused.reason) == (429, "TooManyRequests")
    assert refused.message == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = refused.details["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget keep needs 1 healthy pods and has 1 currently"
    assert "retryAfterSeconds" not in refused.details
    await api.delete(api.pods("a"), {"gracePeriodSeconds": 0})


async def test_a_budget_allows_and_counts_an_eviction(api: Api) -> None:
    await _running(api, "a")
    await _running(api, "b")
    await _budget(api, "keep", 1, healthy=2)
    evicted = await api.post(api.pods("a", "eviction"), _eviction())
    assert evicted.status == 201
    status = (await api.get(api.budgets("keep"))).body["status"]
    assert status["disruptionsAllowed"] == 0
    refused = await api.post(api.pods("b", "eviction"), _eviction("b"))
    assert refused.status == 429
    for name in ("a", "b"):
        await api.delete(api.pods(name), {"gracePeriodSeconds": 0})


async def test_two_budgets_are_500(api: Api) -> None:
    await _running(api)
    await _budget(api, "keep", 0, healthy=1)
    await _budget(api, "more", 0, healthy=1)
    refused = await api.post(api.pods("a", "eviction"), _eviction())
    assert refused.status == 500
    assert "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support." in (
        refused.message
    )
    await api.delete(api.pods("a"), {"gracePeriodSeconds": 0})


async def test_a_pod_that_ended_is_evicted_past_its_budget(api: Api) -> None:
    await _running(api)
    await _budget(api, "keep", 1, healthy=1)
    assert (await api.strategic(api.pods("a", "status"), {"status": {"phase": "Succeeded"}})).status == 200
    assert (await api.post(api.pods("a", "eviction"), _eviction())).status == 201
    assert (await api.get(api.pods("a"))).status == 404


# --- others -----------------------------------------------------------------------------------------------------------


async def test_events_are_one_resource_in_two_groups(api: Api) -> None:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": api.namespace}
    root = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    made = await api.made(
        root,
        {
            "metadata": {"name": "e"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "claims.example/c",
            "reportingInstance": "i",
            "action": "Do",
            "reason": "Did",
            "regarding": about,
            "note": "words",
            "type": "Normal",
        },
    )
    assert made.body["note"] == "words"
    core = await api.get(f"/api/v1/namespaces/{api.namespace}/events/e")
    assert core.body["message"] == "words"
    assert core.body["involvedObject"]["name"] == "p"
    assert core.body["reportingComponent"] == "claims.example/c"
    listed = await api.get(
        f"/api/v1/namespaces/{api.namespace}/events", fieldSelector="involvedObject.name=p,reason=Did"
    )
    assert [item["metadata"]["name"] for item in listed.body["items"]] == ["e"]


async def test_a_token_of_a_service_account_is_known(api: Api) -> None:
    accounts = f"/api/v1/namespaces/{api.namespace}/serviceaccounts"
    made = await api.made(accounts, {"metadata": {"name": "worker"}})
    token = await api.post(f"{accounts}/worker/token", {"spec": {"expirationSeconds": 3600}})
    assert token.status == 201
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    known = await api.post(
        "/apis/authentication.k8s.io/v1/tokenreviews", {**review, "spec": {"token": token.body["status"]["token"]}}
    )
    assert known.status == 201
    assert known.body["status"]["authenticated"] is True
    user = known.body["status"]["user"]
    assert user["username"] == f"system:serviceaccount:{api.namespace}:worker"
    assert user["uid"] == made.uid
    assert f"system:serviceaccounts:{api.namespace}" in user["groups"]
    unknown = await api.post("/apis/authentication.k8s.io/v1/tokenreviews", {**review, "spec": {"token": "nonsense"}})
    assert unknown.body["status"].get("authenticated", False) is False
    assert "invalid bearer token" in unknown.body["status"]["error"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_a_server_is_healthy(api: Api, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.body) == (200, "ok")


async def test_a_job_does_not_choose_its_selector(api: Api) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    refused = await api.post(api.jobs(), {"metadata": {"name": "a"}, "spec": spec})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == [
        ("FieldValueInvalid", "spec.selector"),
        ("FieldValueInvalid", "spec.template.metadata.labels"),
    ]


async def test_a_jobs_name_fits_into_a_label(api: Api) -> None:
    refused = await api.post(api.jobs(), {"metadata": {"name": "q" * 64}, "spec": {"template": TEMPLATE}})
    assert refused.causes == [("FieldValueInvalid", "spec.template.labels")] * 2


async def test_a_pod_needs_its_service_account(api: Api) -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"serviceAccountName": "nobody", "containers": [CONTAINER]}}
    refused = await api.post(api.pods(), pod)
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        f'pods "a" is forbidden: error looking up service account {api.namespace}/nobody: serviceaccount "nobody" not found'
    )


async def test_an_eviction_names_its_pod(api: Api) -> None:
    await _running(api)
    refused = await api.post(api.pods("a", "eviction"), _eviction("other"))
    assert (refused.status, refused.message) == (400, "name in URL does not match name in Eviction object")
    await api.delete(api.pods("a"), {"gracePeriodSeconds": 0})


async def test_an_event_lives_where_it_is_about(api: Api) -> None:
    root = f"/api/v1/namespaces/{api.namespace}/events"
    refused = await api.post(root, {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}})
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert ("FieldValueInvalid", "involvedObject.namespace") in refused.causes


async def test_a_quota_of_pods_refuses_those_of_its_scope(api: Api) -> None:
    quotas = f"/api/v1/namespaces/{api.namespace}/resourcequotas"
    spec = {"hard": {"pods": "1"}, "scopes": ["NotTerminating"]}
    await api.made(quotas, {"metadata": {"name": "few"}, "spec": spec})
    pod = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    answers: list[Answer] = []

    async def refused() -> bool:  # a real one first has to count what is there
        answers.append(await api.post(api.pods(), {**pod, "metadata": {"generateName": "free-"}}))
        return answers[-1].message.endswith("exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1")

    await api.until(refused)
    assert (answers[-1].status, answers[-1].reason) == (403, "Forbidden")
    bounded = {**pod["spec"], "activeDeadlineSeconds": 60}
    await api.made(api.pods(), {"metadata": {"name": "bounded"}, "spec": bounded})
