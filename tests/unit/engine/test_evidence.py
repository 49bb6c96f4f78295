"""What Jobs and pods prove (JOB-5 to JOB-7, LIF-11)."""

import pytest

from nodewright.engine.evidence import Verdict, is_genuine_failure, judge
from nodewright.model.objects import Condition, ContainerState, ContainerStatus, ContainerWaiting, Job, Pod, PodStatus
from tests.unit.engine.machines import RUNNING, ended, replace
from tests.unit.engine.world import World, package

DISRUPTED = (Condition(type="DisruptionTarget", status="True"),)
WHAT = "n1:kernel-1.0.0:apply"


def pod(
    *steps: ContainerState,
    phase: str = "Failed",
    reason: str = "",
    conditions: tuple[Condition, ...] = (),
    deleted: bool = False,
) -> Pod:
    world = running()
    one = next(iter(world.pods.values()))
    statuses = tuple(ContainerStatus(name=str(i), state=s) for i, s in enumerate(steps))
    meta = replace(one.metadata, deletion_timestamp=world.stamp()) if deleted else one.metadata
    return Pod(
        meta, status=PodStatus(phase=phase, reason=reason, conditions=conditions, init_container_statuses=statuses)
    )


def running() -> World:
    """One node whose apply runs."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.step()
    world.start(WHAT)
    return world


@pytest.mark.parametrize(
    ("failed", "genuine"),
    [
        (pod(ended(0), ended(1)), True),
        (pod(ended(2)), True),  # every init container is a step
        (pod(ended(0), ended(1), phase="Pending"), True),
        (pod(phase="Failed", reason="DeadlineExceeded"), True),
        (pod(ContainerState(waiting=ContainerWaiting(reason="ImagePullBackOff")), reason="DeadlineExceeded"), True),
        (pod(), False),  # refused by the kubelet at admission
        (pod(reason="UnexpectedAdmissionError"), False),
        (pod(ended(0), ended(137, "ContainerStatusUnknown")), False),
        (pod(ended(0), ended(1, "Unknown")), False),
        (pod(ended(0), ended(143), conditions=DISRUPTED), False),
        (pod(ended(0), ended(1), deleted=True), False),
        (pod(ended(0), RUNNING, phase="Running"), False),
        (pod(ended(0), ended(0), phase="Failed"), False),  # the main container is no step
    ],
)
def test_only_what_the_package_did_is_failure(failed: Pod, genuine: bool) -> None:
    """JOB-5, invariant 8."""
    assert is_genuine_failure(failed) is genuine


def job_after(*moves: str) -> tuple[Job, list[Pod]]:
    world = running()
    for move in moves:
        getattr(world, move)(WHAT)
    return world.job(WHAT), list(world.pods.values())


@pytest.mark.parametrize(
    ("moves", "verdict", "restarts"),
    [
        ((), Verdict.RUNNING, 0),
        (("fail_attempt",), Verdict.RUNNING, 1),
        (("fail_attempt", "start"), Verdict.RUNNING, 1),
        (("disrupt",), Verdict.RUNNING, 0),  # LIF-11: retained, and no evidence
        (("disrupt", "fail_attempt"), Verdict.RUNNING, 1),
        (("fail_attempt",) * 4, Verdict.FAILED, 4),  # FailureTarget is the verdict (JOB-6)
        (("fail",), Verdict.FAILED, 4),
        (("refuse",), Verdict.UNPROVEN, 0),
        (("succeed",), Verdict.COMPLETE, 0),
        (("fail_attempt", "succeed"), Verdict.COMPLETE, 1),
    ],
)
def test_a_job_is_judged_by_its_conditions_and_pods(moves: tuple[str, ...], verdict: Verdict, restarts: int) -> None:
    """JOB-6, LIF-11."""
    job, pods = job_after(*moves)
    evidence = judge(job, pods)
    assert (evidence.verdict, evidence.restarts) == (verdict, restarts)


def test_a_deadline_of_the_job_is_proof_without_pods() -> None:
    """JOB-6."""
    job, _ = job_after()
    over = replace(
        job,
        status=replace(job.status, conditions=(Condition(type="Failed", status="True", reason="DeadlineExceeded"),)),
    )
    assert judge(over, ()).verdict is Verdict.FAILED


def test_the_first_and_the_latest_genuine_failure_are_kept_while_the_job_retries() -> None:
    """JOB-7: not those that prove nothing, and none once the Job has ended."""
    world = running()
    for move in ("fail_attempt", "disrupt", "fail_attempt", "fail_attempt"):
        world.now += 10
        getattr(world, move)(WHAT)
    genuine = [p for p in world.pods.values() if is_genuine_failure(p)]
    assert len(world.pods) == 4
    assert judge(world.job(WHAT), world.pods.values()).surplus == (genuine[1],)
    world.fail(WHAT)
    assert judge(world.job(WHAT), world.pods.values()).surplus == ()


def test_the_pods_of_others_say_nothing() -> None:
    """CON-13."""
    job, pods = job_after("fail_attempt")
    foreign = [replace(p, metadata=replace(p.metadata, owner_references=())) for p in pods]
    assert judge(job, foreign).failing is False
    assert judge(job, pods).failing is True
