"""The way out of a CR (CHG-11, CHG-12): nothing new starts, Jobs go, nodes are cleaned, then ConfigMaps, then the finalizer."""

from typing import Any

from nodewright.api import keys
from nodewright.engine.conditions import Wanted, merge, names_or_count
from nodewright.engine.leaving import carries, leave
from nodewright.engine.ordering import has_to_uninstall, is_disabled, is_paused
from nodewright.engine.scope import NodeKeys
from nodewright.model import node_state
from nodewright.model.node_state import Malformed
from nodewright.model.objects import Job, Node, owner_uid
from nodewright.model.plan import ConfigMapDelete, FinalizerChange, JobDelete, NodePlan, Plan, StatusDraft
from nodewright.model.snapshot import CR, Snapshot


def plan(snapshot: Snapshot, now: float) -> Plan:
    """What a pass of a CR in deletion does. The finalizer goes in a pass that finds nothing else left."""
    cr = snapshot.cr
    if keys.FINALIZER not in cr.meta.finalizers:
        return Plan()
    own = NodeKeys.of(cr.name)
    nodes: list[NodePlan] = []
    pending: list[Node] = []
    waits = False
    for node in snapshot.nodes:
        jobs = _own_jobs(snapshot, keys.label_value(node.metadata.name))
        unfinished = any(not job.finished for job in jobs)
        waits = waits or unfinished
        if cr.spec is not None and has_to_uninstall(cr.name, cr.spec, node):
            pending.append(node)
            one = leave(own, node, jobs, why="its NodeWright is being deleted") if unfinished else None
        else:
            empty_state = own.state in node.metadata.annotations
            one = (
                leave(own, node, jobs, why="its NodeWright is being deleted", forget_state=True)
                if unfinished or empty_state or carries(own, node)
                else None
            )
        if one is not None:
            nodes.append(one)
    homeless = _homeless(snapshot)
    status = _blocked(cr, own, pending, now) if pending else None
    if pending or nodes or waits or homeless:
        busy = [n for n in nodes if n.node.metadata.name not in snapshot.busy]
        return Plan(nodes=tuple(busy), job_deletes=homeless, status=status)
    if snapshot.busy:
        return Plan()
    configmaps = tuple(
        ConfigMapDelete(c)
        for c in (*snapshot.configmaps_of(cr.name), *snapshot.metadata_of(cr.name))
        if owner_uid(c.metadata) == cr.meta.uid and c.metadata.deletion_timestamp is None
    )
    return Plan(configmap_deletes=configmaps) if configmaps else Plan(finalizer=FinalizerChange.REMOVE)


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


def _blocked(cr: CR, own: NodeKeys, pending: list[Node], now: float) -> StatusDraft:
    """Why the deletion waits (CHG-12); this version cannot uninstall, so only an edit of the spec releases it."""
    names = [node.metadata.name for node in pending]
    malformed = [
        n.metadata.name
        for n in pending
        if isinstance(node_state.parse(n.metadata.annotations.get(own.state)), Malformed)
    ]
    reason, text = (
        "UninstallPending",
        f"packages with uninstall.enabled are still installed on {names_or_count(names, 'node')}",
    )
    if malformed:
        reason, text = "MalformedNodeState", f"node state is not readable on {names_or_count(malformed, 'node')}"
    elif is_disabled(cr):
        reason = "DisabledWithPendingUninstall"
    elif is_paused(cr):
        reason = "PausedWithPendingUninstall"
    message = f"{text}; this version does not uninstall: set uninstall.enabled to false to delete without"

    def build() -> dict[str, Any]:
        wanted = [
            *_kept(cr),
            Wanted("DeletionBlocked", message, reason),
            Wanted("Stalled", message, "DeletionBlocked"),
        ]
        conditions = merge(cr.published.get("conditions"), wanted, generation=cr.meta.generation, now=now)
        return {**cr.published, "conditions": conditions, "observedGeneration": cr.meta.generation}

    return StatusDraft(str(cr.published.get("status", "unknown")), build)


def _kept(cr: CR) -> list[Wanted]:
    """Ready stays as it was: nothing of the install lane is worked out in deletion."""
    old = cr.published.get("conditions")
    ready = (
        next((c for c in old if isinstance(c, dict) and c.get("type") == "Ready"), None)
        if isinstance(old, list)
        else None
    )
    if ready is None:
        return []
    return [
        Wanted(
            "Ready", str(ready.get("message", "")), str(ready.get("reason", "")), status=ready.get("status") == "True"
        )
    ]
