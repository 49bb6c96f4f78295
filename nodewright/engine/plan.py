"""One pass: a snapshot in, a plan out (LIF-1).

`Engine.plan` is synchronous, deterministic and total: what is malformed becomes a Reason, a condition and a held package, never an exception. It
tells the story of a pass in the order in which the rules have it; each step is a module of its own.
"""

from collections.abc import Iterable, Mapping

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec
from nodewright.engine import deletion, ordering
from nodewright.engine.batches import BatchState, ceiling, read_batch_state
from nodewright.engine.conditions import rfc3339
from nodewright.engine.facts import NodeFacts
from nodewright.engine.leaving import leave
from nodewright.engine.memory import CrMemory, Memory, NodeRecord
from nodewright.engine.node_plan import Context, Mode, NodeOutcome
from nodewright.engine.published import Rollout, read_rollout
from nodewright.engine.resources import ConfigMaps, package_configmaps
from nodewright.engine.rollout import Compartment, Decision, Result, Role, Round, decide
from nodewright.engine.status import CompartmentResult, PassResult, build_status, cr_status
from nodewright.engine.troubles import Trouble
from nodewright.engine.unreadable import plan_unreadable
from nodewright.model.objects import owner_uid
from nodewright.model.pick import DEFAULT_COMPARTMENT
from nodewright.model.plan import (
    ConfigMapDelete,
    Event,
    EventType,
    FinalizerChange,
    JobDelete,
    NodePlan,
    Plan,
    StatusDraft,
)
from nodewright.model.reason import Code, Reason
from nodewright.model.snapshot import PlanSettings, Snapshot


class Engine:
    """Plans passes; remembers only what it can work out again."""

    def __init__(self, settings: PlanSettings) -> None:
        self._memory = Memory(settings)

    def forget(self, cr: str) -> None:
        """The CR is gone: drop what was kept of it."""
        self._memory.forget(cr)

    def plan(self, snapshot: Snapshot, now: float) -> Plan:
        """What this pass does. `now` is seconds since the epoch."""
        cr = snapshot.cr
        if ordering.is_deleting(cr):
            return deletion.plan(snapshot, now)
        if keys.FINALIZER not in cr.meta.finalizers:
            return Plan(finalizer=FinalizerChange.ADD)  # before any other write (CHG-11)
        if cr.spec is None:
            return plan_unreadable(cr, now)
        return self._plan(snapshot, cr.spec, self._memory.of(cr, cr.spec), now)

    def _plan(self, snapshot: Snapshot, spec: NodeWrightSpec, memory: CrMemory, now: float) -> Plan:
        cr, scope, mode = snapshot.cr, memory.scope, _mode(snapshot)
        records = [memory.record(node) for node in snapshot.nodes]
        memory.drop_missing({record.node.metadata.name for record in records})
        selected = [record for record in records if record.selected]
        configmaps = _configmaps(memory, snapshot, selected, now)
        facts = {r.node.metadata.name: _facts(memory, snapshot, r) for r in selected}

        turn = ordering.turn(snapshot, self._memory.complete)
        turns = _turns(turn, facts.values())
        before = read_rollout(cr.published, spec.package_list, facts.values(), resets=_resets(spec), busy=snapshot.busy)
        hold = None if mode is Mode.RUN else Reason(Code(mode.name.capitalize()), f"the NodeWright is {mode}", "remove the annotation")
        common = Round(before.number, before.next_order, rfc3339(now), hold, frozen=before.pending)
        compartment = _compartment(spec, len(facts))
        state = read_batch_state(before.batch_state, population=len(facts))
        result = decide(compartment, facts.values(), state, common, turns=turns, busy=snapshot.busy, population=len(facts))

        context = Context(scope, cr, snapshot, mode, now)
        outcomes: dict[str, NodeOutcome] = {}
        for record in selected:
            name = record.node.metadata.name
            decision = result.decisions.get(name, _BUSY)
            outcomes[name] = memory.outcome(context, record, facts[name], decision)
        leavers = _leavers(memory, snapshot, records)
        draft, pass_result = _status(snapshot, memory, before, result, compartment, facts, outcomes, turn.barrier, configmaps, mode, now)
        nodes = [o.plan for name, o in outcomes.items() if not o.plan.empty and name not in snapshot.busy]
        nodes += [plan for plan in leavers if plan.node.metadata.name not in snapshot.busy]
        nodes.sort(key=_urgency)
        wakes = [o.wake_at for o in outcomes.values() if o.wake_at is not None]
        wakes += [configmaps.wake_at] if configmaps.wake_at is not None else []
        return Plan(
            configmaps=configmaps.writes,
            nodes=tuple(nodes),
            job_deletes=_homeless_jobs(snapshot, memory),
            configmap_deletes=(*configmaps.deletes, *_stale_metadata(snapshot, records)),
            status=draft,
            events=_events(memory, pass_result, outcomes, now),
            wake_at=min(wakes, default=None),
        )


