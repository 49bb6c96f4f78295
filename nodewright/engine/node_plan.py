"""The writes of one node in one pass, and the node's Status (ROL-20): facts and a decision in, a `NodePlan` out.

Order of a start (LIF-12): what the pod mounts, then the entry with its run, then the Job; all that changes on the
node goes into one patch with the pick
and the Status (CON-11). Pure; `plan` calls `plan_node` for each selected node.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from nodewright.api import keys
from nodewright.engine.changes import restarted
from nodewright.engine.cordon import releases
from nodewright.engine.evidence import Verdict
from nodewright.engine.facts import STAGE_REASONS, NodeFacts, Outcome, backs_off, is_stale
from nodewright.engine.jobviews import NodeJobs
from nodewright.engine.record import Ended
from nodewright.engine.rollout import Decision, Role
from nodewright.engine.scope import Scope
from nodewright.engine.stages import PackageFacts, Progress, retry_at
from nodewright.engine.troubles import needs_fresh_job
from nodewright.model import node_state, pick
from nodewright.model.node_state import Entry, NodeState, Stage, State
from nodewright.model.objects import Node
from nodewright.model.plan import (
    ConfigMapWrite,
    Event,
    EventType,
    JobCreate,
    JobDelete,
    JobMark,
    JobSuspend,
    NodeCondition,
    NodePatch,
    NodePlan,
    PodDelete,
)
from nodewright.model.reason import Code, Reason
from nodewright.model.snapshot import CR, Answer, PlanSettings, Snapshot
from nodewright.workloads import configmaps
from nodewright.workloads.jobs import stage_job


class Status(StrEnum):
    """A node's or a CR's Status (ROL-20, ROL-21)."""

    COMPLETE = "complete"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    ERRORING = "erroring"
    WAITING = "waiting"
    PAUSED = "paused"
    DISABLED = "disabled"
    UNKNOWN = "unknown"


class Mode(StrEnum):
    """What people ordered for the whole CR (ROL-18)."""

    RUN = "run"
    PAUSED = "paused"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """What a pass makes of a node: the writes, the published entries and Status, why it does not move, and when to look again."""

    plan: NodePlan
    entries: NodeState
    status: Status
    reason: Reason | None
    wake_at: float | None


@dataclass(frozen=True, slots=True)
class Context:
    """What the plans of all nodes of a pass share."""

    scope: Scope
    cr: CR
    snapshot: Snapshot
    mode: Mode
    now: float
    suspend: bool = False  # unfinished Jobs are to be suspended (JOB-16)


@dataclass(frozen=True, slots=True)
class _Start:
    entry: Entry
    create: JobCreate | None


def plan_node(context: Context, facts: NodeFacts, decision: Decision) -> NodeOutcome:
    """The node's part of the plan."""
    wakes: list[float] = [t.due for t in facts.troubles if t.due > context.now]
    starts, refusal = _starts(context, facts, decision, wakes)
    entries = dict(facts.entries)
    for start in starts:
        entries[start.entry.key] = start.entry
    status = node_status(facts, decision, context.mode)
    deletes = _job_deletes(context, facts, wakes)
    own_pick = decision.pick or (facts.pick if facts.pick is not None and (facts.pick.over or facts.involved) else None)
    creates = tuple(start.create for start in starts if start.create is not None)
    plan = NodePlan(
        node=facts.node,
        suspends=_suspends(context, facts, {d.job.metadata.uid for d in deletes}),
        metadata=_metadata(context, facts.node) if creates or lost_metadata(context, facts) else None,
        patch=_patch(context.scope, facts, decision, entries, status),
        creates=creates,
        marks=() if facts.malformed is not None else marks(context.scope.settings, facts.jobs),
        conditions=_conditions(context.scope, facts, entries),
        job_deletes=deletes,
        pod_deletes=tuple(PodDelete(pod) for view in facts.jobs.own for pod in view.evidence.surplus),
        events=stage_events(facts.name, facts.ended),
        pick=own_pick,
    )
    shut = _shut(facts) if status in (Status.BLOCKED, Status.UNKNOWN) else None
    reason = refusal or shut or decision.reason or _reason(context, facts, status)
    shown = _landed(context.scope, facts) if status is Status.COMPLETE and plan.patch is not None else status
    return NodeOutcome(plan, entries, shown, reason, min(wakes, default=None))


