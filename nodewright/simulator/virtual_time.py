"""An event loop whose time is virtual and whose order is the same in every run, and the clock of whoever lives in it.

When nothing is ready, time jumps to the next timer: an hour costs what happens in it. Tasks and futures hash by a number instead of their
address, so that the sets in which asyncio and anyio keep them are walked in the same order each time. No threads, no sockets. Relied on by
`embedded_cluster`, `nodewright simulate` and the simulation tests.
"""

import asyncio
import heapq
import itertools
from collections import deque
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


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module."""

    def __init__(self, *, spin_limit: int = SPIN_LIMIT) -> None:
        super().__init__()
        self._ready: deque[asyncio.Handle]
        self._scheduled: list[asyncio.TimerHandle]
        self._stopping: bool
        self.now = 0.0
        self.spin_limit = spin_limit
        self._turns = 0
        self._numbers = itertools.count(1)
        self.set_task_factory(self._task)
        self.unhandled: list[str] = []
        """What was reported to the loop: exceptions nobody retrieved and the like."""
        self.set_exception_handler(self._report)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self.now

    def _run_once(self) -> None:
        """One turn: what is ready now runs once, in order; if nothing is, time goes to the next timer first.

        Time lands on the timer exactly, and no timer is called before its time, not by a rounding error: whoever would then look how
        long there is to wait, and wait for that, would do so for ever.
        """
        timers, ready = self._scheduled, self._ready
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]  # asyncio asks it when one is cancelled
        self._turns += 1
        if self._turns > self.spin_limit:
            raise LivelockError(f"{self.spin_limit} turns of the loop at {self.now:.3f} s")
        if not ready and timers and timers[0].when() > self.now:
            self._turns, self.now = 0, timers[0].when()
        elif not ready and not timers and not self._stopping:
            raise RuntimeError("nothing will ever happen again: every task waits and no timer is set")
        while timers and timers[0].when() <= self.now:
            due = heapq.heappop(timers)
            due._scheduled = False  # type: ignore[attr-defined]
            ready.append(due)
        self._run_ready(len(ready))

    def _run_ready(self, count: int) -> None:
        """Run so many handles, in order."""
        ready = self._ready
        for _ in range(count):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

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
