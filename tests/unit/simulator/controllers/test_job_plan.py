"""What a Job needs next, as tables."""

from typing import Any

import pytest
from msgspec.structs import replace

from nodewright.simulator.controllers import job_plan
from nodewright.simulator.controllers.job_backoff import Failures, finish_time
from nodewright.simulator.controllers.job_bodies import pod_name, status_patch
from nodewright.simulator.controllers.views import Condition, Job, JobStatus, Pod, Uncounted
from tests.unit.simulator.controllers.cluster_objects import START, at, job, pod

ONLY_FAILED: dict[str, Any] = {"podReplacementPolicy": "Failed"}
POLICY = {
    "rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42], "containerName": "work"}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1, 2, 137]}},
    ]
}


def end(job: Job, *pods: Pod, after: float = 0) -> tuple[str, str] | None:
    found = job_plan.verdict(job, pods, job_plan.survey(job, pods), at(after))
    return None if found is None else (found.type, found.reason)


@pytest.mark.parametrize(
    ("given", "pods", "expected"),
    [
        (job(), [], None),
        (job(), [pod()], None),
        (job(), [pod(phase="Failed")], ("FailureTarget", "BackoffLimitExceeded")),
        (job(backoffLimit=1), [pod(phase="Failed")], None),
        (job(backoffLimit=1, status={"failed": 1}), [pod(phase="Failed")], ("FailureTarget", "BackoffLimitExceeded")),
        # counted before: the finalizer is gone
        (job(backoffLimit=1, status={"failed": 1}), [pod(phase="Failed", tracked=False)], None),
        # noted, and not yet in the counter
        (job(status={"uncountedTerminatedPods": {"failed": ["p"]}}), [], ("FailureTarget", "BackoffLimitExceeded")),
        # being deleted is failed, unless only what is over is replaced (B128)
        (job(), [pod(deleted=True)], ("FailureTarget", "BackoffLimitExceeded")),
        (job(**ONLY_FAILED), [pod(deleted=True)], None),
        (job(), [pod(phase="Succeeded", deleted=True)], None),
        # what an earlier look decided stays
        (job("FailureTarget"), [], ("Failed", "Because")),
        (job("SuccessCriteriaMet"), [pod(phase="Failed")], ("SuccessCriteriaMet", "Because")),
        # the pod failure policy: the first rule that matches
        (job(podFailurePolicy=POLICY), [pod(phase="Failed", exit_code=42)], ("FailureTarget", "PodFailurePolicy")),
        (job(podFailurePolicy=POLICY), [pod(phase="Failed", exit_code=1)], ("FailureTarget", "BackoffLimitExceeded")),
        (job(podFailurePolicy=POLICY), [pod(phase="Failed", exit_code=1, disrupted=True)], None),
        (job(podFailurePolicy=POLICY), [pod(phase="Failed", exit_code=9)], None),
        (job(podFailurePolicy=POLICY), [pod(phase="Failed")], ("FailureTarget", "BackoffLimitExceeded")),
        (job(podFailurePolicy=POLICY), [pod(phase="Running", exit_code=42)], None),
    ],
)
def test_when_a_job_is_over(given: Job, pods: list[Pod], expected: tuple[str, str] | None) -> None:
    """JOB-1, JOB-6."""
    assert end(given, *pods) == expected


@pytest.mark.parametrize(
    ("limit", "restarts", "over"), [(0, 0, False), (0, 1, True), (2, 1, False), (2, 2, True), (2147483647, 900, False)]
)
def test_restarts_count_only_for_on_failure(limit: int, restarts: int, over: bool) -> None:
    """B137."""
    again: dict[str, Any] = {"template": {"spec": {"restartPolicy": "OnFailure"}}, "backoffLimit": limit}
    assert (end(job(**again), pod(restarts=restarts)) is not None) is over
    assert end(job(backoffLimit=limit), pod(restarts=restarts)) is None