def plan_later(context: Context, facts: NodeFacts, decision: Decision) -> NodeOutcome:
    """The node's part when its writes are for a later pass: nothing is written, and it reads as it will."""
    status = node_status(facts, decision, context.mode)
    if status is Status.COMPLETE:
        status = _landed(context.scope, facts)
    kept = facts.pick if facts.pick is not None and (facts.pick.over or facts.involved) else None
    return NodeOutcome(NodePlan(facts.node, pick=kept), facts.entries, status, decision.reason, None)


def _landed(scope: Scope, facts: NodeFacts) -> Status:
    """The Status of a node that is complete by its Jobs while the node does not say so yet: nothing reads complete that an
    operator killed now would have to find out again (B10)."""
    written = facts.node.metadata.annotations.get(scope.keys.status, "")
    return Status(written) if written in _STATUSES else Status.IN_PROGRESS


_STATUSES = frozenset(status.value for status in Status)


def node_status(facts: NodeFacts, decision: Decision, mode: Mode) -> Status:
    """ROL-20, and ROL-4: what blocks a node shows even where ordering would read waiting."""
    if facts.complete:
        return Status.COMPLETE
    if mode is not Mode.RUN:
        return Status.PAUSED if mode is Mode.PAUSED else Status.DISABLED
    if facts.malformed is not None:
        return Status.UNKNOWN
    if facts.ignored or facts.untolerated:
        return Status.BLOCKED
    if facts.outcome is Outcome.ERRORING:
        return Status.ERRORING
    if facts.outcome is Outcome.BLOCKED:
        return Status.BLOCKED
    if decision.role in (Role.WORKS, Role.BUSY):
        return Status.IN_PROGRESS
    held_by_order = decision.reason is not None and decision.reason.code is Code.PREDECESSOR
    return Status.IN_PROGRESS if facts.unfinished and not held_by_order else Status.WAITING


def _starts(
    context: Context, facts: NodeFacts, decision: Decision, wakes: list[float]
) -> tuple[list[_Start], Reason | None]:
    """The stages that start. One whose Job was refused lately gets its entry all the same: it is due, and a pick
    never comes without one (ROL-13)."""
    if decision.role is not Role.WORKS or context.mode is not Mode.RUN:
        return [], None
    if facts.ignored or facts.untolerated or facts.malformed is not None:
        return [], None
    starts: list[_Start] = []
    refusal: Reason | None = None
    order = decision.pick or facts.pick
    for one in facts.startable:
        name = context.scope.job_name(context.scope.spec.packages[one.name], one.name, str(one.stage), facts.name)
        start = _start(context, facts.node, one, name, order.order if order is not None else 0)
        answer = context.snapshot.refused.get(f"Job/{name}")
        if answer is not None and context.now < retry_after(answer):
            wakes.append(retry_after(answer))
            refusal = Reason(
                Code.JOB_REFUSED, f"Job {name} was refused: {answer.text}", "it is tried again by itself", answer.at
            )
            start = _Start(start.entry, None)
        starts.append(start)
    return starts, refusal


def retry_after(answer: Answer) -> float:
    """When a refused write is tried again: 10 s, doubling to 5 min."""
    return answer.at + min(10.0 * 2.0 ** min(answer.count - 1, 10), 300.0)


