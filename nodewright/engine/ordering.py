"""Whose turn it is on a node (ROL-17, ROL-18): CRs in the order of (priority, name).

Reads node state of predecessors, never their Jobs: what a predecessor's own pass has not recorded yet is not done.
Relies on `facts`' view of
completeness only through node state, so that one CR's pass never evaluates another's Jobs.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec, Sequencing
from nodewright.engine.stages import next_stage, owes_interrupt
from nodewright.model import node_state
from nodewright.model.node_state import Malformed
from nodewright.model.objects import Job, Node
from nodewright.model.reason import Code, Reason
from nodewright.model.snapshot import CR, Snapshot


def is_disabled(cr: CR) -> bool:
    """Only the exact value counts (ROL-18)."""
    return cr.meta.annotations.get(keys.DISABLE) == "true"


def is_paused(cr: CR) -> bool:
    """Paused and not also disabled: with both it reads disabled (ROL-18)."""
    return cr.meta.annotations.get(keys.PAUSE) == "true" and not is_disabled(cr)


def suspends_jobs(cr: CR) -> bool:
    """Whether the CR's Jobs are to be suspended: by `pause`, whether or not `disable` came too, in whatever order (ROL-18, JOB-16)."""
    return cr.meta.annotations.get(keys.PAUSE) == "true"


def is_deleting(cr: CR) -> bool:
    """On its way out (CHG-11)."""
    return cr.meta.deletion_timestamp is not None


def sort_key(cr: CR) -> tuple[int, str]:
    """The order of CRs: lower priority first, then the name."""
    return (cr.spec.priority if cr.spec is not None else 200, cr.name)


def selects(spec: NodeWrightSpec, node: Node) -> bool:
    """Whether the spec's selector matches the node's labels now (ROL-1)."""
    return spec.node_selector_matcher(node.metadata.labels)


def complete_by_state(cr: str, spec: NodeWrightSpec, node: Node) -> bool:
    """Whether the CR is complete on the node by node state alone (LIF-9)."""
    state = node_state.parse(node.metadata.annotations.get(keys.node_state_key(cr)))
    if isinstance(state, Malformed):
        return False
    for name, package in spec.packages.items():
        entry = state.get(f"{name}|{package.version}")
        if entry is None or entry.stage.is_uninstall or next_stage(entry) is not None or owes_interrupt(entry, package):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Turn:
    """What predecessors hold: `barrier` every node, `on` a node each; `free` if there are none."""

    barrier: Reason | None
    on: Callable[[Node], Reason | None]
    free: bool = False


_FREE = Turn(None, lambda _node: None, free=True)
Completeness = Callable[[CR, NodeWrightSpec, Node], bool]


def turn(snapshot: Snapshot, complete: Completeness) -> Turn:
    """Whether the CR's turn has come, node by node. `complete` is `complete_by_state`, memoised by the engine."""
    predecessors = _predecessors(snapshot)
    if not predecessors:
        return _FREE
    barrier = next((r for p, s in predecessors if (r := _barrier(p, s, snapshot.nodes, complete)) is not None), None)

    def on(node: Node) -> Reason | None:
        for predecessor, spec in predecessors:
            if selects(spec, node) and not _past(predecessor, spec, node, complete, snapshot.jobs_on):
                return _reason(predecessor, f"on {node.name}")
        return None

    return Turn(barrier, on)


def _predecessors(snapshot: Snapshot) -> list[tuple[CR, NodeWrightSpec]]:
    own = sort_key(snapshot.cr)
    earlier = sorted((c for c in snapshot.crs if sort_key(c) < own and not is_disabled(c)), key=sort_key)
    return [(c, c.spec) for c in earlier if c.spec is not None]


def _barrier(predecessor: CR, spec: NodeWrightSpec, nodes: Iterable[Node], complete: Completeness) -> Reason | None:
    if spec.sequencing is not Sequencing.ALL or is_deleting(predecessor):
        return None
    if all(complete(predecessor, spec, node) for node in nodes if selects(spec, node)):
        return None
    return _reason(predecessor, "on all its nodes")


def _past(
    predecessor: CR,
    spec: NodeWrightSpec,
    node: Node,
    complete: Completeness,
    jobs_on: Callable[[str, str], tuple[Job, ...]],
) -> bool:
    if not is_deleting(predecessor):
        return complete(predecessor, spec, node)
    running = any(not job.finished for job in jobs_on(predecessor.name, keys.label_value(node.name)))  # JOB-12
    return not running and not has_to_uninstall(predecessor.name, spec, node)


def has_to_uninstall(cr: str, spec: NodeWrightSpec, node: Node) -> bool:
    """Whether a deletion has something to uninstall on the node (CHG-11)."""
    wanted = {name for name, package in spec.packages.items() if package.uninstall.enabled}
    if not wanted:
        return False
    state = node_state.parse(node.metadata.annotations.get(keys.node_state_key(cr)))
    return isinstance(state, Malformed) or any(entry.name in wanted for entry in state.values())


def _reason(predecessor: CR, where: str) -> Reason:
    held = " (paused)" if is_paused(predecessor) else ""
    name = predecessor.name
    return Reason(
        Code.PREDECESSOR, f"waits for NodeWright {name}{held} {where}", f"{name} completes {where}, or is disabled"
    )


NO_HOLDS: Mapping[str, Reason] = {}
