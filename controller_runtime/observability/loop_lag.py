"""How late the event loop is: the one number that tells that something computes for too long.

Relies on an injected clock. Relied on by metrics and by the liveness check.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from controller_runtime.clock import Clock, SystemClock

_logger = logging.getLogger(__name__)


class LoopLag:
    """A runnable that asks to be woken every `interval` seconds (default 0.25) and reports how late that was.

    Lags above `warn_above` seconds (default 1) are logged.
    """

    name = "loop lag"

    def __init__(
        self,
        report: Callable[[float], None],
        *,
        clock: Clock | None = None,
        interval: float = 0.25,
        warn_above: float = 1.0,
    ) -> None:
        self._report = report
        self._clock: Clock = SystemClock() if clock is None else clock
        self._interval = interval
        self._warn_above = warn_above

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            asked = self._clock.monotonic()
            await self._clock.sleep(self._interval)
            lag = max(0.0, self._clock.monotonic() - asked - self._interval)
            self._report(lag)
            if lag > self._warn_above:
                _logger.warning("the event loop was stalled for %.1f s", lag)