def _start(context: Context, node: Node, one: PackageFacts, name: str, order: int) -> _Start:
    scope, settings = context.scope, context.scope.settings
    package = scope.spec.packages[one.name]
    if one.stage is None or one.entry is None:
        raise ValueError(f"package {one.name} is due without a stage")
    run = one.run or _token(scope.uid, node.metadata.uid, one.entry.key, one.stage, context.now)
    entry = restarted(one.entry, one.stage, package, run=run, generation=scope.generation)
    body = stage_job(
        cr=context.cr,
        package_name=one.name,
        package=package,
        entry=entry,
        node=node,
        order=order,
        settings=settings,
        unproven=context.snapshot.unproven.get(name, 0),
        traceparent=settings.traceparent(),
    )
    return _Start(entry, JobCreate(name, body, one.name, one.stage.value, run))


def _token(cr: str, node: str, key: str, stage: Stage, now: float) -> str:
    """A run's token (LIF-12a): the same start gives the same token, another start another."""
    return hashlib.sha256(f"{cr}/{node}/{key}/{stage}/{now!r}".encode()).hexdigest()[:12]


def lost_metadata(context: Context, facts: NodeFacts) -> bool:
    """Whether a Job is under way and the ConfigMap its pods mount is gone: they would wait for it for ever (JOB-15a)."""
    if not facts.unfinished:
        return False
    name = keys.node_metadata_configmap_name(cr=context.cr.name, node=facts.node.name)
    return context.snapshot.configmap(name) is None


def _metadata(context: Context, node: Node) -> ConfigMapWrite | None:
    """The node's ConfigMap, if it is not as its pods shall find it (CON-16)."""
    name = keys.node_metadata_configmap_name(cr=context.cr.name, node=node.name)
    current = context.snapshot.configmap(name)
    body = configmaps.node_metadata(context.cr, node, context.scope.settings)
    if current is not None and not configmaps.differs(current, body):
        return None
    return ConfigMapWrite(name, body, current)


def _patch(scope: Scope, facts: NodeFacts, decision: Decision, entries: NodeState, status: Status) -> NodePatch | None:
    own, node = scope.keys, facts.node.metadata
    annotations: dict[str, str | None] = {}
    labels: dict[str, str | None] = {}
    if facts.malformed is None and entries != facts.before:
        annotations[own.state] = node_state.dump(entries) if entries else None
    if decision.pick is not None:
        if decision.pick != facts.pick:
            annotations[own.pick] = pick.dump(decision.pick)
    elif own.pick in node.annotations and (facts.pick is None or (not facts.pick.over and not facts.involved)):
        annotations[own.pick] = None
    if node.annotations.get(own.status) != status.value:
        annotations[own.status] = status.value
    if node.labels.get(own.status) != status.value:
        labels[own.status] = status.value
    unschedulable = None
    if facts.complete and facts.own_cordon:
        annotations[own.cordon], unschedulable = None, releases(own, facts.node)
    if not annotations and not labels:
        return None
    if node.annotations.get(own.version) != scope.settings.version:
        annotations[own.version] = scope.settings.version
    return NodePatch(annotations, labels, unschedulable)


def marks(settings: PlanSettings, jobs: NodeJobs) -> tuple[JobMark, ...]:
    """The finished Jobs that are not marked yet; what they prove is recorded first (JOB-3)."""
    return tuple(
        JobMark(v.job, settings.ttl_succeeded if v.evidence.verdict is Verdict.COMPLETE else settings.ttl_failed)
        for v in jobs.own
        if v.job.finished and not v.claim.marked and not v.terminating
    )


def _job_deletes(context: Context, facts: NodeFacts, wakes: list[float]) -> tuple[JobDelete, ...]:
    deletes = [
        JobDelete(job, "its node was replaced") for job in facts.jobs.strays if job.metadata.deletion_timestamp is None
    ]
    if facts.malformed is not None:
        return tuple(deletes)
    for view in facts.jobs.own:
        why = is_stale(context.scope, view, facts.entries)
        if why is None and not view.terminating:
            fresh, due = needs_fresh_job(facts.node, view, context.now)
            why = "it was resumed and got no pod" if fresh else None
            if due is not None:
                wakes.append(due)
        if why is None:
            continue
        unproven = 0
        if backs_off(view, facts.entries):
            due = retry_at(view)
            if due is not None and context.now < due:
                wakes.append(due)
                continue
            unproven = view.claim.unproven + 1
        deletes.append(JobDelete(view.job, why, unproven))
    return tuple(deletes)


