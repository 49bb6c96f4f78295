"""Which nodes of a compartment are worked on now (ROL-5, ROL-10 to ROL-14): members of the batch, those that go on,
new picks, and the batch's evaluation.

The picks on the nodes are the truth; `batchState` in status is a summary that is corrected by them. Everything is
worked out anew on each pass: a
crash between any two writes leaves picks from which the same decision follows. Pure; `plan` calls `decide` once per compartment.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

import msgspec

from nodewright.engine.batches import WITHOUT_STRATEGY, BatchState, Strategy, batch_size, evaluate
from nodewright.engine.facts import NodeFacts, Outcome
from nodewright.engine.members import Members, current_state, sort_members
from nodewright.model.pick import Pick, after
from nodewright.model.reason import Code, Reason


class Role(Enum):
    """What a node is in its compartment now."""

    WORKS = auto()  # a member under way: every stage it has may start
    ENDS = auto()  # its running Job goes on, no next stage starts (ROL-10a, ROL-17)
    DEFINITE = auto()  # a member with an outcome: keeps its pick, holds no slot
    BUSY = auto()  # its writes of an earlier pass are under way: it is not planned, and works as far as anybody sees
    WAITS = auto()  # for its turn or its batch
    LATER = auto()  # is picked as soon as the picks of this pass are written
    DONE = auto()  # complete, nothing to decide


@dataclass(frozen=True, slots=True)
class Decision:
    """What a node may do in this pass. `pick` is what its annotation has to be (None: as it is or none); `reason`
    says why it does not move."""

    role: Role
    pick: Pick | None = None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Compartment:
    """A named part of the selected nodes with its own batches (ROL-5, ROL-6). `size` None means unlimited: nothing is batched."""

    name: str
    ceiling: int
    unlimited: bool = False
    strategy: Strategy | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """What all compartments of a CR share in one pass.

    `hold` keeps members that were definite and new picks from starting; `frozen` does so because the batch state has
    to return to its start first
    (ROL-15): until that has landed no pick is given or changed. Where nothing is batched a pass picks at most `most_picks` nodes.
    """

    rollout: int
    next_order: int
    time: str
    hold: Reason | None = None
    frozen: bool = False
    most_picks: int = 200


@dataclass(frozen=True, slots=True)
class Result:
    """The decisions of a compartment, its batch state to publish, and whether that has to land before anything is picked."""

    decisions: Mapping[str, Decision]
    state: BatchState
    under_way: int
    urgent: bool


def decide(
    compartment: Compartment,
    nodes: Iterable[NodeFacts],
    state: BatchState,
    common: Round,
    *,
    turns: Mapping[str, Reason],
    busy: Mapping[str, Pick | None],
    population: int,
    refused: Collection[str] = (),
) -> Result:
    """The decisions of one compartment.

    `turns` names nodes whose turn has not come, `busy` those whose writes are still under way, `refused` those whose
    last write did not go through: they come after all others, or the first of them would be chosen in every pass and
    keep the others back (LIF-4).
    """
    facts = tuple(nodes)
    state = _sized(compartment, state, current_state(state, facts, common.rollout, compartment.name), facts, population)
    members = sort_members(facts, state, common.rollout, busy)
    size = _size(compartment, state, members, population)
    fresh = None if common.frozen else _evaluate(compartment, state, members, population)
    gate = common.hold or (_RECORDING if fresh is not None or common.frozen else None)
    batch = _Batch(compartment, common, turns, fresh or state, size, members.slots, gate)
    for one in members.done:
        batch.decisions[one.name] = _DONE
    for one in members.busy:
        batch.decisions[one.name] = _busy(busy[one.name])
    for one in members.taken_in:
        batch.take_in(one)
    for one in members.under_way:
        batch.work_on(one)
    for one in members.definite:
        batch.decisions[one.name] = _definite(one, common, batch.state.current_batch)
    for one in members.going_on:
        if one.name not in refused:
            batch.go_on(one)
    closed = batch.closed(waits_for_outcomes=members.undecided > 0)
    for one in sorted(members.candidates, key=lambda one: one.name in refused) if refused else members.candidates:
        closed = batch.pick(one, closed)
    for one in members.going_on:
        if one.name in refused:
            batch.go_on(one)
    for one in members.idle:
        batch.decisions[one.name] = Decision(Role.WAITS, None, turns.get(one.name) or _not_now(one) or closed)
    batch.number()
    return Result(batch.decisions, batch.state, batch.slots, fresh is not None)


_DONE = Decision(Role.DONE)
_WORKS = Decision(Role.WORKS)
_LATER = Decision(
    Role.LATER, None, Reason(Code.EVALUATION, "the picks of this pass are being written", "the next pass")
)
_RECORDING = Reason(Code.EVALUATION, "the outcome of the batch is being recorded", "the next pass")


class _Batch:
    """The batch as a pass fills it: members that work on, that go on, and new picks, as long as there is room."""

    def __init__(
        self,
        compartment: Compartment,
        common: Round,
        turns: Mapping[str, Reason],
        state: BatchState,
        size: int,
        slots: int,
        gate: Reason | None,
    ) -> None:
        self.decisions: dict[str, Decision] = {}
        self.picked: list[str] = []
        self.state = state
        self.slots = slots
        self._compartment = compartment
        self._common = common
        self._turns = turns
        self._size = size
        self._gate = gate

    def work_on(self, one: NodeFacts) -> None:
        """A member under way: it goes on, unless a predecessor opened again (ROL-17)."""
        reason = self._turns.get(one.name)
        self.decisions[one.name] = _WORKS if reason is None else Decision(Role.ENDS, None, reason)

    def take_in(self, one: NodeFacts) -> None:
        """A node at work without a pick of this rollout comes before any other (ROL-13, ROL-15)."""
        if self._common.frozen:
            # Its number may only be given once the rollout it belongs to is there; one that has a number works on with it.
            self.decisions[one.name] = (
                Decision(Role.ENDS, None, _RECORDING) if one.pick is None or one.pick.over else _WORKS
            )
            return
        pick = self._new_pick(one) if one.pick is None or one.pick.over else self._moved(one.pick)
        reason = self._turns.get(one.name)
        self.decisions[one.name] = Decision(Role.WORKS if reason is None else Role.ENDS, pick, reason)

    def go_on(self, one: NodeFacts) -> None:
        """A definite member that has work again, as soon as there is room (ROL-10a), also in a stopped compartment."""
        reason = self._gate or self._turns.get(one.name) or self._full()
        if reason is not None or one.pick is None:
            self.decisions[one.name] = Decision(Role.ENDS if one.unfinished else Role.WAITS, None, reason)
            return
        self.decisions[one.name] = Decision(Role.WORKS, self._moved(one.pick))
        self.slots += 1

    def closed(self, *, waits_for_outcomes: bool) -> Reason | None:
        """Why the compartment picks nobody new (ROL-10, ROL-11)."""
        if self._gate is not None or self._compartment.unlimited:
            return self._gate
        if self.state.should_stop:
            text = f"compartment {self._compartment.name} stopped after failed batches"
            return Reason(Code.ROLLOUT_STOPPED, text, "reset its batch state")
        if self._size == 0:
            return Reason(Code.BUDGET_ZERO, "the budget admits no node", "raise interruptionBudget")
        if self.slots:
            return self._too_full()
        return _RECORDING if waits_for_outcomes else None

    def pick(self, one: NodeFacts, closed: Reason | None) -> Reason | None:
        """Pick the node if nothing speaks against it; why the next one may not be picked."""
        reason = self._turns.get(one.name) or closed
        if reason is not None:
            self.decisions[one.name] = Decision(Role.WAITS, None, reason)
            return closed
        if self._compartment.unlimited and len(self.picked) >= self._common.most_picks:
            # A batch is picked as a whole: once it has members it is closed (ROL-10).
            self.decisions[one.name] = _LATER
            return closed
        self.decisions[one.name] = Decision(Role.WORKS, self._new_pick(one))
        self.slots += 1
        return self._full()

    def number(self) -> None:
        """Order numbers of this pass's picks go by rank of name (ROL-14), whatever the order in which they were chosen."""
        order = self._common.next_order
        for name in sorted(self.picked):
            decision = self.decisions[name]
            if decision.pick is not None:
                self.decisions[name] = replace(decision, pick=msgspec.structs.replace(decision.pick, order=order))
                order = after(order)

    def _new_pick(self, one: NodeFacts) -> Pick:
        self.picked.append(one.name)
        return Pick(
            self._common.rollout, self._raised(), self._compartment.name, self._common.next_order, self._common.time
        )

    def _moved(self, pick: Pick) -> Pick:
        return msgspec.structs.replace(
            pick, rollout=self._common.rollout, batch=self._raised(), outcome="", completed=False
        )

    def _raised(self) -> int:
        """The batch rises with the first pick, or the first member that goes on, after an evaluation (ROL-11)."""
        if self.state.evaluated:
            raised = after(self.state.current_batch)
            self.state = replace(self.state, current_batch=raised, evaluated=False, last_batch_size=self._size)
        elif self.state.last_batch_size == 0:
            self.state = replace(self.state, last_batch_size=self._size)
        return self.state.current_batch

    def _full(self) -> Reason | None:
        return None if self._compartment.unlimited or self.slots < self._size else self._too_full()

    def _too_full(self) -> Reason:
        return Reason(
            Code.BATCH_FULL, f"waits for the batch under way (size {self._size})", "its members reach an outcome"
        )


