"""Packages that fail, and failures that are not the package's (LIF-11, JOB-5 to JOB-8, JOB-14 to JOB-17)."""

import json

from controller_runtime.cache import Change
from controller_runtime.transport import Resource
from tests.cluster.observer import JOB, NAMESPACE, POD, Recorder, Thing
from tests.cluster.scenario import Scenario, package, scenario

QUOTA = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)


def watch_states(s: Scenario) -> Recorder:
    """Records the states of all entries of the CR on any node, at each change of a node."""

    def look(change: Change[Thing]) -> set[tuple[str, str]] | None:
        text = change.new and change.new.key(f"nodeState_{s.name}")
        return {(e["stage"], e["state"]) for e in json.loads(text).values()} if text else None

    return Recorder(s.observer.nodes, look)


@scenario()
async def test_a_failing_attempt_is_repeated_and_the_node_completes(s: Scenario) -> None:
    """LIF-11, ROL-20, B05: the entry reads erroring between the attempts, the node stays in_progress."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,attempt=1:fail=3")
    await s.apply({"tuning": package()})
    erroring = f"nodewright.nvidia.com/{s.name}/Erroring"
    await s.until(lambda: s.entry(node, "tuning|1.0.0") == ("apply", "erroring"), "the entry is erroring")
    assert s.node_status(node) == "in_progress"
    await s.until(lambda: s.node(node).is_true(erroring), "Erroring is True while it retries (CON-8)")
    assert not s.cr().is_true("Stalled")
    await s.until_status("complete", within=60)
    assert s.ran("apply") == 2
    await s.until(lambda: not s.node(node).is_true(erroring), "Erroring is False again")
    assert "restarts" not in s.node_state(node)["tuning|1.0.0"]


@scenario(within=120)
async def test_a_package_that_fails_for_good_stops_and_says_so(s: Scenario) -> None:
    """JOB-6, JOB-17, ROL-20 to ROL-22a: backoffLimit + 1 attempts, the Job stays; deleting it runs the stage again."""
    (node,) = await s.nodes(1)
    s.rules("package=tuning,stage=apply,attempt=1-2:fail=7")
    await s.apply({"tuning": package(), "later": package(dependsOn={"tuning": "1.0.0"})})
    await s.until_status("erroring", within=60)
    assert s.entry(node, "tuning|1.0.0") == ("apply", "erroring")
    # The Job controller says that a Job will have failed before it has counted the last pod.
    await s.until(lambda: s.node_state(node)["tuning|1.0.0"]["restarts"] == 2, "both attempts are counted")
    assert s.ran("apply") == 2
    assert s.node_status(node) == "erroring"
    ready = s.cr().condition("Ready") or {}
    assert (ready["status"], ready["reason"]) == ("False", "Erroring")
    assert ready["message"] == f"0/1 nodes complete, 1 erroring ({node})"
    stalled = await s.until_condition("Stalled")
    assert stalled["reason"] == "StageFailed"
    assert node in stalled["message"]
    job = s.job(node=node)
    await s.until(lambda: s.job(node=node).key("state-recorded") == "true", "the Job is marked")
    assert s.job(node=node).spec["ttlSecondsAfterFinished"] == 60
    warning = await s.until_event("Apply", node)
    assert (warning.type, warning.action) == ("Warning", "apply")
    await s.never(lambda: s.ran("apply") > 2, "a failed stage runs again without a signal", during=5)

    await s.delete(JOB, job.name)
    await s.until_status("complete", within=45)
    assert s.ran("apply", package="tuning") == 3
    stalled = s.cr().condition("Stalled") or {}
    assert (stalled["status"], stalled["reason"]) == ("False", "Resolved")


@scenario(within=160)
async def test_when_a_failed_jobs_ttl_is_over_the_stage_runs_once_more(s: Scenario) -> None:
    """JOB-6, B113: exactly one new Job, not before the TTL (one minute here)."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,attempt=1-2:fail=1")
    await s.apply({"tuning": package()})
    await s.until_node(node, "erroring", within=60)
    await s.never(lambda: s.ran("apply") > 2, "it ran before the TTL was over", during=45)
    await s.until_status("complete", within=50)
    assert s.ran("apply") == 3


@scenario()
async def test_one_node_that_fails_stops_no_other(s: Scenario) -> None:
    """LIF-4, invariant 5, ROL-21."""
    nodes = await s.nodes(3)
    s.rules(f"node={nodes[1]},stage=config:fail=1")
    await s.apply({"tuning": package()})
    await s.until_node(nodes[1], "erroring", within=60)
    assert [s.node_status(node) for node in nodes] == ["complete", "erroring", "complete"]
    await s.until_status("erroring")
    assert s.cr().status["completeNodes"] == "2/3"


