"""What a person should hear of while a stage waits (JOB-1, JOB-14, JOB-15, JOB-15a): each becomes one Warning event
and a reason for `explain`.

Free of time: a trouble carries the moment from which it is one.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from nodewright.api import keys
from nodewright.engine.evidence import Verdict, waiting
from nodewright.engine.jobviews import JobView
from nodewright.engine.stages import seconds
from nodewright.model.objects import Job, Node, Pod, owner_uid
from nodewright.model.reason import Code

POD_GRACE_SECONDS = 30.0
OVERDUE_GRACE_SECONDS = 30.0
DELETION_GRACE_SECONDS = 60.0
RESUME_GRACE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """A stage that waits for something. `key` tells repetitions apart, `due` is when it is worth saying (seconds since the epoch)."""

    code: Code
    key: str
    node: str
    text: str
    due: float
    silent: bool = False
    action: str = "Reconcile"
    """What the event says was being done: the stage (OBS-6a)."""


def find_troubles(node: Node, views: Iterable[JobView], pods: tuple[Pod, ...]) -> tuple[Trouble, ...]:
    """All troubles of a node's Jobs, due now or later."""
    found: list[Trouble] = []
    for view in views:
        if view.terminating:
            found.append(not_deleted(view.job, node.name))
        elif not view.job.finished and view.evidence.verdict is Verdict.RUNNING and not view.job.spec.suspend:
            own = [
                p
                for p in pods
                if owner_uid(p.metadata) == view.job.metadata.uid and p.status.phase in ("", "Pending", "Running")
            ]
            found += _of_pods(node, view, own) if own else _without_pods(node, view)
    return tuple(found)


def not_deleted(job: Job, node: str) -> Trouble:
    """A Job that is being deleted: a trouble if it takes longer than a minute (JOB-15a)."""
    meta = job.metadata
    due = seconds(meta.deletion_timestamp) + DELETION_GRACE_SECONDS
    text = f"old Job {meta.name} on {node} does not go away: its pods still end, or hold a finalizer"
    return Trouble(
        Code.JOB_NOT_DELETED, meta.uid, node, text, due, action=meta.labels.get(keys.LABEL_STAGE) or "Reconcile"
    )


def _without_pods(node: Node, view: JobView) -> list[Trouble]:
    if view.job.status.active or not view.evidence.no_pods:
        return []
    resumed = next((c for c in view.job.status.conditions if c.type == "Suspended" and c.status == "False"), None)
    began = seconds(resumed.last_transition_time) if resumed else seconds(view.job.metadata.creation_timestamp)
    cause = "a quota, pod security or an admission webhook may refuse it (kubectl describe job shows which)"
    text = f"Job {view.name} has no pod for {node.name}: {cause}"
    return [
        Trouble(
            Code.POD_NOT_CREATED,
            view.job.metadata.uid,
            node.name,
            text,
            began + POD_GRACE_SECONDS,
            action=view.claim.stage.value,
        )
    ]


def _of_pods(node: Node, view: JobView, pods: list[Pod]) -> list[Trouble]:
    found: list[Trouble] = []
    for pod in pods:
        cause = waiting(pod)
        if cause is not None and cause.image_pull:
            text = f"package {view.claim.package} on {node.name} cannot pull {cause.image}: {cause.reason} {cause.message}".rstrip()
            key = f"{view.claim.package}|{cause.image}"
            found.append(Trouble(Code.IMAGE_PULL, key, node.name, text, 0.0, action=view.claim.stage.value))
        elif cause is not None:
            text = f"pod {pod.metadata.name} on {node.name} waits: {cause.reason} {cause.message}".rstrip()
            found.append(
                Trouble(Code.POD_WAITING, pod.metadata.uid, node.name, text, 0.0, action=view.claim.stage.value)
            )
        if pod.status.start_time is None:
            due = seconds(pod.metadata.creation_timestamp) + POD_GRACE_SECONDS
            text = f"the kubelet of {node.name} has not acknowledged pod {pod.metadata.name}"
            found.append(Trouble(Code.NEVER_ACKNOWLEDGED, pod.metadata.uid, node.name, text, due, silent=True))
        elif pod.status.phase == "Pending" and not pod.status.init_container_statuses:
            due = seconds(pod.status.start_time) + POD_GRACE_SECONDS
            text = f"pod {pod.metadata.name} on {node.name} does not start its containers: a ConfigMap, Secret or volume may be missing"
            found.append(
                Trouble(Code.POD_WAITING, pod.metadata.uid, node.name, text, due, action=view.claim.stage.value)
            )
        if pod.status.start_time is not None and pod.spec.active_deadline_seconds is not None:
            due = seconds(pod.status.start_time) + pod.spec.active_deadline_seconds + OVERDUE_GRACE_SECONDS
            text = f"pod {pod.metadata.name} on {node.name} is past its stage timeout and the kubelet has not ended it"
            found.append(Trouble(Code.OVERDUE, pod.metadata.uid, node.name, text, due, action=view.claim.stage.value))
    return found


def needs_fresh_job(node: Node, view: JobView, now: float) -> tuple[bool, float | None]:
    """Whether a resumed Job got no pod for two minutes on a node that is ready (JOB-15a), else when to look again."""
    resumed = next((c for c in view.job.status.conditions if c.type == "Suspended" and c.status == "False"), None)
    if (
        resumed is None
        or view.job.spec.suspend
        or view.job.finished
        or not view.evidence.no_pods
        or view.job.status.active
    ):
        return False, None
    ready = next((c.status for c in node.status.conditions if c.type == "Ready"), "Unknown")
    due = seconds(resumed.last_transition_time) + RESUME_GRACE_SECONDS
    if now < due:
        return False, due
    return ready == "True", None
