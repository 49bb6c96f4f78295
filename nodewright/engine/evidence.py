"""What a stage's Job and its pods prove (JOB-3 to JOB-7, LIF-11).

A package has failed only when it did something wrong itself: disruption, a kubelet's refusal or a lost container
prove nothing. Relies on the
views of Jobs and pods alone; `facts` applies the result to node state.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from nodewright.api import keys
from nodewright.model.objects import Job, Pod, owner_uid

_UNPROVEN_REASONS = frozenset({"ContainerStatusUnknown", "Unknown"})


class Verdict(Enum):
    """How a Job stands."""

    RUNNING = auto()
    COMPLETE = auto()
    FAILED = auto()  # for good, and the package's own failure; FailureTarget is enough (JOB-6)
    UNPROVEN = auto()  # failed for good, but nothing proves that the package is at fault


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a Job with its pods says.

    `failing` is genuine failure of an attempt while the Job still retries; `attempt_runs` that a step container of
    the newest attempt runs or ran
    without failing; `restarts` the count of LIF-11; `no_pods` that no pod of the Job is left; `surplus` the failed
    pods that are not kept (JOB-7).
    """

    verdict: Verdict
    failing: bool
    attempt_runs: bool
    restarts: int
    no_pods: bool
    surplus: tuple[Pod, ...] = ()


def judge(job: Job, pods: Iterable[Pod]) -> Evidence:
    """Weigh a Job and the pods it owns. `pods` may hold others' pods, which say nothing."""
    own = sorted((p for p in pods if owner_uid(p.metadata) == job.metadata.uid), key=_age)
    genuine = [pod for pod in own if is_genuine_failure(pod)]
    failed = [pod for pod in own if pod.status.phase == "Failed"]
    newest = own[-1] if own else None
    runs = (
        newest is not None and newest not in genuine and newest.metadata.deletion_timestamp is None and _has_run(newest)
    )
    return Evidence(
        verdict=_verdict(job, proven=bool(genuine)),
        failing=bool(genuine),
        attempt_runs=runs,
        restarts=max(0, job.status.failed - sum(1 for pod in failed if pod not in genuine)),
        no_pods=not own,
        surplus=() if job.finished else tuple(genuine[1:-1]),
    )


def _verdict(job: Job, *, proven: bool) -> Verdict:
    if job.condition("Complete") is not None:
        return Verdict.COMPLETE
    end = job.condition("Failed") or job.condition("FailureTarget")
    if end is None:
        return Verdict.RUNNING
    if proven or end.reason == "DeadlineExceeded" or keys.RESTART_LIMIT_EXCEEDED in job.metadata.annotations:
        return Verdict.FAILED
    return Verdict.UNPROVEN


def is_genuine_failure(pod: Pod) -> bool:
    """Whether the pod proves a failure of the package (JOB-5)."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    if any(c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions):
        return False
    if pod.status.phase == "Failed" and pod.status.reason == "DeadlineExceeded":
        return True
    return any(
        status.state.terminated is not None
        and status.state.terminated.exit_code != 0
        and status.state.terminated.reason not in _UNPROVEN_REASONS
        for status in pod.status.init_container_statuses
    )


def _has_run(pod: Pod) -> bool:
    """A step container of the attempt runs, or ran and ended well."""
    return any(
        s.state.running is not None or s.state.terminated is not None for s in pod.status.init_container_statuses
    )


def _age(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.creation_timestamp or "", pod.metadata.name)


_WAITING_FOR_IMAGE = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName"})


@dataclass(frozen=True, slots=True)
class Waiting:
    """A container that waits for something a person may have to mend (JOB-14, JOB-15a)."""

    pod: str
    image_pull: bool
    image: str
    reason: str
    message: str


def waiting(pod: Pod) -> Waiting | None:
    """The first container of the pod that waits for its image or its configuration."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        cause = status.state.waiting
        if cause is None:
            continue
        if cause.reason in _WAITING_FOR_IMAGE or cause.reason == "CreateContainerConfigError":
            return Waiting(
                pod.metadata.name, cause.reason in _WAITING_FOR_IMAGE, status.image, cause.reason, cause.message
            )
    return None