def _suspends(context: Context, facts: NodeFacts, leaving: set[str]) -> tuple[JobSuspend, ...]:
    wanted = context.suspend
    if context.mode is Mode.DISABLED and not wanted:
        return ()
    return tuple(
        JobSuspend(v.job, wanted)
        for v in facts.jobs.own
        if not v.job.finished
        and not v.terminating
        and v.job.spec.suspend is not wanted
        and v.job.metadata.uid not in leaving
    )


def _conditions(scope: Scope, facts: NodeFacts, entries: NodeState) -> tuple[NodeCondition, ...]:
    """The two node conditions, where they differ from what the node shows (CON-8); state that cannot be read is no recovery."""
    shown = {c.type: (c.status, c.reason) for c in facts.node.status.conditions}
    failing = any(entry.state is State.ERRORING for entry in entries.values())
    wanted: tuple[NodeCondition, ...] = (
        NodeCondition(scope.keys.not_ready, "False", "Complete")
        if facts.complete
        else NodeCondition(scope.keys.not_ready, "True", "Incomplete"),
        NodeCondition(scope.keys.erroring, "True", "Erroring")
        if failing
        else NodeCondition(scope.keys.erroring, "False", "NotErroring"),
    )
    if facts.malformed is not None and scope.keys.erroring in shown:
        wanted = wanted[:1]
    return tuple(c for c in wanted if shown.get(c.type) != (c.status, c.reason))


def stage_events(node: str, ended: Iterable[Ended]) -> tuple[Event, ...]:
    """One event per ended stage on the node, and one on the CR, where the recorder makes a series of them (JOB-17)."""
    events: list[Event] = []
    for end in ended:
        type_ = EventType.NORMAL if end.succeeded else EventType.WARNING
        reason = STAGE_REASONS.get(end.stage, "Apply")
        how = "completed" if end.succeeded else "failed for good"
        note = f"package {end.package} {end.version}: {end.stage} {how} on {node}"
        events.append(Event(type_, reason, end.stage.value, note, node=node))
        events.append(Event(type_, reason, end.stage.value, note))
    return tuple(events)


def _reason(context: Context, facts: NodeFacts, status: Status) -> Reason | None:
    """Why the node does not move, when ordering and batches do not hold it. A stage that runs and waits says for what."""
    if status is Status.COMPLETE:
        return None
    ordered = sorted((p for p in facts.packages if p.reason is not None), key=lambda p: _WEIGHT.get(p.progress, 9))
    reason = _shut(facts) or (ordered[0].reason if ordered else None)
    if reason is None or reason.code is not Code.RUNNING:
        return reason
    trouble = next((t for t in facts.troubles if t.due <= context.now), None)
    return reason if trouble is None else Reason(trouble.code, trouble.text, "mend that, and the stage goes on")


def _shut(facts: NodeFacts) -> Reason | None:
    """What blocks the node itself, whatever its packages wait for (ROL-2 to ROL-4)."""
    if facts.malformed is not None:
        return Reason(
            Code.MALFORMED, f"node state is malformed: {facts.malformed}", "repair or remove the nodeState annotation"
        )
    if facts.ignored:
        return Reason(Code.IGNORED, "the ignore label is set", "remove the label")
    if facts.untolerated:
        names = ", ".join(f"{t.key}:{t.effect}" for t in facts.untolerated)
        return Reason(
            Code.TAINT, f"taint not tolerated: {names}", "remove the taint, or add it to additionalTolerations"
        )
    return None


_WEIGHT: Mapping[Progress, int] = {Progress.FAILED: 0, Progress.RUNNING: 1, Progress.WAITING: 2, Progress.HELD: 3}