@scenario()
async def test_an_image_that_cannot_be_pulled_is_told_once(s: Scenario) -> None:
    """JOB-14: Warning event and condition, once a node, package and image; gone when the image is there."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply:pull_failure=8")
    await s.apply({"tuning": package()})
    told = await s.until_event("ImagePullFailed")
    assert told.type == "Warning"
    assert all(word in told.note for word in (node, "tuning", "ghcr.io/example/packages/sample"))
    condition = await s.until_condition("ImagePullFailed")
    assert node in condition["message"]
    assert s.node_status(node) == "in_progress"
    await s.until_status("complete", within=40)
    assert not s.cr().is_true("ImagePullFailed")
    assert len(s.events(reason="ImagePullFailed")) == 1


@scenario()
async def test_a_pod_that_waits_for_a_missing_object_is_told_and_goes_on_when_it_is_there(s: Scenario) -> None:
    """JOB-15a: PodWaiting, with what it waits for."""
    (node,) = await s.nodes(1)
    s.rules('stage=apply:config_error,message=secret "tuning-credentials" not found')
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tuning-credentials", "key": "token"}}}]
    await s.apply({"tuning": package(env=env)})
    told = await s.until_event("PodWaiting", within=75)
    assert told.type == "Warning"
    assert node in told.note
    assert "tuning-credentials" in told.note
    assert s.entry(node, "tuning|1.0.0") == ("apply", "in_progress")
    s.no_rules()
    await s.until_status("complete", within=30)


@scenario(within=150)
async def test_a_job_that_cannot_make_its_pod_is_told_and_goes_on_when_it_can(s: Scenario) -> None:
    """JOB-15a, B112: a quota of no pods. It is one of pods without a deadline, so that it meets this scenario only."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": s.name}}
    await s.client.create(
        QUOTA, {**quota, "spec": {"hard": {"pods": "0"}, "scopes": ["NotTerminating"]}}, namespace=NAMESPACE
    )
    (node,) = await s.nodes(1)
    try:
        await s.apply({"tuning": package(stageTimeout="0")})
        told = await s.until_event("PodNotCreated", within=75)
        assert told.type == "Warning"
        assert node in told.note
        assert s.status() == "in_progress"
    finally:
        await s.delete(QUOTA, s.name)
    await s.until_status("complete", within=70)


@scenario(within=120)
async def test_a_pod_the_kubelet_refuses_is_no_failure_of_the_package(s: Scenario) -> None:
    """JOB-5, JOB-6, invariant 8: nothing in node state; the stage runs again after a back-off of 10 s."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,attempt=1-2:refuse_admission=OutOfcpu")
    with watch_states(s) as states:
        await s.apply({"tuning": package()})
        await s.until(lambda: s.jobs() and s.job().is_true("Failed"), "the Job has failed", within=60)
        first = s.job().metadata.uid
        await s.until(lambda: s.job().key("state-recorded"), "it is marked")
        await s.until(lambda: (jobs := s.jobs(stage="apply")) and jobs[0].metadata.uid != first, "there is another Job")
        assert s.job(stage="apply").key("unproven-failures") == "1"
        await s.until_status("complete", within=40)
    assert ("apply", "erroring") not in set().union(*states.seen)
    assert s.ran("apply") == 1
    assert s.node_status(node) == "complete"


@scenario()
async def test_an_evicted_pod_costs_no_attempt(s: Scenario) -> None:
    """JOB-1, JOB-5: DisruptionTarget is ignored by the Job and by us, also more often than the backoff limit."""
    await s.nodes(1)
    s.rules("stage=apply,attempt=1-2:evict=0.5")
    with watch_states(s) as states:
        await s.apply({"tuning": package()})
        await s.until_status("complete", within=80)
    assert ("apply", "erroring") not in set().union(*states.seen)
    assert s.ran("apply") == 3


@scenario()
async def test_a_pod_deleted_by_hand_is_no_failure_of_the_package(s: Scenario) -> None:
    """JOB-5, invariant 8."""
    await s.nodes(1)
    s.rules("stage=apply,attempt=1,container=~.*-apply:hang")
    with watch_states(s) as states:
        await s.apply({"tuning": package()})
        await s.until(lambda: s.ran("apply") == 1, "the step runs")
        await s.delete(POD, s.pods()[0].name)
        await s.until_status("complete", within=60)
    assert ("apply", "erroring") not in set().union(*states.seen)


@scenario()
async def test_an_attempt_past_its_deadline_is_a_failure(s: Scenario) -> None:
    """JOB-1, JOB-2, JOB-5: the stage timeout bounds an attempt; DeadlineExceeded is evidence."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,attempt=1:hang")
    await s.apply({"tuning": package(stageTimeout="2s")})
    await s.until(lambda: s.entry(node, "tuning|1.0.0") == ("apply", "erroring"), "the attempt counts")
    await s.until_status("complete", within=60)


@scenario()
async def test_a_failed_package_runs_again_when_its_spec_changes(s: Scenario) -> None:
    """JOB-6, JOB-8, JOB-10: a change of env is an explicit signal."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,attempt=1-2:fail=1")
    await s.apply({"tuning": package()})
    await s.until_node(node, "erroring", within=60)
    await s.edit(packages={"tuning": {"env": [{"name": "FIXED", "value": "yes"}]}})
    await s.until_status("complete", within=40)
    assert s.ran("apply") == 3
