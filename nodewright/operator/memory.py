"""What the executor remembers of a CR between passes. All of it may be lost: a restart only looks and tries once more (LIF-2)."""

from dataclasses import dataclass, field
from typing import Protocol

from nodewright.model.pick import Pick
from nodewright.operator.answers import Answers


@dataclass(slots=True)
class Tally:
    """What one pass wrote, for its span (OBS-4)."""

    nodes: int = 0
    writes: int = 0
    jobs: int = 0


@dataclass(slots=True)
class CRMemory:
    """Refusals and writes under way of one CR."""

    answers: Answers = field(default_factory=Answers)
    running: dict[str, Pick | None] = field(default_factory=dict)
    """Node name (or kind/name of a loose object) to the pick it will have, while its writes are queued or under way."""
    given: dict[int, int] = field(default_factory=dict)
    """Rollout to the lowest number above those of all picks written in it; of the newest rollout only."""
    stale: dict[str, int] = field(default_factory=dict)
    """How often in a row an object's writes met an old picture."""

    def note(self, pick: Pick | None) -> None:
        """A pick was written: its number is taken, whatever becomes of its node (ROL-14)."""
        newest = max(self.given, default=0)
        if pick is not None and pick.rollout >= newest:
            self.given = {pick.rollout: max(self.given.get(pick.rollout, 0), pick.order + 1)}


class Enqueue(Protocol):
    """Asks for another pass of a CR."""

    def __call__(self, name: str, *, after: float = 0.0, trigger: str) -> None:
        """After so many seconds, with a low-cardinality name for the cause."""


@dataclass(slots=True)
class Applied:
    """What came of a plan: when parts of it are due again (seconds), and counts for the span."""

    tally: Tally = field(default_factory=Tally)
    requeue_after: float | None = None

    def again_in(self, seconds: float | None) -> None:
        """The CR is to be looked at again at the latest then."""
        if seconds is not None and (self.requeue_after is None or seconds < self.requeue_after):
            self.requeue_after = seconds