def _size(compartment: Compartment, state: BatchState, members: Members, population: int) -> int:
    """The size of the batch that is current, or that comes next once this one was evaluated."""
    if compartment.strategy is None:
        return population if compartment.unlimited else compartment.ceiling
    if not state.evaluated and state.last_batch_size and members.in_batch:
        return state.last_batch_size
    processed = members.complete + members.erroring
    return batch_size(compartment.strategy, state, processed=processed, total=population)


def _sized(
    compartment: Compartment, before: BatchState, state: BatchState, facts: tuple[NodeFacts, ...], population: int
) -> BatchState:
    """The batch that the picks show and status does not know yet has the size the strategy gave it, worked out again (LIF-2)."""
    if state.current_batch == before.current_batch or compartment.strategy is None or not before.evaluated:
        return state
    processed = sum(
        1
        for one in facts
        if one.outcome in (Outcome.COMPLETE, Outcome.ERRORING)
        and (one.pick is None or one.pick.batch < state.current_batch)
    )
    return replace(
        state, last_batch_size=batch_size(compartment.strategy, before, processed=processed, total=population)
    )


def _evaluate(compartment: Compartment, state: BatchState, members: Members, population: int) -> BatchState | None:
    """The state after the evaluation, if it is due (ROL-11): every member's outcome is on its node and no slot is held."""
    if compartment.unlimited:
        return None  # nothing is batched (ROL-5)
    if state.evaluated or members.slots or members.undecided or not members.succeeded + members.failed:
        return None
    return evaluate(
        compartment.strategy or WITHOUT_STRATEGY,
        state,
        succeeded=members.succeeded,
        failed=members.failed,
        processed=members.complete + members.erroring,
        total=population,
    )


def _busy(pick: Pick | None) -> Decision:
    """A node whose writes are under way: what it will be once they landed."""
    working = pick is not None and not pick.over and not pick.outcome
    return Decision(Role.BUSY if working else Role.ENDS, pick)


def _definite(one: NodeFacts, common: Round, batch: int) -> Decision:
    """The member's outcome goes into its pick; one of an earlier rollout that has begun stays, in this one's batch (ROL-15)."""
    if one.pick is None or one.outcome is None:
        return Decision(Role.DEFINITE)
    pick = one.pick
    if pick.rollout != common.rollout and not common.frozen:
        pick = msgspec.structs.replace(pick, rollout=common.rollout, batch=batch)
    if one.outcome is Outcome.COMPLETE:
        return Decision(Role.DONE, msgspec.structs.replace(pick, completed=True, outcome=""))
    return Decision(Role.DEFINITE, msgspec.structs.replace(pick, outcome=one.outcome.name.lower()))


def _not_now(one: NodeFacts) -> Reason | None:
    return next((p.reason for p in one.packages if p.reason is not None), None)
