"""What the engine keeps of a CR between passes: results whose inputs have not changed (by identity), and what was already said.

Losing it costs time, never correctness: everything is worked out again from the snapshot.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec
from nodewright.engine.announcements import Said
from nodewright.engine.facts import NodeFacts, evaluate
from nodewright.engine.foreign import NOTHING_FOREIGN, Foreign
from nodewright.engine.leaving import carries
from nodewright.engine.node_plan import Context, Mode, NodeOutcome, lost_metadata, plan_later, plan_node
from nodewright.engine.ordering import complete_by_state, selects
from nodewright.engine.rollout import Decision, Role
from nodewright.engine.scope import Scope
from nodewright.engine.status import PassResult
from nodewright.model.objects import Job, Node, Pod
from nodewright.model.plan import Plan
from nodewright.model.reason import Reason
from nodewright.model.snapshot import CR, PlanSettings, Snapshot

MOST_MET: Final = 400
"""So many nodes are looked at for the first time in one pass: a pass is synchronous, and the loop has leases and probes to serve."""
MOST_PLANNED: Final = 300
"""So many nodes that have something to do are planned in one pass; the next one follows at once."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What a pass makes of the selected nodes; `later` when something was left for the next one, and not for a retry's time."""

    of: Mapping[str, NodeOutcome]
    later: bool


@dataclass(slots=True, eq=False)
class NodeRecord:
    """The latest results for one node, each with the inputs it was made from.

    `seen` is the number of the pass that found the node; `outcome` is `current` while it was made from `facts`.
    """

    node: Node
    label: str
    metadata_name: str
    selected: bool = False
    carries: bool = False
    seen: int = 0
    jobs: tuple[Job, ...] = ()
    pods: tuple[Pod, ...] = ()
    held: Mapping[str, Reason] | None = None
    facts: NodeFacts | None = None
    decision: Decision | None = None
    orders: tuple[Mode, bool] | None = None
    outcome: NodeOutcome | None = None
    current: bool = False


@dataclass(frozen=True, slots=True)
class Quiet:
    """A pass that had nothing to do, and what it read beside nodes, their Jobs and their pods: while none of it
    changes, neither does the plan."""

    inputs: tuple[Any, ...]
    result: PassResult
    urgent: bool
    wake_at: float | None

    @staticmethod
    def of(snapshot: Snapshot, plan: Plan, result: PassResult, *, urgent: bool) -> "Quiet | None":
        """The pass, if it is one to keep."""
        wrote = plan.configmaps or plan.nodes or plan.job_deletes or plan.configmap_deletes or plan.events
        if wrote or result.held or _passing(snapshot):
            return None
        return Quiet(_read(snapshot), result, urgent, plan.wake_at)

    def holds(self, snapshot: Snapshot, now: float) -> bool:
        """Whether a pass would find the same; nodes, Jobs and pods are for the caller to compare."""
        if _passing(snapshot) or (self.wake_at is not None and now >= self.wake_at):
            return False
        return snapshot.cr is self.result.cr and _read(snapshot) == self.inputs


def _passing(snapshot: Snapshot) -> bool:
    """Something that a pass does not keep: writes under way or refused lately."""
    return bool(snapshot.busy or snapshot.refused or snapshot.unproven)


def _read(snapshot: Snapshot) -> tuple[Any, ...]:
    """Compared element by element: the same object is equal without a look inside."""
    name = snapshot.cr.name
    return (tuple(snapshot.crs), snapshot.jobs_of(name), snapshot.configmaps_of(name), snapshot.metadata_of(name))


