"""Which Jobs are replaced, retried, swept and left (JOB-6 to JOB-12, JOB-18)."""

import pytest

from nodewright.api import keys
from nodewright.engine.retention import surplus
from nodewright.model.snapshot import PlanSettings
from tests.unit.engine.machines import replace
from tests.unit.engine.world import CR_NAME, World, package

APPLY = "n1:kernel-1.0.0:apply"
CONFIG = "n1:kernel-1.0.0:config"


def applying() -> World:
    """One node whose apply Job runs."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    world.turn()
    return world


@pytest.mark.parametrize(("before", "delay"), [(0, 10), (1, 20), (3, 80), (6, 600), (999, 600)])
def test_an_unproven_failure_runs_again_after_a_doubling_back_off(before: int, delay: int) -> None:
    """JOB-6: 10 s, doubling to 10 min; the count travels as an annotation of the next Job."""
    world = applying()
    world.refuse(APPLY)
    job = world.job(APPLY)
    world.jobs[job.metadata.name] = replace(
        job,
        metadata=replace(job.metadata, annotations={**job.metadata.annotations, keys.UNPROVEN_FAILURES: str(before)}),
    )
    began = world.now
    world.settle()
    assert (world.status("n1"), world.plan().wake_at) == ("in_progress", began + delay)
    assert world.stages("n1") == {"kernel|1.0.0": "apply/in_progress"}
    world.now = began + delay - 1
    assert world.step() == 0
    world.now = began + delay
    world.step()
    world.finish_deletions()
    world.settle()
    assert world.job(APPLY).metadata.annotations[keys.UNPROVEN_FAILURES] == str(before + 1)
    assert world.status("n1") == "in_progress"


@pytest.mark.parametrize("signal", ["reset", "image"])
def test_an_explicit_signal_does_not_wait_for_the_back_off(signal: str) -> None:
    """JOB-6: what was restarted or changed is another start, with a count of its own."""
    world = applying()
    world.refuse(APPLY)
    world.settle()
    if signal == "reset":
        world.reset("n1")
    else:
        world.cr(packages={"kernel": {**package(), "image": "registry/better"}})
    world.step()
    world.finish_deletions()
    world.settle()
    assert world.running() == [APPLY]
    assert keys.UNPROVEN_FAILURES not in world.job(APPLY).metadata.annotations


def test_only_the_first_and_the_latest_failed_pod_are_kept() -> None:
    """JOB-7."""
    world = applying()
    names = []
    for _ in range(3):
        world.now += 20
        world.fail_attempt(APPLY)
        names = list(world.pods)
    world.settle()
    assert list(world.pods) == [names[0], names[2]]


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        ({"image": "registry/other"}, True),
        ({"env": [{"name": "A", "value": "1"}]}, True),
        ({"agentImageOverride": "other:1.0.0"}, True),
        ({"resources": {"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Gi", "memoryLimit": "1Gi"}}, True),
        ({"stageTimeout": "5m"}, False),  # JOB-2: used by the next Job
        ({"gracefulShutdown": "1m"}, False),
    ],
)
def test_an_unfinished_job_whose_inputs_changed_is_replaced_once(change: dict[str, object], stale: bool) -> None:
    """JOB-10, B73: and while the old pods end nothing new starts."""
    world = applying()
    old = world.job(APPLY).metadata.uid
    world.cr(packages={"kernel": {**package(), **change}})
    world.settle()
    assert (world.job(APPLY).metadata.deletion_timestamp is not None) is stale
    world.run()
    assert world.status("n1") == "complete"
    assert (world.job(APPLY).metadata.uid != old) is stale


@pytest.mark.parametrize(("has_pod", "replaced"), [(True, False), (False, True)])
def test_a_new_agent_image_replaces_only_a_job_without_a_pod(has_pod: bool, replaced: bool) -> None:
    """JOB-10: an operator upgrade kills no running stage."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    if has_pod:
        world.turn()
    world.settings = PlanSettings(agent_image="agent:2.0.0", version="9.9.9")
    world.restart()
    world.settle()
    assert (world.job(APPLY).metadata.deletion_timestamp is not None) is replaced


def test_a_failed_job_that_still_matches_stays_and_one_that_does_not_goes() -> None:
    """JOB-8: a spec change is an explicit signal."""
    world = applying()
    world.fail(APPLY)
    world.settle()
    assert world.job(APPLY).metadata.deletion_timestamp is None
    world.cr(packages={"kernel": {**package(), "image": "registry/better"}})
    world.run()
    assert world.status("n1") == "complete"


