"""What is left where a CR has no business any more: on nodes that left its selection, and of nodes that are gone
(ROL-1, ROL-19, JOB-11, CON-16)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nodewright.api import keys
from nodewright.engine.foreign import is_left
from nodewright.engine.jobviews import view_jobs
from nodewright.engine.leaving import leave
from nodewright.engine.memory import CrMemory, NodeRecord
from nodewright.engine.node_plan import marks, stage_events
from nodewright.engine.published import is_published
from nodewright.engine.record import record as evidence_recorded
from nodewright.engine.scope import Scope
from nodewright.engine.troubles import Trouble, not_deleted
from nodewright.model import node_state
from nodewright.model.node_state import Malformed
from nodewright.model.objects import ConfigMap, Job, owner_uid
from nodewright.model.pick import Pick, parse
from nodewright.model.plan import ConfigMapDelete, JobDelete, NodePatch, NodePlan
from nodewright.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Leavers:
    """What is done on nodes out of the selection, and the Jobs there that are to go away, due now or later (JOB-15a)."""

    plans: list[NodePlan]
    troubles: list[Trouble]


def leaving_picks(memory: CrMemory) -> list[Pick]:
    """The picks that are still on nodes out of the selection: their numbers were given (ROL-14)."""
    return [pick for record in memory.unselected.values() if (pick := _pick(memory.scope, record)) is not None]


def _pick(scope: Scope, record: NodeRecord) -> Pick | None:
    return parse(record.node.metadata.annotations.get(scope.keys.pick)) if record.carries else None


def leavers(memory: CrMemory, snapshot: Snapshot) -> Leavers:
    """Nodes out of the selection that still carry the CR's keys, or a Job of it that is unfinished or not recorded (ROL-1, JOB-3).

    A pick stays until status has its number: it may be all that tells it (ROL-14).
    """
    plans: list[NodePlan] = []
    troubles: list[Trouble] = []
    for record in memory.unselected.values():
        jobs = _own_jobs(snapshot, record)
        plan = (
            leave(memory.scope.keys, record.node, jobs, why="its node left the selection")
            if record.carries or any(not job.finished for job in jobs)
            else None
        )
        troubles += [
            not_deleted(job, record.node.name)
            for job in jobs
            if not job.finished and job.metadata.deletion_timestamp is not None
        ]
        pick = _pick(memory.scope, record)
        if plan is not None and plan.patch is not None and pick and not is_published(snapshot.cr.published, pick):
            plan = None
        if any(_is_news(job) for job in jobs):
            plan = _with_news(memory.scope, record, plan or NodePlan(record.node), snapshot)
        if plan is not None:
            plans.append(plan)
    return Leavers(plans, troubles)


def _is_news(job: Job) -> bool:
    return job.finished and job.metadata.annotations.get(keys.STATE_RECORDED) != "true"


def _with_news(scope: Scope, record: NodeRecord, plan: NodePlan, snapshot: Snapshot) -> NodePlan:
    """The plan, and what the finished Jobs prove: a Job may end just as its node leaves, and node state stays (JOB-3, ROL-1)."""
    node = record.node
    before = node_state.parse(node.metadata.annotations.get(scope.keys.state))
    if isinstance(before, Malformed):
        return plan
    views = view_jobs(scope, node, record.jobs, snapshot.pods_on(scope.name, record.label))
    recorded = evidence_recorded(before, (view for view in views.own if view.job.finished))
    patch = plan.patch
    if recorded.entries != before:
        patch = patch or NodePatch()
        state = {scope.keys.state: node_state.dump(recorded.entries)}
        patch = replace(patch, annotations={**patch.annotations, **state})
    events = stage_events(node.name, recorded.ended)
    return replace(plan, patch=patch, marks=marks(scope.settings, views), events=events)


def homeless_jobs(memory: CrMemory, snapshot: Snapshot) -> tuple[JobDelete, ...]:
    """Jobs of nodes that are gone go whatever their state (JOB-11)."""
    uid, labels, every = snapshot.cr.meta.uid, memory.labels, snapshot.jobs_of(snapshot.cr.name)
    if len(every) == memory.housed_jobs:
        return ()
    return tuple(
        JobDelete(job, "its node is gone")
        for job in every
        if job.metadata.labels.get(keys.LABEL_NODE) not in labels
        and job.metadata.deletion_timestamp is None
        and owner_uid(job.metadata) == uid
    )


def stale_metadata(memory: CrMemory, snapshot: Snapshot) -> tuple[ConfigMapDelete, ...]:
    """Node metadata ConfigMaps whose node is gone or no longer selected and needs them no more (CON-16), and those of an
    earlier CR of that name, which the garbage collector would take sooner or later (CHG-13)."""
    current = snapshot.metadata_of(snapshot.cr.name)
    if not current:
        return ()
    left = tuple(
        ConfigMapDelete(c)
        for c in memory.foreign.objects
        if is_left(c, snapshot.cr) and c.metadata.deletion_timestamp is None
    )
    return (*left, *_unneeded(memory, snapshot, current))


def _unneeded(memory: CrMemory, snapshot: Snapshot, current: Iterable[ConfigMap]) -> tuple[ConfigMapDelete, ...]:
    kept = memory.metadata_names
    uid = snapshot.cr.meta.uid
    stale = [
        c
        for c in current
        if c.metadata.name not in kept and c.metadata.deletion_timestamp is None and owner_uid(c.metadata) == uid
    ]
    if not stale:
        return ()
    needed = {
        r.metadata_name for r in memory.unselected.values() if any(not job.finished for job in _own_jobs(snapshot, r))
    }
    return tuple(ConfigMapDelete(c) for c in stale if c.metadata.name not in needed)


def _own_jobs(snapshot: Snapshot, record: NodeRecord) -> tuple[Job, ...]:
    uid = snapshot.cr.meta.uid
    return tuple(job for job in snapshot.jobs_on(snapshot.cr.name, record.label) if owner_uid(job.metadata) == uid)