@dataclass(slots=True)
class CrMemory:
    """One CR's results. A new generation starts anew.

    `selected` has the facts of the nodes in the selection, `unselected` the records of all others; `labels` and
    `metadata_names` belong to all nodes
    and to the selected ones.
    """

    scope: Scope
    selected: dict[str, NodeFacts] = field(default_factory=dict)
    unselected: dict[str, NodeRecord] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    metadata_names: set[str] = field(default_factory=set)
    held: Mapping[str, Reason] = field(default_factory=dict)
    foreign: Foreign = NOTHING_FOREIGN
    quiet: Quiet | None = None
    records: dict[str, NodeRecord] = field(default_factory=dict)
    passes: int = 0
    known: bool = False
    housed_jobs: int = 0
    """How many Jobs are those of some node."""

    def hold(self, held: Mapping[str, Reason]) -> bool:
        """Take over what keeps packages from starting; whether it is something else than before."""
        if held == self.held:
            return False
        self.held = held
        return True

    def look(self, snapshot: Snapshot) -> bool:
        """Look at every node, its Jobs and its pods, and make facts anew of what changed; whether anything did.

        Of nodes never seen before so many at a time: until none is left, nothing is `known` well enough to decide by.
        """
        self.passes += 1
        strangers = MOST_MET
        changed, passes, records, cr = False, self.passes, self.records, snapshot.cr.name
        self.foreign = self.foreign.seen(self.scope, snapshot)
        every, held_on = self.held, self.foreign.held
        jobs_on, pods_on = snapshot.jobs_on, snapshot.pods_on
        housed = 0
        for node in snapshot.nodes:
            record = records.get(node.metadata.name)
            if record is None:
                strangers -= 1
                if strangers < 0:
                    continue
            if record is None or record.node is not node:
                record, changed = self._meet(node), True
            record.seen = passes
            jobs, pods = jobs_on(cr, record.label), pods_on(cr, record.label)
            housed += len(jobs)
            held = held_on.get(record.metadata_name, every) if held_on else every
            if record.jobs is jobs and record.pods is pods and record.held is held:
                continue
            record.jobs, record.pods, record.held, record.current, changed = jobs, pods, held, False, True
            if record.selected:
                record.facts = self.selected[node.metadata.name] = evaluate(self.scope, node, jobs, pods, held)
        if len(records) > len(snapshot.nodes):
            self._forget_missing()
            changed = True
        self.known, self.housed_jobs = strangers >= 0, housed
        return changed

    def _meet(self, node: Node) -> NodeRecord:
        """A node that is new or has changed: its selection is looked at again (ROL-1), its facts are void."""
        name = node.metadata.name
        record = self.records.get(name)
        if record is None:
            metadata = keys.node_metadata_configmap_name(cr=self.scope.name, node=name)
            record = self.records[name] = NodeRecord(node, keys.label_value(name), metadata)
            self.labels.add(record.label)
            self.unselected[name] = record
        selected = selects(self.scope.spec, node)
        if selected is not record.selected:
            self._move(record, selected=selected)
        record.node, record.carries = node, carries(self.scope.keys, node)
        record.held = record.facts = None
        record.current = False
        return record

    def _move(self, record: NodeRecord, *, selected: bool) -> None:
        record.selected, name = selected, record.node.metadata.name
        if selected:
            del self.unselected[name]
            self.metadata_names.add(record.metadata_name)
        else:
            self.unselected[name] = record
            self.selected.pop(name, None)
            self.metadata_names.discard(record.metadata_name)

    def _forget_missing(self) -> None:
        """Forget nodes that are gone (ROL-19)."""
        for name, record in list(self.records.items()):
            if record.seen != self.passes:
                if record.selected:
                    self._move(record, selected=False)
                del self.unselected[name]
                self.labels.discard(record.label)
                del self.records[name]

    def outcomes(
        self, context: Context, decisions: Mapping[str, Decision], otherwise: Decision, refused: Collection[str]
    ) -> "Outcomes":
        """The parts of the plan, node by node; of many that have something to do some come in the next pass.

        Those that are picked now are planned at once, a batch is picked as a whole (ROL-10). Then come those at work, and at the end the
        `refused`, whose writes do not go through: they must not keep others back (LIF-4).
        """
        records, results = self.records, dict[str, NodeOutcome]()
        fresh: list[tuple[tuple[bool, bool, bool, str], NodeFacts, Decision]] = []
        later = False
        for name, facts in self.selected.items():
            decision = decisions.get(name, otherwise)
            if decision.role is Role.LATER:
                results[name], later = plan_later(context, facts, decision), later or name not in refused
                continue
            kept = self._kept(context, records[name], facts, decision)
            if kept is not None:
                results[name] = kept
                continue
            picked = decision.role is Role.WORKS and decision.pick is not None
            fresh.append(((not picked, name in refused, decision.role is not Role.WORKS, name), facts, decision))
        if len(fresh) > MOST_PLANNED:
            fresh.sort(key=_first)
        for index, (rank, facts, decision) in enumerate(fresh):
            if index < MOST_PLANNED or not rank[0]:
                results[facts.name] = self._planned(context, records[facts.name], facts, decision)
            else:
                results[facts.name], later = plan_later(context, facts, decision), later or not rank[1]
        return Outcomes(results, later)

    @staticmethod
    def _kept(context: Context, record: NodeRecord, facts: NodeFacts, decision: Decision) -> NodeOutcome | None:
        """One that has nothing to do is kept until its facts, its decision or its next deadline come; one whose writes are under
        way, until they have ended: what would be planned now is not carried out."""
        kept, orders = record.outcome, (context.mode, context.suspend)
        if kept is not None and facts.name in context.snapshot.busy:
            return kept
        if (
            kept is not None
            and record.current
            and kept.plan.empty
            and record.orders == orders
            and (record.decision is decision or record.decision == decision)
            and (kept.wake_at is None or context.now < kept.wake_at)
            and not lost_metadata(context, facts)
        ):
            return kept
        return None

    @staticmethod
    def _planned(context: Context, record: NodeRecord, facts: NodeFacts, decision: Decision) -> NodeOutcome:
        record.outcome = plan_node(context, facts, decision)
        record.decision, record.orders, record.current = decision, (context.mode, context.suspend), True
        return record.outcome


