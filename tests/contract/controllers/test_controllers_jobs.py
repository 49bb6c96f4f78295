"""The life of a Job, condition by condition: the same on both backends."""

import asyncio
import itertools

import pytest

from controller_runtime.transport import PatchType
from nodewright.simulator.controllers.views import JOB, POD, TRACKING, JobStatus
from nodewright.simulator.kubelets import Timing
from tests.contract.controllers.place import FAST, Place, created, disruption_target
from tests.contract.controllers.scenes import played

LIMIT = "BackoffLimitExceeded"
MET = ("SuccessCriteriaMet", "True", "CompletionsReached")
COMPLETE = ("Complete", "True", "CompletionsReached")
SLOW_END = Timing(step_seconds=0.05, look_seconds=0.3, terminate_seconds=2.0)
IGNORE_DISRUPTION = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def failed(reason: str) -> list[tuple[str, str, str]]:
    return [("FailureTarget", "True", reason), ("Failed", "True", reason)]


@played
async def test_a_job_that_succeeds_meets_its_criteria_before_it_is_complete(place: Place) -> None:
    """JOB-3."""
    async with place.kubelets(":succeed=1"):
        await place.job("good", backoffLimit=0)
        story = await place.ends("good")
    assert story.conditions == [MET, COMPLETE]
    last = story.last
    assert (last.active, last.ready, last.succeeded, last.failed, last.terminating) == (0, 0, 1, 0, 0)
    assert last.uncounted_terminated_pods is not None
    assert not last.uncounted_terminated_pods.succeeded
    assert story.ever(lambda status: status.active == 1 and status.ready == 1)
    assert last.start_time is not None
    assert last.completion_time is not None
    assert last.completion_time >= last.start_time


@played
async def test_a_pod_is_labelled_owned_and_held_until_it_is_counted(place: Place) -> None:
    async with place.kubelets(":succeed=2"):
        job = await place.job("good")
        pod = await place.starts("good")
        meta = pod["metadata"]
        uid = job["metadata"]["uid"]
        both = {"controller-uid": uid, "job-name": "good"}
        assert meta["labels"] == {**both, **{f"batch.kubernetes.io/{key}": value for key, value in both.items()}}
        assert meta["finalizers"] == [TRACKING]
        assert meta["generateName"] == "good-"
        assert meta["name"].startswith("good-")
        assert len(meta["name"]) == len("good-") + 5
        assert meta["ownerReferences"] == [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "good",
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        await place.ends("good")
        assert "finalizers" not in (await place.pods())[0]["metadata"]


@played
async def test_backoff_limit_0_fails_with_the_first_pod(place: Place) -> None:
    """JOB-6."""
    async with place.kubelets(":fail=3"):
        await place.job("bad", backoffLimit=0)
        story = await place.ends("bad")
    assert story.conditions == failed(LIMIT)
    assert (story.last.active, story.last.failed, story.last.succeeded) == (0, 1, 0)
    assert story.last.completion_time is None
    assert story.last.conditions[-1].message == "Job has reached the specified backoff limit"
    assert len(await place.pods()) == 1


@played
async def test_the_second_pod_comes_ten_seconds_after_the_first_failed(place: Place) -> None:
    async with place.kubelets(":fail=1"):
        await place.job("bad", backoffLimit=1)
        story = await place.ends("bad", 40)
    assert story.conditions == failed(LIMIT)
    assert story.last.failed == 2
    first, second = created(await place.pods())
    assert 10 <= second - first <= 13


@pytest.mark.slow
@played
async def test_each_further_pod_waits_twice_as_long(place: Place) -> None:
    async with place.kubelets(":fail=1"):
        await place.job("bad", backoffLimit=3)
        story = await place.ends("bad", 100)
    assert story.conditions == failed(LIMIT)
    times = list(created(await place.pods()))
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert [round(gap / 10) for gap in gaps] == [1, 2, 4]


@played
async def test_a_pod_that_succeeds_after_one_that_failed_completes_the_job(place: Place) -> None:
    """B05."""
    async with place.kubelets("attempt=1:fail=1"):
        await place.job("twice", backoffLimit=3)
        story = await place.ends("twice", 40)
    assert story.conditions == [MET, COMPLETE]
    assert (story.last.succeeded, story.last.failed) == (1, 1)


@played
async def test_an_evicted_pod_is_ignored_and_replaced(place: Place) -> None:
    """JOB-1, JOB-5."""
    async with place.kubelets("attempt=1:evict"):
        await place.job("disturbed", backoffLimit=0, podFailurePolicy=IGNORE_DISRUPTION, podReplacementPolicy="Failed")
        story = await place.ends("disturbed", 40)
        first, second = await place.pods()
    assert story.conditions == [MET, COMPLETE]
    assert (story.last.succeeded, story.last.failed) == (1, 0)
    assert disruption_target(first) == "TerminationByKubelet"
    assert disruption_target(second) is None


@played
async def test_an_exit_code_can_fail_the_whole_job(place: Place) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "work", "operator": "In", "values": [42]}}
    async with place.kubelets(":fail=42"):
        await place.job("fatal", backoffLimit=5, podFailurePolicy={"rules": [rule]})
        story = await place.ends("fatal")
        (pod,) = await place.pods()
    assert story.conditions == failed("PodFailurePolicy")
    name = f"{place.namespace}/{pod['metadata']['name']}"
    expected = f"Container work for pod {name} failed with exit code 42 matching FailJob rule at index 0"
    assert story.last.conditions[-1].message == expected


