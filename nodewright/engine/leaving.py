"""Nodes that leave a CR: out of its selection (ROL-1), or because the CR is deleted (CHG-11). Only keys of exactly this CR are touched."""

from nodewright.engine.cordon import releases
from nodewright.engine.scope import NodeKeys
from nodewright.model import node_state
from nodewright.model.node_state import Malformed
from nodewright.model.objects import Job, Node
from nodewright.model.plan import JobDelete, NodeCondition, NodePatch, NodePlan


def carries(own: NodeKeys, node: Node) -> bool:
    """Whether the node has a key of the CR that goes when the node leaves it."""
    annotations = node.metadata.annotations
    return (
        own.status in annotations
        or own.pick in annotations
        or own.cordon in annotations
        or own.drain_start in annotations
        or own.drain_blocked in annotations
        or own.status in node.metadata.labels
        or any(c.type in (own.not_ready, own.erroring) for c in node.status.conditions)
    )


def leave(own: NodeKeys, node: Node, jobs: tuple[Job, ...], *, why: str, forget_state: bool = False) -> NodePlan | None:
    """What has to go from the node: unfinished Jobs first, and once none is left the keys, the conditions and the CR's cordon.

    `forget_state` removes node state too when it has no entries (CHG-11). None when nothing is left to do.
    """
    unfinished = [job for job in jobs if not job.finished]
    if unfinished:
        deletes = tuple(JobDelete(job, why) for job in unfinished if job.metadata.deletion_timestamp is None)
        return NodePlan(node, job_deletes=deletes)
    annotations: dict[str, str | None] = {
        key: None
        for key in (own.status, own.pick, own.cordon, own.drain_start, own.drain_blocked)
        if key in node.metadata.annotations
    }
    if forget_state and own.state in node.metadata.annotations:
        state = node_state.parse(node.metadata.annotations[own.state])
        if not isinstance(state, Malformed) and not state:
            annotations[own.state] = None
    labels: dict[str, str | None] = {own.status: None} if own.status in node.metadata.labels else {}
    conditions = tuple(
        NodeCondition(c.type, None) for c in node.status.conditions if c.type in (own.not_ready, own.erroring)
    )
    if not annotations and not labels and not conditions:
        return None
    patch = NodePatch(annotations, labels, releases(own, node)) if annotations or labels else None
    return NodePlan(node, patch=patch, conditions=conditions)
