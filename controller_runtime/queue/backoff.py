"""How long a failing key waits before its next try.

Relied on by `work_queue`. Pure but for the injected source of randomness.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential delays with jitter: `base * 2**failures`, at most `cap`, then up to `jitter` of it on top.

    Defaults: 5 ms doubling up to 1000 s, 10 % jitter, the numbers Kubernetes' own controllers use.
    """

    base: float = 0.005
    """Seconds after the first failure."""
    cap: float = 1000.0
    """The longest delay in seconds, before jitter."""
    jitter: float = 0.1
    """Share of the delay that is added at random, so that keys which failed together do not return together."""
    uniform: Callable[[], float] = random.random
    """Source of numbers in [0, 1)."""

    def delay(self, failures: int) -> float:
        """Seconds to wait after `failures` earlier failures (0 = this is the first one).

        The exponent is capped, not the result: `2.0 ** 1024` raises OverflowError (trap 18).
        """
        doublings = min(failures, math.ceil(math.log2(self.cap / self.base)))
        return min(self.cap, self.base * 2.0**doublings) * (1.0 + self.jitter * self.uniform())