_BUSY = Decision(Role.ENDS)


def _mode(snapshot: Snapshot) -> Mode:
    if ordering.is_disabled(snapshot.cr):
        return Mode.DISABLED
    return Mode.PAUSED if ordering.is_paused(snapshot.cr) else Mode.RUN


def _resets(spec: NodeWrightSpec) -> bool:
    """Whether batch state returns to its start by itself (ROL-15)."""
    own = spec.deployment_policy_options.reset_batch_state_on_completion
    return True if own is None else own


def _facts(memory: CrMemory, snapshot: Snapshot, record: NodeRecord) -> NodeFacts:
    name = snapshot.cr.name
    return memory.facts(record, snapshot.jobs_on(name, record.label), snapshot.pods_on(name, record.label))


def _turns(turn: ordering.Turn, facts: Iterable[NodeFacts]) -> Mapping[str, Reason]:
    if turn.barrier is not None:
        return {one.name: turn.barrier for one in facts}
    return {one.name: reason for one in facts if (reason := turn.on(one.node)) is not None}


def _compartment(spec: NodeWrightSpec, population: int) -> Compartment:
    """Without a policy all selected nodes are one compartment (ROL-5)."""
    budget = spec.interruption_budget
    if budget is None or not budget.is_set:
        return Compartment(DEFAULT_COMPARTMENT, population, unlimited=True)
    return Compartment(DEFAULT_COMPARTMENT, ceiling(population=population, percent=budget.percent, count=budget.count))


def _configmaps(memory: CrMemory, snapshot: Snapshot, selected: list[NodeRecord], now: float) -> ConfigMaps:
    """What package ConfigMaps need; what they hold back keeps its identity while it stays the same, so that facts are kept."""
    needed = any(p.config_map for p in memory.scope.spec.packages.values()) or snapshot.configmaps_of(snapshot.cr.name)
    if not needed:
        return _NO_CONFIGMAPS
    installed = {key for r in selected if r.facts is not None for key in r.facts.entries}
    if any(r.facts is None for r in selected):
        installed = {key for r in selected for key in _facts(memory, snapshot, r).entries}
    jobs = snapshot.jobs_of(snapshot.cr.name)
    busy = {job.metadata.labels.get(keys.LABEL_PACKAGE, "") for job in jobs if not job.finished}
    result = package_configmaps(memory.scope, snapshot.cr, snapshot, installed=installed, busy_labels=busy, now=now)
    if result.held != memory.held:
        memory.held = result.held
    return result


_NO_CONFIGMAPS = ConfigMaps((), (), {}, None)


def _leavers(memory: CrMemory, snapshot: Snapshot, records: list[NodeRecord]) -> list[NodePlan]:
    """Nodes out of the selection that still carry the CR's keys, or a Job of it (ROL-1)."""
    plans = []
    for record in records:
        if record.selected:
            continue
        jobs = tuple(
            job for job in snapshot.jobs_on(snapshot.cr.name, record.label) if owner_uid(job.metadata) == snapshot.cr.meta.uid
        )
        if record.carries or any(not job.finished for job in jobs):
            plan = leave(memory.scope.keys, record.node, jobs, why="its node left the selection")
            if plan is not None:
                plans.append(plan)
    return plans


def _homeless_jobs(snapshot: Snapshot, memory: CrMemory) -> tuple[JobDelete, ...]:
    """Jobs of nodes that are gone go whatever their state (JOB-11)."""
    labels = {record.label for record in memory.records.values()}
    return tuple(
        JobDelete(job, "its node is gone")
        for job in snapshot.jobs_of(snapshot.cr.name)
        if job.metadata.labels.get(keys.LABEL_NODE) not in labels
        and job.metadata.deletion_timestamp is None
        and owner_uid(job.metadata) == snapshot.cr.meta.uid
    )


