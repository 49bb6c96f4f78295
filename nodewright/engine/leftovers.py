"""What is left where a CR has no business any more: on nodes that left its selection, and of nodes that are gone
(ROL-1, ROL-19, JOB-11, CON-16)."""

from nodewright.api import keys
from nodewright.engine.leaving import leave
from nodewright.engine.memory import CrMemory, NodeRecord
from nodewright.model.objects import Job, owner_uid
from nodewright.model.plan import ConfigMapDelete, JobDelete, NodePlan
from nodewright.model.snapshot import Snapshot


def leavers(memory: CrMemory, snapshot: Snapshot) -> list[NodePlan]:
    """Nodes out of the selection that still carry the CR's keys, or an unfinished Job of it (ROL-1)."""
    plans: list[NodePlan] = []
    for record in memory.unselected.values():
        jobs = _own_jobs(snapshot, record)
        if record.carries or any(not job.finished for job in jobs):
            plan = leave(memory.scope.keys, record.node, jobs, why="its node left the selection")
            if plan is not None:
                plans.append(plan)
    return plans


def homeless_jobs(memory: CrMemory, snapshot: Snapshot) -> tuple[JobDelete, ...]:
    """Jobs of nodes that are gone go whatever their state (JOB-11)."""
    uid, labels = snapshot.cr.meta.uid, memory.labels
    return tuple(
        JobDelete(job, "its node is gone")
        for job in snapshot.jobs_of(snapshot.cr.name)
        if job.metadata.labels.get(keys.LABEL_NODE) not in labels
        and job.metadata.deletion_timestamp is None
        and owner_uid(job.metadata) == uid
    )


def stale_metadata(memory: CrMemory, snapshot: Snapshot) -> tuple[ConfigMapDelete, ...]:
    """Node metadata ConfigMaps whose node is gone or no longer selected and needs them no more (CON-16)."""
    current = snapshot.metadata_of(snapshot.cr.name)
    if not current:
        return ()
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
