"""What a Job needs next, from its spec, its status, its pods and the time. Pure; `jobs` carries it out.

One look at a Job goes through these steps, with requests in between: `survey` its pods; is there a `verdict`; which pods `staffing` makes
or deletes; `count` what ended, which is written before finalizers are removed, so that no pod is counted twice or not at all; then
`settle` and `conclude`. Jobs with indexes are not done.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from nodewright.simulator.controllers.failure_policy import meaning_of
from nodewright.simulator.controllers.times import seconds_since, stamp
from nodewright.simulator.controllers.views import Condition, ContainerStatus, Job, JobStatus, Pod, Uncounted, find


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A Job's pods, sorted out. `succeeded` and `failed` are counts that include what the status does not yet say."""

    active: tuple[Pod, ...]
    ready: int
    terminating: int
    newly_succeeded: tuple[Pod, ...]
    newly_failed: tuple[Pod, ...]
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Staffing:
    """Delete these pods (uncounted), or make so many, or look again after `wait` seconds."""

    delete: tuple[Pod, ...] = ()
    create: int = 0
    wait: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The status to write now, the pods whose finalizers go then, and the terminal condition to come once they have."""

    status: JobStatus
    release: tuple[Pod, ...]
    end: Condition | None


def survey(job: Job, pods: Sequence[Pod]) -> Survey:
    """Sort the pods out. One without the tracking finalizer has been counted."""
    uncounted = job.status.uncounted_terminated_pods or Uncounted()
    tracked = [pod for pod in pods if pod.tracked]
    known_good, known_bad = frozenset(uncounted.succeeded), frozenset(uncounted.failed)
    good = tuple(pod for pod in tracked if pod.status.phase == "Succeeded" and pod.metadata.uid not in known_good)
    bad = tuple(pod for pod in tracked if has_failed(job, pod) and pod.metadata.uid not in known_bad)
    counting = sum(meaning_of(pod, job.spec.pod_failure_policy).counts for pod in bad)
    active = tuple(pod for pod in pods if pod.active)
    return Survey(
        active=active,
        ready=sum(pod.ready for pod in active),
        terminating=sum(pod.terminating for pod in pods),
        newly_succeeded=good,
        newly_failed=bad,
        succeeded=job.status.succeeded + len(good) + len(known_good),
        failed=job.status.failed + counting + len(known_bad),
    )


def has_failed(job: Job, pod: Pod) -> bool:
    """Whether the pod is a failed one to its Job; without `podReplacementPolicy: Failed` one that is being deleted is (B128)."""
    if pod.status.phase == "Failed" or job.replaces_only_failed:
        return pod.status.phase == "Failed"
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def verdict(job: Job, pods: Sequence[Pod], seen: Survey, now: datetime) -> Condition | None:
    """Why the Job is over or about to be: `SuccessCriteriaMet`, `FailureTarget`, or `Failed` where the target was written before."""
    met = _true(job, "SuccessCriteriaMet")
    if met is not None:
        return met
    target = _true(job, "FailureTarget")
    if target is not None:
        return condition("Failed", target.reason, target.message, now)
    for pod in pods:
        message = meaning_of(pod, job.spec.pod_failure_policy).fails_job if has_failed(job, pod) else None
        if message is not None:
            return condition("FailureTarget", "PodFailurePolicy", message, now)
    if seen.failed > job.spec.backoff_limit or _restarted_too_often(job, pods):
        return condition("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit", now)
    left = seconds_to_deadline(job, now)
    if left is not None and left <= 0:
        return condition("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline", now)
    return None


def seconds_to_deadline(job: Job, now: datetime) -> float | None:
    """Until `activeDeadlineSeconds` are over; None without one, before the start, and while suspended."""
    deadline = job.spec.active_deadline_seconds
    if deadline is None or job.status.start_time is None or job.spec.suspend:
        return None
    return deadline - seconds_since(job.status.start_time, now)


def staffing(job: Job, seen: Survey, wait: float) -> Staffing:
    """Which pods to delete or make. `wait` is what is left of the back-off. Never both in one look."""
    active = len(seen.active)
    if job.spec.suspend:
        return Staffing(delete=seen.active)
    if job.spec.completions is None:
        wanted = active if seen.succeeded else job.spec.parallelism
    else:
        wanted = max(0, min(job.spec.parallelism, job.spec.completions - seen.succeeded))
    if active > wanted:
        dispensable = sorted(seen.active, key=_importance)
        return Staffing(delete=tuple(dispensable[: active - wanted]))
    missing = wanted - active - (seen.terminating if job.replaces_only_failed else 0)
    if missing <= 0:
        return Staffing()
    return Staffing(wait=max(wait, 1.0)) if wait > 0 else Staffing(create=missing)


def is_complete(job: Job, seen: Survey, active: int) -> bool:
    """Whether enough pods succeeded and none is left to do anything."""
    if active:
        return False
    return seen.succeeded > 0 if job.spec.completions is None else seen.succeeded >= job.spec.completions


def success(now: datetime) -> Condition:
    """The condition that says that enough pods succeeded."""
    return condition("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods", now)


def with_suspension(status: JobStatus, *, suspended: bool, now: datetime) -> JobStatus:
    """Say whether the Job is suspended; the clock of its deadline stops, and starts afresh when it is resumed (JOB-16, B140)."""
    old = find(status.conditions, "Suspended")
    if suspended:
        if old is not None and old.status == "True":
            return status
        new = condition("Suspended", "JobSuspended", "Job suspended", now)
        return replace(status, conditions=_with(status.conditions, new), start_time=None)
    if old is None or old.status == "False":
        return status
    new = replace(condition("Suspended", "JobResumed", "Job resumed", now), status="False")
    return replace(status, conditions=_with(status.conditions, new), start_time=stamp(now))


def count(job: Job, pods: Sequence[Pod], status: JobStatus, end: Condition | None, now: datetime) -> Counted:
    """Note the UIDs of pods that ended, and the interim condition of a Job that is about to end.

    A Job that fails counts its unfinished pods as failed; one that is deleted or suspended lets them go uncounted.
    """
    tracked = [pod for pod in pods if pod.tracked]
    status = settle(status, {pod.metadata.uid for pod in tracked})
    uncounted = status.uncounted_terminated_pods or Uncounted()
    good, bad = list(uncounted.succeeded), list(uncounted.failed)
    fails = end is not None and end.type in ("Failed", "FailureTarget")
    release = []
    for pod in tracked:
        uid, failed = pod.metadata.uid, has_failed(job, pod)
        if not (job.metadata.deletion_timestamp or end is not None or pod.status.phase == "Succeeded" or failed):
            continue
        release.append(pod)
        if pod.status.phase == "Succeeded" and uid not in bad:
            good += [] if uid in good else [uid]
        elif (failed or fails) and uid not in bad and meaning_of(pod, job.spec.pod_failure_policy).counts:
            bad.append(uid)
    status = replace(status, uncounted_terminated_pods=Uncounted(tuple(good), tuple(bad)))
    if end is not None and end.type in ("FailureTarget", "SuccessCriteriaMet"):
        if find(status.conditions, end.type) is None:
            status = replace(status, conditions=(*status.conditions, end))
        final = "Failed" if end.type == "FailureTarget" else "Complete"
        end = condition(final, end.reason, end.message, now)
    return Counted(status=status, release=tuple(release), end=end)


def settle(status: JobStatus, held: Collection[str]) -> JobStatus:
    """Move UIDs of pods that hold their finalizer no more into the counters."""
    uncounted = status.uncounted_terminated_pods or Uncounted()
    good = tuple(uid for uid in uncounted.succeeded if uid in held)
    bad = tuple(uid for uid in uncounted.failed if uid in held)
    return replace(
        status,
        succeeded=status.succeeded + len(uncounted.succeeded) - len(good),
        failed=status.failed + len(uncounted.failed) - len(bad),
        uncounted_terminated_pods=Uncounted(good, bad),
    )


def conclude(status: JobStatus, end: Condition | None) -> JobStatus:
    """Write the terminal condition, once every pod is counted and none is terminating any more."""
    if end is None or status.terminating or status.uncounted_terminated_pods != Uncounted():
        return status
    status = replace(status, conditions=_with(status.conditions, end))
    return replace(status, completion_time=end.last_transition_time) if end.type == "Complete" else status


def condition(type_: str, reason: str, message: str, now: datetime) -> Condition:
    """A condition that has just become true."""
    time = stamp(now)
    return Condition(
        type=type_, status="True", reason=reason, message=message, last_transition_time=time, last_probe_time=time
    )


def _true(job: Job, type_: str) -> Condition | None:
    found = find(job.status.conditions, type_)
    return found if found is not None and found.status == "True" else None


def _with(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    if find(conditions, new.type) is None:
        return (*conditions, new)
    return tuple(new if one.type == new.type else one for one in conditions)


def _restarted_too_often(job: Job, pods: Sequence[Pod]) -> bool:
    """For `OnFailure` the restarts of live pods' containers are the attempts (B137)."""
    if job.spec.restart_policy != "OnFailure":
        return False
    live = [pod.status for pod in pods if pod.status.phase in ("Pending", "Running")]
    statuses: list[ContainerStatus] = []
    for one in live:
        statuses += [*one.init_container_statuses, *one.container_statuses]
    restarts = sum(one.restart_count for one in statuses)
    return restarts > 0 if job.spec.backoff_limit == 0 else restarts >= job.spec.backoff_limit


def _importance(pod: Pod) -> tuple[bool, bool, bool, str]:
    return bool(pod.spec.node_name), pod.status.phase == "Running", pod.ready, pod.metadata.name