def test_a_failed_job_goes_when_its_package_left_the_spec() -> None:
    """JOB-8."""
    world = World("n1")
    world.cr(packages={"kernel": package(), "net": package()})
    world.outcomes = {APPLY: "fail"}
    world.run()
    world.cr(packages={"net": package()})
    world.step()
    assert world.job(APPLY).metadata.deletion_timestamp is not None
    world.run()
    assert world.status("n1") == "complete"


def test_finished_jobs_live_to_their_ttl() -> None:
    """B23: moving on to the next stage deletes nothing."""
    world = applying()
    world.run()
    assert sorted(world.describe(j) for j in world.jobs.values()) == [APPLY, CONFIG]
    assert all(j.metadata.deletion_timestamp is None for j in world.jobs.values())


def test_an_unmarked_job_is_never_deleted() -> None:
    """JOB-8, B25: what it proves is recorded first."""
    world = applying()
    world.fail(APPLY)
    world.cr(packages={"kernel": {**package(), "image": "registry/better"}})
    plan = world.plan()
    assert [m.job.metadata.name for n in plan.nodes for m in n.marks] == [world.job(APPLY).metadata.name]
    assert [d for n in plan.nodes for d in n.job_deletes] == []


def test_a_rerun_waits_until_the_old_job_is_gone() -> None:
    """LIF-12, JOB-8, B142: no new run while the name is held, terminating or not; after a minute it shows."""
    world = applying()
    world.run()
    world.reset("n1")
    for _ in range(3):
        world.settle()
    assert world.state("n1") == {}
    assert world.status("n1") != "complete"
    world.now += 61
    world.settle()
    assert "JobNotDeleted" in [e.reason for e in world.events]
    world.run()
    assert world.status("n1") == "complete"


def test_the_jobs_of_a_node_that_is_gone_go_whatever_their_state() -> None:
    """JOB-11, B34."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()})
    world.run()
    world.delete_node("n1")
    world.run()
    assert sorted(world.describe(j) for j in world.jobs.values()) == ["n2:kernel-1.0.0:apply", "n2:kernel-1.0.0:config"]
    assert list(world.crs[CR_NAME].published["nodeStatus"]) == ["n2"]
    assert [n for n in world.configmaps if "-n1-" in n] == []


def test_a_node_created_again_is_another_node() -> None:
    """JOB-11: its old Jobs go and are waited for; nothing says that somebody else's Job is in the way."""
    world = applying()
    world.delete_node("n1")
    world.add_node("n1")
    world.settle()
    assert world.status("n1") != "blocked"
    assert world.job(APPLY).metadata.deletion_timestamp is not None
    world.run()
    assert world.status("n1") == "complete"
    assert [e for e in world.events if e.type.value == "Warning"] == []


def test_only_the_oldest_succeeded_and_marked_jobs_are_surplus() -> None:
    """JOB-18: failed ones count but never go."""
    world = World("n1", "n2", "n3")
    world.cr(packages={"kernel": package()})
    world.outcomes = {"n3:kernel-1.0.0:apply": "fail"}
    world.run()
    jobs = list(world.jobs.values())
    assert len(jobs) == 5
    oldest = min(
        (j for j in jobs if j.condition("Complete")), key=lambda j: (j.status.completion_time or "", j.metadata.name)
    )
    assert surplus(jobs, 4) == [oldest]
    assert len(surplus(jobs, 1)) == 4
    assert surplus(jobs, 5) == []
    assert all(j.condition("Complete") for j in surplus(jobs, 1))


def test_a_failure_whose_proof_comes_after_the_jobs_end_is_told_all_the_same() -> None:
    """JOB-17: Jobs and pods are two watches; by the time the pods tell, the Job may be marked."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.outcomes = {"n1:kernel-1.0.0:apply": "fail"}
    world.settle()
    while not any(job.finished for job in world.jobs.values()):
        world.turn()
        told, world.pods = world.pods, {}
        world.settle()
        world.pods = told
    world.settle()
    assert world.stages("n1") == {"kernel|1.0.0": "apply/erroring"}
    assert [event.reason for event in world.events if event.type == "Warning" and event.node == "n1"] == ["Apply"]


def test_a_node_metadata_configmap_deleted_under_a_job_comes_back() -> None:
    """JOB-15a: the stage goes on by itself; its pod would wait for its volume for ever."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    (name,) = world.configmaps
    del world.configmaps[name]
    world.settle()
    assert list(world.configmaps) == [name]
    world.run()
    del world.configmaps[name]
    world.settle()
    assert world.configmaps == {}  # CON-16: only for a Job