@played
async def test_a_pod_that_is_being_deleted_is_not_replaced_before_it_is_over(place: Place) -> None:
    """B128."""
    async with place.kubelets("attempt=1:hang", timing=SLOW_END):
        await place.job("careful", backoffLimit=1, podReplacementPolicy="Failed")
        pod = await place.starts("careful")
        await place.client.delete(POD, pod["metadata"]["name"], namespace=place.namespace)
        story = await place.ends("careful", 40)
    assert story.ever(lambda status: status.terminating == 1 and status.active == 0)
    assert not story.ever(lambda status: bool(status.terminating) and status.active > 0)
    assert (story.last.succeeded, story.last.failed) == (1, 1)


@played
async def test_by_default_a_pod_that_is_being_deleted_counts_as_failed_at_once(place: Place) -> None:
    async with place.kubelets("attempt=1:hang", timing=Timing(look_seconds=0.3, terminate_seconds=4.0)):
        await place.job("hasty", backoffLimit=0)
        pod = await place.starts("hasty")
        await place.client.delete(POD, pod["metadata"]["name"], namespace=place.namespace)
        story = await place.ends("hasty", 40)
    assert story.ever(lambda status: status.failed == 1 and status.terminating == 1)
    assert story.conditions == failed(LIMIT)


@played
async def test_restarts_in_place_are_the_attempts_of_on_failure(place: Place) -> None:
    """B137."""
    async with place.kubelets(":fail=1", timing=Timing(step_seconds=0.05, look_seconds=0.3, back_off_seconds=1.0)):
        await place.job("again", restart="OnFailure", backoffLimit=2)
        story = await place.ends("again", 40)
    assert story.conditions == failed(LIMIT)
    assert await place.pods("job-name=again") == []  # the pod was deleted: it had not ended by itself
    assert story.last.failed == 1


@played
async def test_a_job_past_its_deadline_fails_when_its_pod_is_over(place: Place) -> None:
    """JOB-6: FailureTarget is the verdict, Failed comes when nothing runs any more."""
    async with place.kubelets(":hang", timing=SLOW_END):
        await place.job("late", activeDeadlineSeconds=3)
        story = await place.ends("late", 40)
    assert story.conditions == failed("DeadlineExceeded")
    interim = next(status for status in story.statuses if status.conditions)
    assert [one.type for one in interim.conditions] == ["FailureTarget"]
    assert interim.terminating == 1
    assert story.last.terminating == 0
    assert story.last.failed == 1


def finally_failed(status: JobStatus) -> int:
    """Pods that count as failed, and those that will as soon as their finalizer is gone."""
    uncounted = status.uncounted_terminated_pods
    return status.failed + (len(uncounted.failed) if uncounted is not None else 0)


@played
async def test_between_the_verdict_and_the_end_each_pod_is_counted_once(place: Place) -> None:
    """LIF-11: who reads the counts at FailureTarget reads what Failed will say; none is counted twice or forgotten."""
    async with place.kubelets(":fail=1"):
        await place.job("bad", backoffLimit=0)
        story = await place.ends("bad")
        (pod,) = await place.pods()
    counts = [finally_failed(status) for status in story.statuses]
    assert counts == sorted(counts)
    assert counts[-1] == 1
    verdicts = [status for status in story.statuses if [one.type for one in status.conditions] == ["FailureTarget"]]
    assert verdicts
    assert {finally_failed(status) for status in verdicts} == {1}
    assert {status.active for status in verdicts} == {0}
    assert (story.last.failed, finally_failed(story.last)) == (1, 1)
    assert "finalizers" not in pod["metadata"]


