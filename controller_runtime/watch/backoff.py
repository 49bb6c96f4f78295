"""How long to wait after a fault, so that no fault makes a hot loop and no outage makes a herd."""

import random

from controller_runtime.clock import Clock
from controller_runtime.watch.machine import Fault

FIRST_SECONDS = 0.8
LAST_SECONDS = 30.0
HEALTHY_SECONDS = 120.0
ABSENT_SECONDS = 10.0
LONGEST_WISH_SECONDS = 60.0
"""No server makes us blind for longer."""


class Backoff:
    """0.8 s, doubled to 30 s, each stretched by up to as much again; forgotten after two healthy minutes, not at the
    first event.
    """

    def __init__(self, *, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._last_end = float("-inf")
        self._step = 0

    def delay(self, fault: Fault, *, at_least: float | None = None) -> float:
        """Seconds to wait now; a server's `Retry-After` is a minimum, up to a minute."""
        now = self._clock.monotonic()
        if now - self._last_end > HEALTHY_SECONDS:
            self._step = 0
        if fault is Fault.ABSENT:
            seconds = ABSENT_SECONDS
        else:
            seconds = min(FIRST_SECONDS * 2.0 ** min(self._step, 6), LAST_SECONDS)
            seconds = min(seconds * (1.0 + self._rng.random()), LAST_SECONDS)
            self._step += 1
        seconds = max(seconds, min(at_least or 0.0, LONGEST_WISH_SECONDS))
        self._last_end = now + seconds
        return seconds
