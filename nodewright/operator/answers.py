"""What the API server refused, remembered per CR: shown by the next plan, and the pace at which it is tried again.

A pure plan cannot ask, and it plans a refused write again in every pass; so the refusal's text goes into `Snapshot.refused`, and
the write itself is held back until its time has come. All of it is memory that may be lost: a restart only tries once more.
Relied on by the executor.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nodewright.model.snapshot import Answer


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds until a refused write is tried again: `first`, doubling up to `longest`."""

    first: float
    longest: float

    def delay(self, count: int) -> float:
        """The wait after the `count`-th refusal in a row."""
        return min(self.first * 2.0 ** min(count - 1, 16), self.longest)


REFUSED = Pace(first=10.0, longest=300.0)
"""The server said no (a quota, a policy, a name that is taken): people have to act, and it costs little to ask again."""
FAILED = Pace(first=0.5, longest=30.0)
"""No answer, or the server failed: it goes on by itself."""
_KEPT_AFTER_DUE = 60.0
"""A refusal that nobody asked about again this long after its time is no longer wanted."""


@dataclass(slots=True)
class _Held:
    answer: Answer
    due: float


class Answers:
    """The refusals of one CR's writes, by object, and the failures of its Jobs without proof (JOB-6)."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self.unproven: dict[str, int] = {}

    def refuse(self, key: str, *, text: str, reason: str, now: float, monotonic: float, pace: Pace) -> float:
        """Note a refusal of the write to `key` ("Job/x"); answers the seconds until it may be tried again."""
        before = self._held.get(key)
        count = before.answer.count + 1 if before is not None else 1
        delay = pace.delay(count)
        self._held[key] = _Held(Answer(text=text, at=now, count=count, reason=reason), monotonic + delay)
        return delay

    def accepted(self, key: str) -> None:
        """The write went through."""
        self._held.pop(key, None)

    def count(self, key: str) -> int:
        """How often in a row the write to `key` did not go through."""
        held = self._held.get(key)
        return 0 if held is None else held.answer.count

    def wait(self, key: str, monotonic: float) -> float:
        """Seconds until the write to `key` may be tried; 0 means now."""
        held = self._held.get(key)
        return 0.0 if held is None else max(held.due - monotonic, 0.0)

    def refused(self, monotonic: float) -> Mapping[str, Answer]:
        """All refusals that still matter, as the next plan shall see them."""
        if not self._held:
            return {}
        for key in [key for key, held in self._held.items() if held.due + _KEPT_AFTER_DUE < monotonic]:
            del self._held[key]
        return {key: held.answer for key, held in self._held.items()}
