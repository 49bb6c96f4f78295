"""Which nodes of a compartment are worked on now (ROL-5, ROL-10 to ROL-14): members of the batch, those that go on, new picks, and the batch's evaluation.

The picks on the nodes are the truth; `batchState` in status is a summary that is corrected by them. Everything is worked out anew on each pass: a
crash between any two writes leaves picks from which the same decision follows. Pure; `plan` calls `decide` once per compartment.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import msgspec

from nodewright.engine.batches import WITHOUT_STRATEGY, BatchState, Strategy, batch_size, evaluate
from nodewright.engine.facts import NodeFacts, Outcome
from nodewright.model.pick import Pick
from nodewright.model.reason import Code, Reason


class Role(Enum):
    """What a node is in its compartment now."""

    WORKS = auto()  # a member under way: every stage it has may start
    ENDS = auto()  # its running Job goes on, no next stage starts (ROL-10a, ROL-17)
    DEFINITE = auto()  # a member with an outcome: keeps its pick, holds no slot
    WAITS = auto()  # for its turn or its batch
    DONE = auto()  # complete, nothing to decide


@dataclass(frozen=True, slots=True)
class Decision:
    """What a node may do in this pass. `pick` is what its annotation has to be (None: as it is or none); `reason` says why it does not move."""

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
    """What all compartments of a CR share in one pass. `may_pick` False holds new picks for the reason in `hold`."""

    rollout: int
    next_order: int
    time: str
    hold: Reason | None = None
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The decisions of a compartment, its batch state to publish, and whether that has to land before anything is picked."""

    decisions: Mapping[str, Decision]
    state: BatchState
    under_way: int
    urgent: bool
    picked: int


@dataclass(slots=True)
class _Members:
    under_way: list[NodeFacts] = field(default_factory=list)
    taken_in: list[NodeFacts] = field(default_factory=list)
    definite: list[NodeFacts] = field(default_factory=list)
    going_on: list[NodeFacts] = field(default_factory=list)
    candidates: list[NodeFacts] = field(default_factory=list)
    idle: list[NodeFacts] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    slots: int = 0
    succeeded: int = 0
    failed: int = 0
    in_batch: int = 0
    erroring: int = 0
    complete: int = 0
    undecided: int = 0


def decide(
    compartment: Compartment,
    nodes: Iterable[NodeFacts],
    state: BatchState,
    common: Round,
    *,
    turns: Mapping[str, Reason],
    busy: Mapping[str, Pick | None],
    population: int,
) -> Result:
    """The decisions of one compartment. `turns` names nodes whose turn has not come, `busy` those whose writes are still under way."""
    facts = list(nodes)
    state = _corrected(state, facts, common.rollout, compartment.name)
    members = _sort(facts, state, common.rollout, busy)
    decisions: dict[str, Decision] = dict.fromkeys(members.done, _DONE)
    slots = members.slots + len(members.under_way) + len(members.taken_in)
    size = _size(compartment, state, members, population)
    fresh = None if common.frozen else _evaluate(compartment, state, members, slots, population)
    state = fresh or state
    batch, order = state.current_batch, common.next_order
    for one in members.taken_in:
        state, batch = _raised(state, size)
        fresh_pick = Pick(common.rollout, batch, compartment.name, order, common.time)
        decisions[one.name] = _working(one, turns, fresh_pick if one.pick is None else _moved(one.pick, common.rollout, batch))
        order += one.pick is None
    for one in members.under_way:
        decisions[one.name] = _working(one, turns, None)
    for one in members.definite:
        decisions[one.name] = _definite(one, common.rollout, batch)
    recording = Reason(Code.EVALUATION, "the outcome of the batch is being recorded", "the next pass")
    gate = common.hold or (recording if fresh is not None or common.frozen else None)
    for one in members.going_on:
        reason = gate or turns.get(one.name) or (None if compartment.unlimited or slots < size else _full(size))
        if reason is None:
            state, batch = _raised(state, size)
            decisions[one.name] = Decision(Role.WORKS, _moved(one.pick, common.rollout, batch))
            slots += 1
        else:
            decisions[one.name] = Decision(Role.ENDS if one.unfinished else Role.WAITS, None, reason)
    closed = gate or _closed(compartment, state, slots, size)
    if closed is None and members.undecided and not slots and not compartment.unlimited:
        closed = recording
    for one in members.candidates:
        reason = turns.get(one.name) or closed
        if reason is not None:
            decisions[one.name] = Decision(Role.WAITS, None, reason)
            continue
        state, batch = _raised(state, size)
        decisions[one.name] = Decision(Role.WORKS, Pick(common.rollout, batch, compartment.name, order, common.time))
        order, slots = order + 1, slots + 1
        closed = None if compartment.unlimited or slots < size else _full(size)
    for one in members.idle:
        decisions[one.name] = Decision(Role.WAITS, None, turns.get(one.name) or _not_now(one) or closed)
    return Result(_numbered(decisions, common.next_order), state, slots, fresh is not None, order - common.next_order)


