"""The nodes of a compartment by what they are in its batch: at work, definite, going on, to be picked, or none of
its business (ROL-10, ROL-13).

The picks on the nodes say it; batch state in status is corrected by them. Pure; `rollout` decides by the result.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nodewright.engine.batches import BatchState
from nodewright.engine.facts import NodeFacts, Outcome
from nodewright.model.pick import Pick


@dataclass(slots=True)
class Members:
    """The sorted nodes, each in exactly one list, and what of the current batch is known.

    `slots` are held by nodes at work; `in_batch` counts picks of the current batch, of which `succeeded` and
    `failed` have that outcome on their
    node and `undecided` none yet. `complete` and `erroring` count nodes of the whole compartment.
    """

    under_way: list[NodeFacts] = field(default_factory=list)
    taken_in: list[NodeFacts] = field(default_factory=list)
    definite: list[NodeFacts] = field(default_factory=list)
    going_on: list[NodeFacts] = field(default_factory=list)
    candidates: list[NodeFacts] = field(default_factory=list)
    idle: list[NodeFacts] = field(default_factory=list)
    done: list[NodeFacts] = field(default_factory=list)
    busy: list[NodeFacts] = field(default_factory=list)
    slots: int = 0
    succeeded: int = 0
    failed: int = 0
    in_batch: int = 0
    erroring: int = 0
    complete: int = 0
    undecided: int = 0


def sort_members(
    facts: Iterable[NodeFacts], state: BatchState, rollout: int, busy: Mapping[str, Pick | None]
) -> Members:
    """Put each node into its list. A node in `busy` counts as what it will be once its writes landed."""
    members = Members()
    for one in facts:
        members.complete += one.outcome is Outcome.COMPLETE
        members.erroring += one.outcome is Outcome.ERRORING
        if busy and one.name in busy:
            _sort_busy(members, one, busy[one.name], state, rollout)
            continue
        pick = one.pick
        if pick is None or pick.over:
            if pick is not None and _in_batch(pick, state, rollout):
                members.in_batch += 1
                members.succeeded += 1
            _sort_unpicked(members, one)
        elif not one.involved:
            _sort_unpicked(members, one)  # the pick is void (ROL-13)
        else:
            _sort_picked(members, one, pick, state, rollout)
    members.candidates.sort(key=_preference)
    members.going_on.sort(key=_name)
    members.taken_in.sort(key=_name)
    members.slots += len(members.under_way) + len(members.taken_in)
    return members


def _in_batch(pick: Pick, state: BatchState, rollout: int) -> bool:
    return pick.batch == state.current_batch and pick.rollout == rollout


def _sort_busy(members: Members, one: NodeFacts, pick: Pick | None, state: BatchState, rollout: int) -> None:
    """The slot is held and the outcome unknown until the writes have landed."""
    members.busy.append(one)
    if pick is None:
        return
    members.slots += not pick.over and not pick.outcome
    members.undecided += _in_batch(pick, state, rollout) or pick.batch > state.current_batch


def _sort_picked(members: Members, one: NodeFacts, pick: Pick, state: BatchState, rollout: int) -> None:
    if _in_batch(pick, state, rollout):
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


def _sort_unpicked(members: Members, one: NodeFacts) -> None:
    if one.outcome is Outcome.COMPLETE:
        members.done.append(one)
    elif one.outcome is None and (one.unfinished or one.own_cordon):
        members.taken_in.append(one)
    elif _may_start(one):
        members.candidates.append(one)
    else:
        members.idle.append(one)


def _may_start(one: NodeFacts) -> bool:
    return (
        one.outcome is None
        and bool(one.startable)
        and not one.ignored
        and not one.untolerated
        and one.malformed is None
    )


_RANK = {"waiting": 0, "blocked": 2, "erroring": 3}


def _preference(one: NodeFacts) -> tuple[int, str]:
    """Last Status waiting, then every other, then blocked, then erroring; by name within each (ROL-13)."""
    return (_RANK.get(one.last_status, 1), one.name)


def _name(one: NodeFacts) -> str:
    return one.name


def current_state(state: BatchState, facts: Iterable[NodeFacts], rollout: int, compartment: str) -> BatchState:
    """Batch state held against the picks on the nodes, which win (LIF-1, ROL-12)."""
    completed = failed = newest = 0
    for one in facts:
        pick = one.pick
        if pick is None or pick.rollout != rollout or pick.compartment != compartment:
            continue
        completed += pick.completed
        failed += pick.outcome == "erroring" and not pick.completed
        newest = max(newest, pick.batch)
    if completed != state.completed_nodes or failed != state.failed_nodes:
        state = replace(state, completed_nodes=completed, failed_nodes=failed)
    return replace(state, current_batch=newest, evaluated=False) if newest > state.current_batch else state
