"""One pass: a snapshot in, a plan out (LIF-1).

`Engine.plan` is synchronous, deterministic and total: what is malformed becomes a Reason, a condition and a held
package, never an exception. It
tells the story of a pass in the order in which the rules have it; each step is a module of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec
from nodewright.engine import deletion, ordering
from nodewright.engine.announcements import announce
from nodewright.engine.batches import BatchState, ceiling, read_batch_state
from nodewright.engine.conditions import rfc3339
from nodewright.engine.facts import NodeFacts
from nodewright.engine.leftovers import homeless_jobs, leavers, leaving_picks, stale_metadata
from nodewright.engine.memory import CrMemory, Memory, Quiet
from nodewright.engine.node_plan import Context, Mode, NodeOutcome, Status
from nodewright.engine.published import Rollout, read_rollout
from nodewright.engine.resources import ConfigMaps, package_configmaps
from nodewright.engine.rollout import Compartment, Decision, Result, Role, Round, decide
from nodewright.engine.status import CompartmentResult, PassResult, build_status, cr_status, long_lists, whole_status
from nodewright.engine.troubles import Trouble
from nodewright.engine.unreadable import plan_unreadable
from nodewright.model.pick import DEFAULT_COMPARTMENT
from nodewright.model.plan import FinalizerChange, NodePlan, Plan, StatusDraft
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
            return deletion.plan(snapshot, now, self._memory.said(cr))
        if keys.FINALIZER not in cr.meta.finalizers:
            return Plan(finalizer=FinalizerChange.ADD)  # before any other write (CHG-11)
        if cr.spec is None:
            return plan_unreadable(cr, now)
        memory = self._memory.of(cr, cr.spec)
        changed = memory.look(snapshot)
        if not memory.known:
            return Plan(wake_at=now)
        quiet = memory.quiet
        if quiet is not None and not changed and quiet.holds(snapshot, now):
            return Plan(status=_draft(replace(quiet.result, now=now), urgent=quiet.urgent), wake_at=quiet.wake_at)
        return self._plan(snapshot, cr.spec, memory, now)

    def _plan(self, snapshot: Snapshot, spec: NodeWrightSpec, memory: CrMemory, now: float) -> Plan:
        """The pass in full; one that has nothing to do is kept until something changes."""
        mode = _mode(snapshot)
        configmaps = _configmaps(memory, snapshot, now)
        if memory.hold(configmaps.held):
            memory.look(snapshot)
        facts = memory.selected
        population = len(facts)

        self._memory.bound(snapshot)
        turn = ordering.turn(snapshot, self._memory.complete)
        before = read_rollout(
            snapshot.cr.published,
            spec.package_list,
            facts.values(),
            resets=_resets(spec),
            busy=snapshot.busy,
            given=snapshot.given,
            leaving=leaving_picks(memory),
        )
        compartment = _compartment(spec, population)
        state = read_batch_state(before.batch_state, population=population)
        common = Round(before.number, before.next_order, rfc3339(now), _hold(mode), frozen=before.pending)
        turns = _turns(turn, facts.values())
        refused = _refused_nodes(memory, snapshot)
        decided = decide(
            compartment,
            facts.values(),
            state,
            common,
            turns=turns,
            busy=snapshot.busy,
            population=population,
            refused=refused,
        )

        context = Context(memory.scope, snapshot.cr, snapshot, mode, now, suspend=ordering.suspends_jobs(snapshot.cr))
        planned = memory.outcomes(context, decided.decisions, _UNDECIDED, refused)
        outcomes = planned.of
        leaving = leavers(memory, snapshot)
        result = _result(
            context, before, decided, compartment, facts, outcomes, turn.barrier, configmaps, leaving.troubles
        )
        result = replace(result, foreign=memory.foreign.reasons(memory.metadata_names))
        wakes = [o.wake_at for o in outcomes.values() if o.wake_at is not None]
        wakes += [t.due for t in leaving.troubles if t.due > now]
        wakes += [now] if planned.later and not before.pending else []
        wakes += [configmaps.wake_at] if configmaps.wake_at is not None else []
        plan = Plan(
            configmaps=configmaps.writes,
            nodes=_nodes(snapshot, outcomes, leaving.plans, starting=before.pending),
            job_deletes=homeless_jobs(memory, snapshot),
            configmap_deletes=(*configmaps.deletes, *stale_metadata(memory, snapshot)),
            status=_draft(result, urgent=decided.urgent or before.pending),
            events=announce(self._memory.said(snapshot.cr), result),
            wake_at=min(wakes, default=None),
        )
        memory.quiet = None if before.pending else Quiet.of(snapshot, plan, result, urgent=decided.urgent)
        return plan


_UNDECIDED = Decision(Role.ENDS)


def _draft(result: PassResult, *, urgent: bool) -> StatusDraft:
    return StatusDraft(
        result.cr_status.value,
        lambda: build_status(result),
        urgent=urgent,
        long_lists=lambda: long_lists(result),
        whole=lambda: whole_status(result),
    )


def _refused_nodes(memory: CrMemory, snapshot: Snapshot) -> frozenset[str]:
    """The nodes whose last write did not go through, that of the ConfigMap which their pods mount included (LIF-4, LIF-12)."""
    if not snapshot.refused:
        return frozenset()
    names = {key.removeprefix("Node/") for key in snapshot.refused if key.startswith("Node/")}
    maps = {key.removeprefix("ConfigMap/") for key in snapshot.refused if key.startswith("ConfigMap/")}
    if maps & memory.metadata_names:
        names.update(name for name in memory.selected if memory.records[name].metadata_name in maps)
    return frozenset(names)


def _mode(snapshot: Snapshot) -> Mode:
    if ordering.is_disabled(snapshot.cr):
        return Mode.DISABLED
    return Mode.PAUSED if ordering.is_paused(snapshot.cr) else Mode.RUN


def _hold(mode: Mode) -> Reason | None:
    """What the CR's annotations hold (ROL-18)."""
    return (
        None
        if mode is Mode.RUN
        else Reason(Code(mode.name.capitalize()), f"the NodeWright is {mode}", "remove the annotation")
    )


