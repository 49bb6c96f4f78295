"""What the engine keeps of a CR between passes: results whose inputs have not changed (by identity), and what was already said.

Losing it costs time, never correctness: everything is worked out again from the snapshot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec
from nodewright.engine.facts import NodeFacts, evaluate
from nodewright.engine.leaving import carries
from nodewright.engine.node_plan import Context, Mode, NodeOutcome, plan_node
from nodewright.engine.ordering import complete_by_state, selects
from nodewright.engine.rollout import Decision
from nodewright.engine.scope import Scope
from nodewright.model.objects import Job, Node, Pod
from nodewright.model.reason import Reason
from nodewright.model.snapshot import CR, PlanSettings


@dataclass(slots=True)
class NodeRecord:
    """The latest results for one node, each with the inputs it was made from."""

    node: Node
    label: str
    selected: bool
    carries: bool
    metadata_name: str
    jobs: tuple[Job, ...] = ()
    pods: tuple[Pod, ...] = ()
    held: Mapping[str, Reason] | None = None
    facts: NodeFacts | None = None
    decision: Decision | None = None
    mode: Mode | None = None
    outcome: NodeOutcome | None = None


@dataclass(slots=True)
class CrMemory:
    """One CR's results. A new generation starts anew."""

    scope: Scope
    records: dict[str, NodeRecord] = field(default_factory=dict)
    said: set[tuple[str, str, str]] = field(default_factory=set)
    held: Mapping[str, Reason] = field(default_factory=dict)

    def record(self, node: Node) -> NodeRecord:
        """The record of a node; selection is looked at again when the node changed (ROL-1)."""
        name = node.metadata.name
        found = self.records.get(name)
        if found is None:
            found = self.records[name] = NodeRecord(
                node, keys.label_value(name), False, False, keys.node_metadata_configmap_name(cr=self.scope.name, node=name)
            )
        elif found.node is node:
            return found
        found.node = node
        found.facts = None
        found.selected = selects(self.scope.spec, node)
        found.carries = carries(self.scope.keys, node)
        return found

    def facts(self, record: NodeRecord, jobs: tuple[Job, ...], pods: tuple[Pod, ...]) -> NodeFacts:
        """The node's facts, made anew only when the node, its Jobs, its pods or what holds packages changed."""
        if record.facts is None or record.jobs is not jobs or record.pods is not pods or record.held is not self.held:
            record.facts = evaluate(self.scope, record.node, jobs, pods, self.held)
            record.jobs, record.pods, record.held, record.outcome = jobs, pods, self.held, None
        return record.facts

    def outcome(self, context: Context, record: NodeRecord, facts: NodeFacts, decision: Decision) -> NodeOutcome:
        """The node's part of the plan; one that has nothing to do is kept until its facts, its decision or its next deadline come."""
        kept = record.outcome
        if (
            kept is not None
            and kept.plan.empty
            and record.mode is context.mode
            and (record.decision is decision or record.decision == decision)
            and (kept.wake_at is None or context.now < kept.wake_at)
        ):
            return kept
        record.outcome = plan_node(context, facts, decision)
        record.decision, record.mode = decision, context.mode
        return record.outcome

    def drop_missing(self, names: set[str]) -> None:
        """Forget nodes that are gone (ROL-19)."""
        if len(self.records) > len(names):
            for name in [n for n in self.records if n not in names]:
                del self.records[name]


class Memory:
    """The memory of all CRs, and completeness of predecessors by node."""

    def __init__(self, settings: PlanSettings) -> None:
        self._settings = settings
        self._crs: dict[str, CrMemory] = {}
        self._complete: dict[tuple[str, str], tuple[NodeWrightSpec, Node, bool]] = {}

    def of(self, cr: CR, spec: NodeWrightSpec) -> CrMemory:
        """The memory of the CR at its current generation."""
        found = self._crs.get(cr.name)
        if found is None or found.scope.spec is not spec or found.scope.uid != cr.meta.uid or found.scope.generation != cr.meta.generation:
            found = self._crs[cr.name] = CrMemory(Scope.of(cr, spec, self._settings))
        return found

    def forget(self, name: str) -> None:
        """The CR is gone."""
        self._crs.pop(name, None)
        for key in [k for k in self._complete if k[0] == name]:
            del self._complete[key]

    def complete(self, cr: CR, spec: NodeWrightSpec, node: Node) -> bool:
        """`complete_by_state`, looked at again when the spec or the node changed."""
        key = (cr.name, node.metadata.name)
        kept = self._complete.get(key)
        if kept is None or kept[0] is not spec or kept[1] is not node:
            kept = self._complete[key] = (spec, node, complete_by_state(cr.name, spec, node))
        return kept[2]
