"""An event loop whose time is virtual and whose order is the same in every run, and the clock of whoever lives in it.

When nothing is ready, time jumps to the next timer: an hour costs what happens in it. Tasks and futures hash by a number instead of their
address, so that the sets in which asyncio and anyio keep them are walked in the same order each time. No threads, no sockets. Relied on by
`embedded_cluster`, `nodewright simulate` and the simulation tests.
"""

import asyncio
import itertools
import math
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

EPOCH: Final = 1_800_000_000.0
"""Unix time at which each simulation begins."""
SPIN_LIMIT: Final = 200_000
"""So many turns of the loop without time going on are a livelock."""
T = TypeVar("T")


class LivelockError(Exception):
    """The loop turns and turns, and time stands still."""


class NumberedTask(asyncio.Task[Any]):
    """A task with a number."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, number: int, **options: Any) -> None:
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


class NumberedFuture(asyncio.Future[Any]):
    """A future with a number."""

    def __init__(self, *, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class _Jump:
    """Stands where a selector would: waiting is letting time jump."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen again: every task waits and no timer is set")
        if timeout > 0:
            self._turns = 0
            self._loop.jump(timeout)
        else:
            self._turns += 1
            if self._turns > self._loop.spin_limit:
                raise LivelockError(f"{self._turns} turns of the loop at {self._loop.now:.3f} s")
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module."""

    def __init__(self, *, spin_limit: int = SPIN_LIMIT) -> None:
        super().__init__()
        self.now = 0.0
        self.spin_limit = spin_limit
        self._numbers = itertools.count(1)
        self._selector = _Jump(self)
        self._clock_resolution = math.ulp(0.0)
        self.set_task_factory(self._task)
        self.unhandled: list[str] = []
        """What was reported to the loop: exceptions nobody retrieved and the like."""
        self.set_exception_handler(self._report)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self.now

    def jump(self, seconds: float) -> None:
        """Let time go on. It lands on the next timer exactly, and no timer is called before its time, not by a rounding error:
        whoever would then look how long there is to wait, and wait for that, would do so for ever."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        next_timer = timers[0].when() if timers else 0.0
        self.now = max(self.now + seconds, next_timer)
        self._clock_resolution = math.ulp(self.now)

    def create_future(self) -> asyncio.Future[Any]:
        """A numbered future."""
        return NumberedFuture(number=next(self._numbers), loop=self)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """Refused: a thread has no place in virtual time."""
        raise RuntimeError("the simulation runs no threads")

    def _task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> NumberedTask:
        return NumberedTask(coro, number=next(self._numbers), loop=loop, **options)

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.unhandled.append(f"{context.get('message')}: {type(error).__name__ if error else ''} {error or ''}")

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps."""


class VirtualClock:
    """A process's clock over the loop's time. `offset` is by how many seconds its time of day is wrong."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
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


def run_virtually(main: Callable[[], Coroutine[Any, Any, T]], *, loop: VirtualLoop | None = None) -> T:
    """Run `main()` in virtual time to its end. Must not be called while another loop runs.

    Raises:
        LivelockError: time stood still.
    """
    loop = loop or VirtualLoop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