def _first(one: tuple[tuple[bool, bool, bool, str], NodeFacts, Decision]) -> tuple[bool, bool, bool, str]:
    return one[0]


class Memory:
    """The memory of all CRs, and completeness of predecessors by node."""

    def __init__(self, settings: PlanSettings) -> None:
        self._settings = settings
        self._crs: dict[str, CrMemory] = {}
        self._said: dict[tuple[str, str], Said] = {}
        self._complete: dict[tuple[str, str], tuple[NodeWrightSpec, Node, bool]] = {}

    def of(self, cr: CR, spec: NodeWrightSpec) -> CrMemory:
        """The memory of the CR at its current generation."""
        found = self._crs.get(cr.name)
        same = (
            found is not None
            and found.scope.spec is spec
            and found.scope.uid == cr.meta.uid
            and found.scope.generation == cr.meta.generation
        )
        if found is None or not same:
            found = self._crs[cr.name] = CrMemory(Scope.of(cr, spec, self._settings))
        return found

    def forget(self, name: str) -> None:
        """The CR is gone."""
        self._crs.pop(name, None)
        for one in [one for one in self._said if one[0] == name]:
            del self._said[one]
        for key in [k for k in self._complete if k[0] == name]:
            del self._complete[key]

    def said(self, cr: CR) -> Said:
        """The Warnings that were given of the CR and last: whatever its generation, and in its deletion too."""
        return self._said.setdefault((cr.name, cr.meta.uid), set())

    def bound(self, snapshot: Snapshot) -> None:
        """Forget the completeness of nodes and CRs that are gone, once there are more results than pairs of what is there."""
        if len(self._complete) <= len(snapshot.crs) * len(snapshot.nodes):
            return
        crs, nodes = {cr.name for cr in snapshot.crs}, {node.metadata.name for node in snapshot.nodes}
        self._complete = {key: kept for key, kept in self._complete.items() if key[0] in crs and key[1] in nodes}

    def complete(self, cr: CR, spec: NodeWrightSpec, node: Node) -> bool:
        """`complete_by_state`, looked at again when the spec or the node changed."""
        key = (cr.name, node.metadata.name)
        kept = self._complete.get(key)
        if kept is None or kept[0] is not spec or kept[1] is not node:
            kept = self._complete[key] = (spec, node, complete_by_state(cr.name, spec, node))
        return kept[2]
