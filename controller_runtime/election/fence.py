"""The fence: may this process write right now?

Kubernetes has no server-side fencing: nothing stops a write of a former leader. So each mutating request asks here
right before it is sent (trap 33). The election's thread moves the fence, the client of the main loop asks it; both
only replace or read one reference, which needs no lock.

The reasoning behind the dates. A renewal that succeeded was committed at the server after the moment `start` at which
it was sent. Another candidate sees the change after that, and waits at least the lease's duration from then on. So
until `start + lease_duration` nobody else acts, if clocks run at the same speed. That is `expires_at`. A write needs
time to arrive, so none is begun in the last `margin` seconds before: that is `valid_until`. With the margin
`lease_duration - renew_deadline` (5 s of 15 s) the fence closes at the very moment at which the election gives up. A
request may live longer than the margin (30 s by default, and it may wait in a queue of the server whatever our
deadline); no margin short of a minute would cover that, so writes that must not happen late also carry a
resourceVersion or UID precondition.

Both dates also hold against CLOCK_BOOTTIME: CLOCK_MONOTONIC stands still while a machine is suspended, the lease runs
out all the same (trap 26). A process that was stopped by a signal finds both clocks advanced and the fence closed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controller_runtime.clock import Clock, SystemClock


class NotLeaderError(Exception):
    """This process does not hold the lease, or not surely enough; nothing was sent."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment on both clocks that never go back."""

    monotonic: float
    boottime: float

    @classmethod
    def read(cls, clock: Clock) -> Moment:
        """The present."""
        return cls(clock.monotonic(), clock.boottime())

    def seconds_since(self, earlier: Moment) -> float:
        """How much time passed, by the clock that saw more of it."""
        return max(self.monotonic - earlier.monotonic, self.boottime - earlier.boottime)


@dataclass(frozen=True, slots=True)
class _Term:
    """What the last successful renewal is worth."""

    renewed: Moment
    valid_seconds: float
    lease_seconds: float


class Fence:
    """Closed until a lease was obtained, and again `margin` before it may be somebody else's."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = SystemClock() if clock is None else clock
        self._term: _Term | None = None
        self._expires_at = -math.inf

    def check(self) -> None:
        """Return if a write may be begun now; raise NotLeaderError if not."""
        term = self._term
        if term is None:
            raise NotLeaderError("this process does not hold the lease; nothing was sent")
        age = Moment.read(self._clock).seconds_since(term.renewed)
        if age >= term.valid_seconds:
            raise NotLeaderError(
                f"the lease was last renewed {age:.1f} s ago, and is only trusted for {term.valid_seconds:g} s;"
                " nothing was sent"
            )

    @property
    def is_open(self) -> bool:
        """Whether `check` would return now."""
        try:
            self.check()
        except NotLeaderError:
            return False
        return True

    @property
    def valid_until(self) -> float:
        """Monotonic time from which on `check` refuses, if nothing is renewed; minus infinity while closed."""
        term = self._term
        return -math.inf if term is None else term.renewed.monotonic + term.valid_seconds

    @property
    def expires_at(self) -> float:
        """Monotonic time at which another process may begin to act. Kept after `close`: a worker must be gone by then."""
        return self._expires_at

    def open_from(self, renewed: Moment, *, lease_seconds: float, margin: float) -> None:
        """Take in a successful renewal that was sent at `renewed`. Only for the election."""
        self._expires_at = renewed.monotonic + lease_seconds
        self._term = _Term(renewed, lease_seconds - margin, lease_seconds)

    def close(self, *, taken: bool = False) -> None:
        """Refuse all writes from now on; `taken` if another holder was seen. Only for the election."""
        self._term = None
        if taken:
            self._expires_at = min(self._expires_at, self._clock.monotonic())