def test_a_deadline_counts_from_the_start_and_stands_still_while_suspended() -> None:
    assert end(job(activeDeadlineSeconds=10), pod(), after=9.9) is None
    assert end(job(activeDeadlineSeconds=10), pod(), after=10) == ("FailureTarget", "DeadlineExceeded")
    assert end(job(activeDeadlineSeconds=10, suspend=True), pod(), after=99) is None
    assert job_plan.seconds_to_deadline(job(activeDeadlineSeconds=10), at(4)) == 6


def plan(given: Job, *pods: Pod, wait: float = 0) -> tuple[list[str], int, float | None]:
    found = job_plan.staffing(given, job_plan.survey(given, pods), wait)
    return [pod.metadata.name for pod in found.delete], found.create, found.wait


@pytest.mark.parametrize(
    ("given", "pods", "wait", "expected"),
    [
        (job(), [], 0, ([], 1, None)),
        (job(), [], 0.2, ([], 0, 1.0)),
        (job(), [], 7, ([], 0, 7)),
        (job(), [pod()], 0, ([], 0, None)),
        (job(suspend=True), [], 0, ([], 0, None)),
        (job(suspend=True), [pod(), pod("q", phase="Failed")], 0, (["p"], 0, None)),
        (job(completions=3, parallelism=2), [], 0, ([], 2, None)),
        (job(completions=3, parallelism=2, status={"succeeded": 2}), [], 0, ([], 1, None)),
        (job(completions=3, parallelism=0), [pod()], 0, (["p"], 0, None)),
        # a pod that is being deleted holds its place, or does not (B128)
        (job(), [pod(deleted=True)], 0, ([], 1, None)),
        (job(**ONLY_FAILED), [pod(deleted=True)], 0, ([], 0, None)),
        (job(**ONLY_FAILED), [pod(phase="Failed", deleted=True)], 0, ([], 1, None)),
        # too many: the least useful goes
        (job(parallelism=1), [pod("a", ready=True), pod("b", phase="Pending")], 0, (["b"], 0, None)),
        (job(completions=None, parallelism=2), [], 0, ([], 2, None)),
        (job(completions=None, parallelism=2, status={"succeeded": 1}), [pod()], 0, ([], 0, None)),
    ],
)
def test_how_many_pods_a_job_makes_or_deletes(
    given: Job, pods: list[Pod], wait: float, expected: tuple[list[str], int, float | None]
) -> None:
    assert plan(given, *pods, wait=wait) == expected


def test_uids_are_noted_before_finalizers_go_and_counted_after() -> None:
    given = job(backoffLimit=3)
    pods = [pod("bad", phase="Failed"), pod("good", phase="Succeeded"), pod("busy")]
    counted = job_plan.count(given, pods, given.status, None, START)
    assert counted.status.uncounted_terminated_pods == Uncounted(("good",), ("bad",))
    assert (counted.status.succeeded, counted.status.failed) == (0, 0)
    assert [one.metadata.name for one in counted.release] == ["bad", "good"]
    half = job_plan.settle(counted.status, {"bad", "busy"})
    assert (half.succeeded, half.failed, half.uncounted_terminated_pods) == (1, 0, Uncounted((), ("bad",)))
    # died between: the next look, with the status that was written, counts neither twice
    written = replace(given, status=counted.status)
    again = job_plan.survey(written, pods)
    assert (again.succeeded, again.failed, again.newly_failed) == (1, 1, ())


@pytest.mark.parametrize("terminating", [0, 1])
def test_a_terminal_condition_waits_for_pods_that_are_terminating(terminating: int) -> None:
    """JOB-6."""
    given = job()
    target = job_plan.condition("FailureTarget", "DeadlineExceeded", "m", START)
    counted = job_plan.count(given, [pod(deleted=True)], replace(given.status, terminating=terminating), target, START)
    assert [one.type for one in counted.status.conditions] == ["FailureTarget"]
    assert counted.status.uncounted_terminated_pods == Uncounted((), ("p",))
    done = job_plan.conclude(job_plan.settle(counted.status, ()), counted.end)
    assert [one.type for one in done.conditions] == ["FailureTarget", "Failed"][: 2 - terminating]
    assert done.failed == 1
    assert done.completion_time is None


