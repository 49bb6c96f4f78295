"""How long simulated containers run when no rule says so: drawn from a seed, around what real packages take.

A draw depends on the container alone and not on the order of events, so that one more node does not change the others.
Each node has a pace of its own, as machines have. `Durations` is given to the kubelets by `Timing.step_of`.
`nodewright simulate` relies on it.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from nodewright.api.durations import SECOND, DurationError, parse_duration
from nodewright.api.status import Stage
from nodewright.simulator.rules import Step

Range = tuple[float, float]
"""Shortest and longest, in seconds."""
STAGES: Final[Mapping[str, Range]] = {
    Stage.APPLY: (30.0, 90.0),
    Stage.CONFIG: (5.0, 20.0),
    Stage.INTERRUPT: (5.0, 20.0),
    Stage.POST_INTERRUPT: (5.0, 15.0),
    Stage.UPGRADE: (20.0, 60.0),
    Stage.UNINSTALL: (10.0, 30.0),
    Stage.UNINSTALL_INTERRUPT: (5.0, 20.0),
}
"""Of a stage's work container."""
OTHERS: Final = 0.0
"""Of copying and checking, which are part of the stage here: each container would be three writes more."""
PACES: Final[Range] = (0.85, 1.3)
"""How much slower a node is than the fastest conceivable one."""
_SKEW: Final = 1.7
"""Most draws are near the shortest, a few near the longest."""


@dataclass(frozen=True, slots=True)
class Durations:
    """A function of a container start; the result is in seconds."""

    seed: int = 0
    stages: Mapping[str, Range] = field(default_factory=lambda: STAGES)

    def __call__(self, step: Step) -> float:
        """How long this container runs."""
        if not step.work or step.stage not in self.stages:
            return OTHERS
        low, high = self.stages[step.stage]
        if low == high:
            return low
        drawn = _between((low, high), self._draw(step.job, step.container, str(step.attempt)) ** _SKEW)
        pace = _between(PACES, self._draw("pace", step.node) ** _SKEW)
        return min(max(float(round(drawn * pace)), low), high)

    def _draw(self, *parts: str) -> float:
        text = "/".join((str(self.seed), *parts))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


def parse_stage_duration(text: str) -> tuple[str, Range]:
    """Read `STAGE=30s` or `STAGE=30s-90s`.

    Raises:
        ValueError: one sentence that says what is wrong and the way out.
    """
    found = re.fullmatch(r"([a-z-]+)=([^-]+)(?:-([^-]+))?", text.strip())
    if found is None or found[1] not in STAGES:
        raise ValueError(f"{text!r} is not STAGE=30s or STAGE=30s-90s with a STAGE of {', '.join(STAGES)}")
    try:
        low = parse_duration(found[2]) / SECOND
        high = parse_duration(found[3]) / SECOND if found[3] else low
    except DurationError as error:
        raise ValueError(f"{text!r}: {error}") from None
    if not 0 <= low <= high:
        raise ValueError(f"{text!r}: the first duration must not be above the second")
    return str(found[1]), (low, high)


def _between(limits: Range, share: float) -> float:
    low, high = limits
    return low + (high - low) * share