_DONE = Decision(Role.DONE)
_WORKS = Decision(Role.WORKS)


def _numbered(decisions: dict[str, Decision], first: int) -> dict[str, Decision]:
    """Order numbers of this pass's picks go by rank of name (ROL-14), whatever the order in which they were chosen."""
    new = sorted(name for name, d in decisions.items() if d.pick is not None and d.pick.order >= first)
    for rank, name in enumerate(new):
        decision = decisions[name]
        if decision.pick is not None:
            decisions[name] = replace(decision, pick=msgspec.structs.replace(decision.pick, order=first + rank))
    return decisions


def _sort(facts: list[NodeFacts], state: BatchState, rollout: int, busy: Mapping[str, Pick | None]) -> _Members:
    members = _Members()
    for one in facts:
        members.complete += one.outcome is Outcome.COMPLETE
        members.erroring += one.outcome is Outcome.ERRORING
        if one.name in busy:
            _count_busy(members, busy[one.name])
            continue
        pick = one.pick
        if pick is not None and not one.involved and not pick.over:
            pick = None  # void (ROL-13)
        if pick is None or pick.over:
            if pick is not None and pick.rollout == rollout and pick.batch == state.current_batch:
                members.in_batch += 1
                members.succeeded += 1
            _sort_unpicked(members, one)
            continue
        if pick.batch == state.current_batch and pick.rollout == rollout:
            members.in_batch += 1
            members.failed += pick.outcome == "erroring"
            members.undecided += pick.outcome == ""
        if one.outcome is not None:
            members.definite.append(one)
        elif pick.outcome:
            members.going_on.append(one)
        elif pick.rollout != rollout:
            members.taken_in.append(one)
        else:
            members.under_way.append(one)
    members.candidates.sort(key=_preference)
    members.going_on.sort(key=lambda one: one.name)
    members.taken_in.sort(key=lambda one: one.name)
    return members


def _count_busy(members: _Members, pick: Pick | None) -> None:
    """A node whose writes are under way holds what it will hold once they landed."""
    if pick is not None:
        members.undecided += 1
        members.slots += not pick.over


def _sort_unpicked(members: _Members, one: NodeFacts) -> None:
    if one.outcome is Outcome.COMPLETE:
        members.done.append(one.name)
    elif one.outcome is None and (one.unfinished or one.own_cordon):
        members.taken_in.append(one)
    elif _may_start(one):
        members.candidates.append(one)
    else:
        members.idle.append(one)


_RANK = {"waiting": 0, "blocked": 2, "erroring": 3}


def _preference(one: NodeFacts) -> tuple[int, str]:
    """Last Status waiting, then every other, then blocked, then erroring; by name within each (ROL-13)."""
    return (_RANK.get(one.last_status, 1), one.name)


def _may_start(one: NodeFacts) -> bool:
    return one.outcome is None and one.can_start and not one.ignored and not one.untolerated and one.malformed is None


