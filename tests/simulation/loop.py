"""An event loop whose time is virtual and whose order is the same in every run.

When nothing is ready, time jumps to the next timer. What belongs to a process (`PROCESS` in its context) can be frozen, as SIGSTOP does:
time goes on, and all it missed happens when it is thawed. Tasks and futures hash by a number instead of their address, so that the sets in
which asyncio and anyio keep them are walked in the same order each time. No threads, no sockets. `world` relies on it.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

SPIN_LIMIT = 50_000
"""So many turns without time going on are a livelock."""


PROCESS: ContextVar[str] = ContextVar("PROCESS", default="")
"""Whose code this is; "" is the cluster's."""


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

    def __init__(self) -> None:
        super().__init__()
        self._ready: deque[asyncio.Handle]
        self._scheduled: list[asyncio.TimerHandle]
        self._stopping: bool
        self.now = 0.0
        self._numbers = itertools.count(1)
        self._turns = 0
        self._frozen: dict[str, deque[asyncio.Handle]] = {}
        self.set_task_factory(self._task)
        self.unhandled: list[str] = []
        """What was reported to the loop: exceptions nobody retrieved and the like."""
        self.set_exception_handler(self._report)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self.now

    def freeze(self, process: str) -> None:
        """Let nothing of that process run any more."""
        self._frozen.setdefault(process, deque())

    def thaw(self, process: str) -> None:
        """Let it run again, first what it missed."""
        self._ready.extend(self._frozen.pop(process, ()))

    def _run_once(self) -> None:
        """One turn: what is ready now runs once, in order; if nothing is, time goes to the next timer first."""
        timers, ready = self._scheduled, self._ready
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]  # asyncio asks it when one is cancelled
        self._turns += 1
        if self._turns > SPIN_LIMIT:
            raise LivelockError(f"{SPIN_LIMIT} turns of the loop at {self.now:.3f} s")
        if not ready and timers and timers[0].when() > self.now:
            self._turns, self.now = 0, timers[0].when()
        elif not ready and not timers and not self._stopping:
            raise RuntimeError("nothing will ever happen again: every task waits and no timer is set")
        while timers and timers[0].when() <= self.now:
            due = heapq.heappop(timers)
            due._scheduled = False  # type: ignore[attr-defined]
            ready.append(due)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.cancelled():
                continue
            parked = self._frozen.get(handle._context.get(PROCESS, "")) if self._frozen else None  # type: ignore[attr-defined]
            if parked is not None:
                parked.append(handle)
            else:
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
