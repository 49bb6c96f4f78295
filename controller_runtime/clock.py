"""Time as a dependency: whoever waits or measures takes a `Clock`, so that tests decide how fast time goes.

Durations are measured with `monotonic`; `boottime` also counts the time a machine was suspended, and tells whether
`monotonic` missed some; `now` is for what people and other machines read. Everything in the runtime relies on this
module; it relies on nothing.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something. Stands still while the machine is suspended."""

    def boottime(self) -> float:
        """Seconds that never go back and go on while the machine is suspended (trap 26)."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC. May jump; never measure with it."""

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of `monotonic` time; zero gives other tasks a turn."""


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC."""
        return time.monotonic()

    def boottime(self) -> float:
        """Seconds of CLOCK_BOOTTIME."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> datetime:
        """The time of day in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """`asyncio.sleep`."""
        await asyncio.sleep(seconds)
