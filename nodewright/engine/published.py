"""What is read back from a CR's published status (LIF-1): rollout number, order offset, batch state and the packageList they belong to.

Held against the picks on the nodes, which win: a number is above any found there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodewright.engine.facts import NodeFacts, Outcome
from nodewright.model.pick import DEFAULT_COMPARTMENT, Pick, after, is_possible


@dataclass(frozen=True, slots=True)
class Rollout:
    """The rollout as a pass finds it.

    `pending`: batch state has to return to its start before anything is picked (ROL-15). `in_use`: a pick of this
    rollout is on a node, over or not.
    `next_order` is above every number given in this rollout (ROL-14); `order_after_reset` above those of members that stay.
    """

    number: int
    next_number: int
    next_order: int
    order_after_reset: int
    batch_state: object
    pending: bool
    in_use: bool
    resets: bool


def read_rollout(
    published: Mapping[str, Any],
    package_list: str,
    facts: Iterable[NodeFacts],
    *,
    resets: bool,
    busy: Mapping[str, Pick | None],
    given: Mapping[int, int],
    leaving: Sequence[Pick] = (),
) -> Rollout:
    """The rollout by status and picks, those in `busy` included, which are being written.

    `resets` is whether a changed packageList or a completion resets batch state; `given` as in `Snapshot`; `leaving` are picks still on
    nodes that left the selection: only their numbers count.
    """
    number = _number(published.get("rollout"))
    picks = [(p, one) for one in facts if (p := (busy and busy.get(one.name)) or one.pick) is not None]
    highest = max([0, *(p.rollout for p, _ in picks), *(p.rollout for p in leaving)])
    # The pick of a node that has just completed is over: only its patch has not landed yet.
    live = [
        p
        for p, one in picks
        if not p.over and (one.involved or one.name in busy) and one.outcome is not Outcome.COMPLETE
    ]
    current = [p for p, _ in picks if p.rollout == number]
    gone = [after(p.order) for p in leaving if p.rollout == number]
    pending = number < 1 or highest > number or (resets and published.get("packageList") != package_list)
    offset = _number(published.get("nodeOrderOffset"))
    stay = max((after(p.order) for p in live), default=0)
    statuses = published.get("compartmentStatuses")
    batch_state = statuses.get(DEFAULT_COMPARTMENT, {}) if isinstance(statuses, Mapping) else {}
    return Rollout(
        number=number or highest,
        next_number=after(max(number, highest)),
        next_order=max([offset, stay, given.get(number, 0), *(after(p.order) for p in current), *gone]),
        order_after_reset=stay,
        batch_state=batch_state.get("batchState") if isinstance(batch_state, Mapping) else None,
        pending=pending,
        in_use=bool(current),
        resets=resets,
    )


def is_published(published: Mapping[str, Any], pick: Pick) -> bool:
    """Whether status has the pick's number, so that it is never given again once the pick has gone from its node (ROL-14)."""
    if _number(published.get("rollout")) != pick.rollout:
        return _number(published.get("rollout")) > pick.rollout
    return _number(published.get("nodeOrderOffset")) >= after(pick.order)


def _number(value: object) -> int:
    return value if is_possible(value) else 0