def _resets(spec: NodeWrightSpec) -> bool:
    """Whether batch state returns to its start by itself (ROL-15)."""
    own = spec.deployment_policy_options.reset_batch_state_on_completion
    return True if own is None else own


def _turns(turn: ordering.Turn, facts: Iterable[NodeFacts]) -> Mapping[str, Reason]:
    if turn.free:
        return {}
    if turn.barrier is not None:
        return {one.name: turn.barrier for one in facts}
    return {one.name: reason for one in facts if (reason := turn.on(one.node)) is not None}


def _compartment(spec: NodeWrightSpec, population: int) -> Compartment:
    """Without a policy all selected nodes are one compartment (ROL-5)."""
    budget = spec.interruption_budget
    if budget is None or not budget.is_set:
        return Compartment(DEFAULT_COMPARTMENT, population, unlimited=True)
    return Compartment(DEFAULT_COMPARTMENT, ceiling(population=population, percent=budget.percent, count=budget.count))


def _configmaps(memory: CrMemory, snapshot: Snapshot, now: float) -> ConfigMaps:
    """What package ConfigMaps need."""
    cr = snapshot.cr
    if not memory.scope.mounts and not snapshot.configmaps_of(cr.name):
        return _NO_CONFIGMAPS

    def installed() -> set[str]:
        return {key for one in memory.selected.values() for key, entry in one.entries.items() if entry.begun}

    def busy() -> set[str]:
        unfinished = (job for job in snapshot.jobs_of(cr.name) if not job.finished)
        return {job.metadata.labels.get(keys.LABEL_PACKAGE, "") for job in unfinished}

    return package_configmaps(memory.scope, cr, snapshot, installed=installed, busy_labels=busy, now=now)


_NO_CONFIGMAPS = ConfigMaps((), (), {}, None)


def _nodes(
    snapshot: Snapshot, outcomes: Mapping[str, NodeOutcome], leaving: Iterable[NodePlan], *, starting: bool
) -> tuple[NodePlan, ...]:
    """What is written to nodes; those whose writes of an earlier pass are under way have to wait.

    `starting`: this pass picks nobody, the next one will. A node that only changes its Status now would be written
    twice in a row.
    """
    plans = [outcome.plan for outcome in outcomes.values() if not outcome.plan.empty]
    if starting:
        plans = [p for p in plans if p.suspends or p.marks or p.job_deletes or p.pod_deletes or p.events]
    plans += [plan for plan in leaving if not plan.empty]
    return tuple(sorted((p for p in plans if p.node.metadata.name not in snapshot.busy), key=_urgency))


def _urgency(plan: NodePlan) -> tuple[int, str]:
    """Nodes whose work starts or goes on come before those that only change their Status."""
    return (0 if plan.creates else 1 if plan.marks else 2, plan.node.metadata.name)


def _result(
    context: Context,
    before: Rollout,
    decided: Result,
    compartment: Compartment,
    facts: Mapping[str, NodeFacts],
    outcomes: Mapping[str, NodeOutcome],
    barrier: Reason | None,
    configmaps: ConfigMaps,
    leaving: Iterable[Trouble],
) -> PassResult:
    """All that is published of the pass."""
    scope = context.scope
    invalid = bool(scope.obstacles.invalid) and not facts
    overall = cr_status(
        (o.status for o in outcomes.values()), mode=context.mode, barrier=barrier is not None, invalid=invalid
    )
    # Only what is on nodes, or being written, has a number (ROL-14): a pick that does not land has taken none.
    state, number, next_order = decided.state, before.number, before.next_order
    if before.pending or (overall is Status.COMPLETE and before.resets and (before.in_use or not state.at_start)):
        # Batch state returns to its start with the packageList, or with the completion, it belongs to (ROL-15).
        state, number, next_order = BatchState(), before.next_number, before.order_after_reset
    return PassResult(
        cr=context.cr,
        scope=scope,
        mode=context.mode,
        now=context.now,
        cr_status=overall,
        facts=dict(facts),
        outcomes=outcomes,
        picks={name: p for name, o in outcomes.items() if (p := o.plan.pick) is not None and not p.over},
        compartments=(CompartmentResult(compartment, state, decided.under_way, tuple(facts.values())),),
        rollout=number,
        next_order=next_order,
        package_list=scope.spec.package_list,
        barrier=barrier,
        held=configmaps.held,
        troubles=tuple(
            t for t in chain(*(one.troubles for one in facts.values() if one.troubles), leaving) if t.due <= context.now
        ),
    )
