"""Which change asks for a pass of which CR (LIF-3)."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import pytest

from controller_runtime.controller import Controller, Request, Result
from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec
from nodewright.model.objects import DeploymentPolicyObject, Job, Node, NodeWrightObject, ObjectMeta, Pod
from nodewright.model.snapshot import CR
from nodewright.operator import resources, triggers
from tests.unit.operator.benchtop import Bench

T = TypeVar("T")


@dataclass
class Change(Generic[T]):
    old: T | None
    new: T | None


def cr(name: str, *, role: str = "gpu", priority: int = 200, sequencing: str = "node", policy: str = "") -> CR:
    spec = {
        "nodeSelectors": {"matchLabels": {"role": role}}, "priority": priority, "sequencing": sequencing, "deploymentPolicy": policy,
    }  # fmt: skip
    return CR(meta=ObjectMeta(name=name), spec=NodeWrightSpec.from_json(msgspec.json.encode(spec)))


def node(**parts: Any) -> Node:
    return msgspec.convert({"metadata": {"name": "n1", "labels": {"role": "gpu"}}, **parts}, Node)


def nodewright(**meta: Any) -> NodeWrightObject:
    return NodeWrightObject(metadata=msgspec.convert({"name": "cr", "uid": "u", "generation": 1, **meta}, ObjectMeta))


def test_a_node_concerns_the_crs_that_select_it_or_have_a_key_on_it() -> None:
    bearer = node(metadata={"name": "n1", "labels": {"role": "gpu"}, "annotations": {keys.cordon_key("left"): "true"}})
    crs = [cr("selects"), cr("left", role="cpu"), cr("neither", role="cpu")]
    assert triggers.concerned_by_node(bearer, crs) == {"selects", "left"}


def test_a_cr_whose_spec_cannot_be_read_is_concerned_only_where_it_has_a_key() -> None:
    broken = CR(meta=ObjectMeta(name="broken"), spec=None)
    assert triggers.concerned_by_node(node(), [broken]) == set()


def test_with_sequencing_all_its_successors_are_concerned_by_each_of_its_nodes() -> None:
    # ROL-17
    crs = [
        cr("before", role="cpu", priority=50),
        cr("all", priority=100, sequencing="all"),
        cr("after", role="cpu", priority=150),
    ]
    assert triggers.concerned_by_node(node(), crs) == {"all", "after"}
    equal = [cr("b-all", sequencing="all"), cr("a", role="cpu"), cr("c", role="cpu")]
    assert triggers.concerned_by_node(node(), equal) == {"b-all", "c"}


@pytest.mark.parametrize(
    "changed",
    [
        {"metadata": {"name": "n1", "labels": {"role": "cpu"}}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
        {"metadata": {"name": "n1", "labels": {"role": "gpu"}, "annotations": {keys.node_state_key("cr"): "{}"}}},
        {"metadata": {"name": "n1", "labels": {"role": "gpu"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"status": {"nodeInfo": {"bootID": "b2"}}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"status": {"conditions": [{"type": keys.not_ready_condition("cr"), "status": "True"}]}},
    ],
)
def test_a_change_that_a_decision_may_depend_on_matters(changed: dict[str, Any]) -> None:
    assert triggers.node_matters(Change(node(), node(**changed)))


@pytest.mark.parametrize(
    "changed",
    [
        {"metadata": {"name": "n1", "labels": {"role": "gpu"}, "resourceVersion": "9"}},
        {"metadata": {"name": "n1", "labels": {"role": "gpu"}, "annotations": {"cni/ip": "10.0.0.1"}}},
        {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}},
    ],
)
def test_heartbeats_and_other_softwares_keys_do_not(changed: dict[str, Any]) -> None:
    assert not triggers.node_matters(Change(node(), node(**changed)))


def test_a_node_that_comes_or_goes_matters() -> None:
    assert triggers.node_matters(Change(None, node()))
    assert triggers.node_matters(Change(node(), None))


def test_a_status_write_concerns_only_its_cr() -> None:
    old, new = nodewright(resourceVersion="1"), nodewright(resourceVersion="2")
    assert triggers.is_status_only(Change(old, new))
    assert not triggers.is_more_than_status(Change(old, new))


@pytest.mark.parametrize(
    "changed",
    [
        {"generation": 2},
        {"annotations": {keys.PAUSE: "true"}},
        {"labels": {"a": "b"}},
        {"finalizers": [keys.FINALIZER]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"uid": "another"},
    ],
)
def test_any_other_change_of_a_cr_concerns_every_cr(changed: dict[str, Any]) -> None:
    # trap 54 for the deletion
    assert triggers.is_more_than_status(Change(nodewright(), nodewright(**changed)))


def test_a_cr_that_comes_or_goes_concerns_every_cr() -> None:
    assert triggers.is_more_than_status(Change(None, nodewright()))
    assert triggers.is_more_than_status(Change(nodewright(), None))


def test_a_policy_concerns_those_who_name_it() -> None:
    policy = DeploymentPolicyObject(metadata=ObjectMeta(name="careful"))
    assert triggers.users_of(policy, [cr("a", policy="careful"), cr("b", policy="other"), cr("c")]) == ["a"]


# --- Jobs and pods: what is urgent, and what can wait a second ------------------------------------------------------------------


def job(**parts: Any) -> Job:
    return msgspec.convert({"metadata": {"name": "j", "uid": "u", "labels": {keys.LABEL_NAME: "cr"}}, **parts}, Job)


def pod(*init: Any, **status: Any) -> Pod:
    body = {
        "metadata": {"name": "p", "uid": "u", "labels": {keys.LABEL_NAME: "cr"}},
        "status": {"initContainerStatuses": init, **status},
    }
    return msgspec.convert(body, Pod)


@pytest.mark.parametrize(
    "ended",
    [
        {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        {"status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}},
        {"status": {"failed": 1}},
        {"spec": {"suspend": True}},
    ],
)
def test_a_job_that_ended_or_failed_an_attempt_is_urgent(ended: dict[str, Any]) -> None:
    assert triggers.job_is_urgent(Change(job(), job(**ended)))


def test_a_job_that_went_is_urgent_since_its_name_is_free() -> None:
    assert triggers.job_is_urgent(Change(job(), None))


def test_a_job_that_was_made_or_started_or_marked_or_begins_to_go_can_wait() -> None:
    labels = {keys.LABEL_NAME: "cr"}
    going = {"name": "j", "uid": "u", "labels": labels, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert not triggers.job_is_urgent(Change(job(), job(metadata=going)))
    nearly = {"status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}}
    assert not triggers.job_is_urgent(Change(job(), job(**nearly)))
    marked = {"name": "j", "uid": "u", "labels": {keys.LABEL_NAME: "cr"}, "annotations": {keys.STATE_RECORDED: "true"}}
    assert not triggers.job_is_urgent(Change(None, job()))
    assert not triggers.job_is_urgent(Change(job(), job(status={"active": 1, "startTime": "2026-01-01T00:00:00Z"})))
    assert not triggers.job_is_urgent(Change(job(), job(metadata=marked)))


def container(**state: Any) -> dict[str, Any]:
    return {"name": "c", "state": state}


@pytest.mark.parametrize(
    "wrong",
    [
        pod(container(terminated={"exitCode": 1, "reason": "Error"})),
        pod(container(waiting={"reason": "ImagePullBackOff"})),
        pod(phase="Failed", reason="DeadlineExceeded"),
        pod(conditions=[{"type": "DisruptionTarget", "status": "True"}]),
        pod({"name": "c", "restartCount": 1}),
    ],
)
def test_a_pod_with_trouble_is_urgent_when_it_comes_and_when_it_goes(wrong: Pod) -> None:
    # JOB-5, JOB-14
    assert triggers.pod_is_urgent(Change(pod(), wrong))
    assert triggers.pod_is_urgent(Change(wrong, pod()))
    assert triggers.pod_is_urgent(Change(wrong, None))


def test_a_healthy_pods_way_through_its_containers_can_wait() -> None:
    steps = [
        pod(phase="Pending"),
        pod(container(waiting={"reason": "PodInitializing"}), phase="Pending"),
        pod(container(running={}), phase="Pending"),
        pod(container(terminated={"exitCode": 0, "reason": "Completed"}), phase="Running"),
        pod(container(terminated={"exitCode": 0, "reason": "Completed"}), phase="Succeeded"),
    ]
    assert not any(triggers.pod_is_urgent(Change(old, new)) for old, new in zip([None, *steps], steps, strict=False))


async def test_progress_asks_for_a_pass_within_a_second_and_an_end_at_once(bench: Bench) -> None:
    # LIF-3: nothing that changes is missed
    asked: list[tuple[float, str | None]] = []
    controller = Controller("test", reconcile=never)
    triggers.register(controller, bench.stores, bench.catalog)
    controller.queue.add = lambda key, *, priority=0, after=0.0, trigger=None: asked.append((after, trigger))  # type: ignore[method-assign]
    bench.add_job("j1")
    assert asked == [(1.0, "Job")]
    asked.clear()
    ended = bench.api.objects["jobs", "j1"]
    ended["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    bench.api.put(resources.JOB, ended)
    bench.stores.jobs.observe(bench.api.raw(resources.JOB, "j1"))
    assert (0.0, "Job") in asked


async def never(request: Request) -> Result:
    raise AssertionError(request)