def test_a_deleted_job_lets_its_pods_go_uncounted() -> None:
    given = job(deleted=True, **ONLY_FAILED)
    counted = job_plan.count(given, [pod()], given.status, None, START)
    assert len(counted.release) == 1
    assert counted.status.uncounted_terminated_pods == Uncounted()


def test_an_ignored_pod_is_released_and_not_counted() -> None:
    given = job(podFailurePolicy=POLICY)
    counted = job_plan.count(given, [pod(phase="Failed", disrupted=True)], given.status, None, START)
    assert len(counted.release) == 1
    assert counted.status.uncounted_terminated_pods == Uncounted()


def test_suspension_stops_the_clock_and_resuming_starts_it_afresh() -> None:
    """JOB-16."""
    status = job().status
    assert job_plan.with_suspension(status, suspended=False, now=at(5)) is status  # nothing to say
    suspended = job_plan.with_suspension(status, suspended=True, now=at(5))
    assert suspended.start_time is None
    assert job_plan.with_suspension(suspended, suspended=True, now=at(9)) is suspended
    resumed = job_plan.with_suspension(suspended, suspended=False, now=at(60))
    assert [(one.type, one.status, one.reason) for one in resumed.conditions] == [("Suspended", "False", "JobResumed")]
    assert resumed.start_time == "2030-01-01T00:01:00Z"


# --- back-off


@pytest.mark.parametrize(
    ("failures", "after", "expected"),
    [(0, 0, 0), (1, 0, 10), (1, 4, 6), (2, 0, 20), (3, 50, 0), (7, 0, 600), (99, 0, 600)],
)
def test_the_wait_doubles_from_ten_seconds_to_ten_minutes(failures: int, after: float, expected: float) -> None:
    assert Failures(count=failures, last=START).wait(at(after), first=10, longest=600) == expected


def test_a_success_forgets_the_failures_before_it() -> None:
    bad = [pod(name, phase="Failed", exit_code=1, ended=second) for name, second in (("a", 10), ("b", 30))]
    good = [pod("c", phase="Succeeded", exit_code=0, ended=20)]
    assert Failures().after([], bad) == Failures(count=2, last=at(30))
    assert Failures(count=5, last=START).after([], []) == Failures(count=5, last=START)
    assert Failures(count=5, last=START).after(good, bad) == Failures(count=1, last=at(30))
    assert Failures(count=5, last=START).after(good, []) == Failures()


def test_when_a_pod_was_over() -> None:
    assert finish_time(pod(phase="Failed", exit_code=1, ended=7)) == at(7)
    assert finish_time(pod(deleted=True, ended=9)) == at(9)  # its deletion, not the end of its grace
    assert finish_time(pod()) == START


# --- bodies


def test_a_status_patch_names_what_changed_and_nulls_what_went() -> None:
    given = job(status={"active": 1, "uncountedTerminatedPods": {"failed": ["p"]}})
    new = replace(given.status, active=0, failed=1, uncounted_terminated_pods=Uncounted())
    assert status_patch(given, given.status, given.status, "7") is None
    assert status_patch(given, given.status, new, "7") == {
        "metadata": {"uid": "job-uid", "resourceVersion": "7"},
        "status": {"active": None, "failed": 1, "uncountedTerminatedPods": {"succeeded": None, "failed": None}},
    }


def test_a_condition_is_written_without_what_is_empty() -> None:
    given = job()
    new = JobStatus(conditions=(Condition(type="Complete", status="True"),), start_time=given.status.start_time)
    patch: Any = status_patch(given, given.status, new, None)
    assert patch["status"] == {"conditions": [{"type": "Complete", "status": "True"}]}


def test_pod_names_are_the_same_in_each_run_and_fit() -> None:
    given = job()
    names = {pod_name(given, number) for number in range(200)}
    assert len(names) == 200
    assert pod_name(given, 3) == pod_name(job(), 3)
    long = replace(given, metadata=replace(given.metadata, name="x" * 63))
    assert len(pod_name(long, 0)) == 63
