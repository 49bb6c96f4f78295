"""The simulation's clocks: loop time, and a time of day that may jump for one process alone."""

import asyncio
from datetime import UTC, datetime

EPOCH = 1_800_000_000.0
"""Unix time at which each simulation begins."""


class SimulatedClock:
    """A process's clock over the loop's time. `offset` is by how many seconds its time of day is wrong."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.offset = 0.0

    def monotonic(self) -> float:
        """Loop time."""
        return self._loop.time()

    def boottime(self) -> float:
        """Loop time: machines are never suspended here."""
        return self._loop.time()

    def now(self) -> datetime:
        """The time of day as this process sees it."""
        return datetime.fromtimestamp(EPOCH + self._loop.time() + self.offset, UTC)

    async def sleep(self, seconds: float) -> None:
        """Virtual seconds."""
        await asyncio.sleep(seconds)