def _corrected(state: BatchState, facts: list[NodeFacts], rollout: int, compartment: str) -> BatchState:
    """Batch state held against the picks on the nodes, which win (LIF-1, ROL-12)."""
    picks = [one.pick for one in facts if one.pick is not None and one.pick.rollout == rollout and one.pick.compartment == compartment]
    completed = sum(1 for p in picks if p.over)
    failed = sum(1 for p in picks if p.outcome == "erroring")
    state = replace(state, completed_nodes=completed, failed_nodes=failed)
    newest = max((p.batch for p in picks), default=0)
    if newest > state.current_batch:
        state = replace(state, current_batch=newest, evaluated=False)
    return state


def _size(compartment: Compartment, state: BatchState, members: _Members, population: int) -> int:
    """The size of the batch that is current, or that comes next once this one was evaluated."""
    if compartment.strategy is None:
        return population if compartment.unlimited else compartment.ceiling
    if not state.evaluated and state.last_batch_size and members.in_batch:
        return state.last_batch_size
    processed = members.complete + members.erroring
    return batch_size(compartment.strategy, state, processed=processed, total=population)


def _evaluate(
    compartment: Compartment, state: BatchState, members: _Members, slots: int, population: int
) -> BatchState | None:
    """The state after the evaluation, if it is due (ROL-11): every member's outcome is on its node and no slot is held."""
    if state.evaluated or slots or members.undecided or not members.succeeded + members.failed:
        return None
    return evaluate(
        compartment.strategy or WITHOUT_STRATEGY,
        state,
        succeeded=members.succeeded,
        failed=members.failed,
        processed=members.complete + members.erroring,
        total=population,
        sizes_move=compartment.strategy is not None,
    )


def _raised(state: BatchState, size: int) -> tuple[BatchState, int]:
    """The batch rises with the first pick, or the first member that goes on, after an evaluation (ROL-11)."""
    if state.evaluated:
        state = replace(state, current_batch=state.current_batch + 1, evaluated=False, last_batch_size=size)
    elif state.last_batch_size == 0:
        state = replace(state, last_batch_size=size)
    return state, state.current_batch


def _closed(compartment: Compartment, state: BatchState, slots: int, size: int) -> Reason | None:
    """Why the compartment picks nobody new (ROL-10, ROL-11)."""
    if compartment.unlimited:
        return None
    if state.should_stop:
        return Reason(Code.ROLLOUT_STOPPED, f"compartment {compartment.name} stopped after failed batches", "reset its batch state")
    if size == 0:
        return Reason(Code.BUDGET_ZERO, "the budget admits no node", "raise interruptionBudget")
    return _full(size) if slots else None


def _full(size: int) -> Reason:
    return Reason(Code.BATCH_FULL, f"waits for the batch under way (size {size})", "its members reach an outcome")


def _working(one: NodeFacts, turns: Mapping[str, Reason], pick: Pick | None) -> Decision:
    reason = turns.get(one.name)
    if reason is not None:
        return Decision(Role.ENDS, pick, reason)
    return _WORKS if pick is None else Decision(Role.WORKS, pick)


def _definite(one: NodeFacts, rollout: int, batch: int) -> Decision:
    """The member's outcome goes into its pick; one of an earlier rollout that has begun stays, in this one's batch (ROL-15)."""
    if one.pick is None or one.outcome is None:
        return Decision(Role.DEFINITE)
    pick = one.pick
    if pick.rollout != rollout:
        pick = msgspec.structs.replace(pick, rollout=rollout, batch=batch)
    if one.outcome is Outcome.COMPLETE:
        return Decision(Role.DONE, msgspec.structs.replace(pick, completed=True, outcome=""))
    return Decision(Role.DEFINITE, msgspec.structs.replace(pick, outcome=one.outcome.name.lower()))


def _moved(pick: Pick | None, rollout: int, batch: int) -> Pick | None:
    if pick is None:
        return None
    return msgspec.structs.replace(pick, rollout=rollout, batch=batch, outcome="", completed=False)


def _not_now(one: NodeFacts) -> Reason | None:
    return next((p.reason for p in one.packages if p.reason is not None), None)
