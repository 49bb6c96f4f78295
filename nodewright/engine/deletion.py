"""The way out of a CR (CHG-11, CHG-12): nothing new starts, Jobs go, nodes are cleaned, then ConfigMaps, then the finalizer.

Pure but for `said`, the memory of the Warning events that were given. What holds a deletion is worked out in `waiting`.
"""

from dataclasses import dataclass, field

from nodewright.api import keys
from nodewright.engine.announcements import Said, fresh, trouble_events
from nodewright.engine.leaving import carries, leave
from nodewright.engine.ordering import has_to_uninstall
from nodewright.engine.scope import NodeKeys
from nodewright.engine.troubles import Trouble, not_deleted
from nodewright.engine.waiting import CONDITION, draft, find_causes, shows_blocked
from nodewright.model.objects import Job, Node, owner_uid
from nodewright.model.plan import ConfigMapDelete, Event, EventType, FinalizerChange, JobDelete, NodePlan, Plan
from nodewright.model.snapshot import Snapshot

_WHY = "its NodeWright is being deleted"


@dataclass(slots=True)
class _Found:
    """What the nodes still need: their plans, those with something to uninstall, and the Jobs that are being deleted."""

    nodes: list[NodePlan] = field(default_factory=list)
    pending: list[Node] = field(default_factory=list)
    terminating: list[Trouble] = field(default_factory=list)
    waits: bool = False


def plan(snapshot: Snapshot, now: float, said: Said) -> Plan:
    """What a pass of a CR in deletion does. The finalizer goes in a pass that finds nothing else left."""
    cr = snapshot.cr
    if keys.FINALIZER not in cr.meta.finalizers:
        return Plan()
    found = _look(snapshot)
    homeless = _homeless(snapshot)
    if found.pending or found.nodes or found.waits or homeless:
        return _waiting(snapshot, found, homeless, now, said)
    if snapshot.busy:
        return Plan()
    configmaps = tuple(
        ConfigMapDelete(c)
        for c in (*snapshot.configmaps_of(cr.name), *snapshot.metadata_of(cr.name))
        if owner_uid(c.metadata) == cr.meta.uid and c.metadata.deletion_timestamp is None
    )
    return Plan(configmap_deletes=configmaps) if configmaps else Plan(finalizer=FinalizerChange.REMOVE)


def _look(snapshot: Snapshot) -> _Found:
    """Each node: Jobs first, then what is left of the CR; node state stays while something is to be uninstalled."""
    cr, own, found = snapshot.cr, NodeKeys.of(snapshot.cr.name), _Found()
    for node in snapshot.nodes:
        jobs = _own_jobs(snapshot, keys.label_value(node.metadata.name))
        unfinished = [job for job in jobs if not job.finished]
        found.waits = found.waits or bool(unfinished)
        found.terminating += [
            not_deleted(job, node.name) for job in unfinished if job.metadata.deletion_timestamp is not None
        ]
        pending = cr.spec is not None and has_to_uninstall(cr.name, cr.spec, node)
        if pending:
            found.pending.append(node)
        kept_clean = not pending and (own.state in node.metadata.annotations or carries(own, node))
        if unfinished or kept_clean:
            one = leave(own, node, jobs, why=_WHY, forget_state=not pending)
            if one is not None:
                found.nodes.append(one)
    return found


def _waiting(snapshot: Snapshot, found: _Found, homeless: tuple[JobDelete, ...], now: float, said: Said) -> Plan:
    """The pass that still has to wait for something; what takes longer than a minute is said (CHG-12, JOB-15a)."""
    cr = snapshot.cr
    blocked, wakes = find_causes(snapshot, found.pending, found.terminating, (n.node for n in found.nodes), now)
    active = trouble_events(t for t in found.terminating if t.due <= now)
    if blocked is not None:
        key = (CONDITION, "", "")
        active[key] = Event(EventType.WARNING, CONDITION, "Delete", f"the deletion waits: {blocked.message}")
        if shows_blocked(cr):
            said.add(key)  # before this operator started
    return Plan(
        nodes=tuple(n for n in found.nodes if n.node.metadata.name not in snapshot.busy),
        job_deletes=homeless,
        status=draft(cr, blocked, now),
        events=fresh(said, active),
        wake_at=min(wakes, default=None),
    )


def _own_jobs(snapshot: Snapshot, label: str) -> tuple[Job, ...]:
    uid = snapshot.cr.meta.uid
    return tuple(job for job in snapshot.jobs_on(snapshot.cr.name, label) if owner_uid(job.metadata) == uid)


def _homeless(snapshot: Snapshot) -> tuple[JobDelete, ...]:
    labels = {keys.label_value(node.metadata.name) for node in snapshot.nodes}
    return tuple(
        JobDelete(job, "its node is gone")
        for job in snapshot.jobs_of(snapshot.cr.name)
        if job.metadata.labels.get(keys.LABEL_NODE) not in labels
        and job.metadata.deletion_timestamp is None
        and not job.finished
        and owner_uid(job.metadata) == snapshot.cr.meta.uid
    )