def _stale_metadata(snapshot: Snapshot, records: list[NodeRecord]) -> tuple[ConfigMapDelete, ...]:
    """Node metadata ConfigMaps whose node is gone or no longer selected and needs them no more (CON-16)."""
    current = snapshot.metadata_of(snapshot.cr.name)
    kept = {r.metadata_name for r in records if r.selected or _has_unfinished(snapshot, r)}
    return tuple(
        ConfigMapDelete(c) for c in current if c.metadata.name not in kept and owner_uid(c.metadata) == snapshot.cr.meta.uid
    )


def _has_unfinished(snapshot: Snapshot, record: NodeRecord) -> bool:
    return any(not job.finished for job in snapshot.jobs_on(snapshot.cr.name, record.label))


def _status(
    snapshot: Snapshot,
    memory: CrMemory,
    before: Rollout,
    result: Result,
    compartment: Compartment,
    facts: Mapping[str, NodeFacts],
    outcomes: Mapping[str, NodeOutcome],
    barrier: Reason | None,
    configmaps: ConfigMaps,
    mode: Mode,
    now: float,
) -> tuple[StatusDraft, PassResult]:
    invalid = bool(memory.scope.obstacles.invalid) and not facts
    overall = cr_status((o.status for o in outcomes.values()), mode=mode, barrier=barrier is not None, invalid=invalid)
    complete = overall.value == "complete"
    state, number, next_order = result.state, before.number, before.next_order + result.picked
    if before.pending or (complete and before.resets and not (result.state.at_start and not before.in_use)):
        # Batch state returns to its start with the packageList, or with the completion, it belongs to (ROL-15).
        state, number, next_order = BatchState(), before.next_number, before.order_after_reset
    picks = {name: p for name, o in outcomes.items() if (p := o.plan.pick) is not None and not p.over}
    whole = PassResult(
        cr=snapshot.cr,
        scope=memory.scope,
        mode=mode,
        now=now,
        cr_status=overall,
        facts=facts,
        outcomes=outcomes,
        picks=picks,
        compartments=(CompartmentResult(compartment, state, result.under_way, tuple(facts.values())),),
        rollout=number,
        next_order=next_order,
        package_list=memory.scope.spec.package_list,
        barrier=barrier,
        held=configmaps.held,
        troubles=tuple(t for one in facts.values() for t in one.troubles if t.due <= now),
    )
    return StatusDraft(overall.value, lambda: build_status(whole), urgent=result.urgent or before.pending), whole


def _urgency(plan: NodePlan) -> tuple[int, str]:
    """Nodes whose work starts or goes on come before those that only change their Status."""
    return (0 if plan.creates else 1 if plan.marks else 2, plan.node.metadata.name)


_SILENT = frozenset({Code.NEVER_ACKNOWLEDGED})


def _events(memory: CrMemory, result: PassResult, outcomes: Mapping[str, NodeOutcome], now: float) -> tuple[Event, ...]:
    """Warnings about what waits for a person, each once while it lasts (JOB-14, JOB-15a, CHG-5a)."""
    active: dict[tuple[str, str, str], Event] = {}
    for trouble in result.troubles:
        if not trouble.silent:
            active[(trouble.code.value, trouble.node, trouble.key)] = _warning(trouble)
    for name, reason in result.held.items():
        if reason.code is Code.CONFIG_REFUSED:
            active[(reason.code.value, name, reason.text)] = Event(EventType.WARNING, reason.code.value, "Reconcile", reason.text)
    for name, outcome in outcomes.items():
        if outcome.reason is not None and outcome.reason.code in (Code.JOB_REFUSED, Code.JOB_NAME_TAKEN):
            note = f"{outcome.reason.text} (node {name})"
            active[(Code.JOB_REFUSED.value, name, outcome.reason.text)] = Event(EventType.WARNING, Code.JOB_REFUSED.value, "Reconcile", note)
    fresh = tuple(event for key, event in active.items() if key not in memory.said)
    memory.said = set(active)
    return fresh


def _warning(trouble: Trouble) -> Event:
    return Event(EventType.WARNING, trouble.code.value, "Reconcile", trouble.text)