@played
async def test_pods_that_are_stopped_with_their_job_are_counted_before_it_has_failed(place: Place) -> None:
    """LIF-11: with several pods at once, of which one fails and the others are ended by the verdict."""
    async with place.kubelets("attempt=1:fail=1", ":hang", timing=SLOW_END):
        await place.job("several", backoffLimit=0, parallelism=3, completions=3)
        story = await place.ends("several", 40)
        pods = await place.pods()
    assert story.conditions == failed(LIMIT)
    counts = [finally_failed(status) for status in story.statuses]
    assert counts == sorted(counts)
    assert (story.last.failed, story.last.active, story.last.terminating) == (3, 0, 0)
    uncounted = story.last.uncounted_terminated_pods
    assert uncounted is None or not uncounted.failed
    assert [pod["metadata"].get("finalizers") for pod in pods] == [None] * len(pods)


@played
async def test_a_pods_own_deadline_fails_the_pod_and_the_job_tries_again(place: Place) -> None:
    """The template's activeDeadlineSeconds is the kubelet's; the Job counts a failed pod."""
    async with place.kubelets("attempt=1:hang"):
        await place.job("slow", backoffLimit=1, pod={"activeDeadlineSeconds": 2})
        story = await place.ends("slow", 40)
        first = (await place.pods())[0]
    assert story.conditions == [MET, COMPLETE]
    assert (story.last.succeeded, story.last.failed) == (1, 1)
    assert (first["status"]["phase"], first["status"]["reason"]) == ("Failed", "DeadlineExceeded")


@played
async def test_a_rule_that_counts_spends_an_attempt(place: Place) -> None:
    """The first rule that matches decides, whatever later ones say."""
    rules = [
        {"action": "Count", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
    ]
    async with place.kubelets(":fail=7"):
        await place.job("counted", backoffLimit=0, podFailurePolicy={"rules": rules})
        story = await place.ends("counted")
    assert story.conditions == failed(LIMIT)
    assert story.last.failed == 1


@played
async def test_a_suspended_job_has_no_pod_and_no_start(place: Place) -> None:
    """JOB-16."""
    async with place.kubelets():
        await place.job("later", suspend=True)
        await place.until(lambda: "later" in place.stories and place.stories["later"].last.conditions)
        await asyncio.sleep(2)
        assert await place.pods() == []
        assert place.stories["later"].last.start_time is None
        await resume(place, "later")
        story = await place.ends("later")
    assert story.conditions == [
        ("Suspended", "True", "JobSuspended"),
        ("Suspended", "False", "JobResumed"),
        MET,
        COMPLETE,
    ]
    assert story.last.start_time is not None


@played
async def test_suspending_a_running_job_deletes_its_pod_and_spends_no_attempt(place: Place) -> None:
    """JOB-16: with backoffLimit 0, too."""
    async with place.kubelets("attempt=1:hang"):
        await place.job("paused", backoffLimit=0, podFailurePolicy=IGNORE_DISRUPTION)
        await place.starts("paused")
        await suspend(place, "paused")
        await place.until(lambda: place.stories["paused"].last.conditions)
        assert place.stories["paused"].last.start_time is None

        async def no_pods() -> bool:
            return await place.pods() == []

        await place.until(no_pods)
        await resume(place, "paused")
        story = await place.ends("paused")
    assert story.conditions == [
        ("Suspended", "True", "JobSuspended"),
        ("Suspended", "False", "JobResumed"),
        MET,
        COMPLETE,
    ]
    assert (story.last.succeeded, story.last.failed) == (1, 0)


@played
async def test_a_finished_job_goes_when_its_ttl_is_over(place: Place) -> None:
    async with place.kubelets():
        await place.job("brief", ttlSecondsAfterFinished=3)
        await place.ends("brief")
        assert await place.find(JOB, "brief") is not None
        await place.gone(JOB, "brief")
        assert await place.pods() == []


async def suspend(place: Place, name: str, *, to: bool = True) -> None:
    await place.client.patch(JOB, name, {"spec": {"suspend": to}}, PatchType.MERGE, namespace=place.namespace)


async def resume(place: Place, name: str) -> None:
    await suspend(place, name, to=False)


assert FAST.terminate_seconds < 1, "tests that want a slow end say so"
