"""An event loop whose time is virtual and whose order is the same in every run.

When nothing is ready, time jumps to the next timer. Tasks and futures hash by a number instead of their address, so that the sets in
which asyncio and anyio keep them are walked in the same order each time. No threads, no sockets. `world` relies on it.
"""

import asyncio
import itertools
import math
from collections.abc import Callable, Coroutine
from typing import Any

SPIN_LIMIT = 200_000
"""So many turns without time going on are a livelock."""


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
            self._loop.jump()
        else:
            self._turns += 1
            if self._turns > SPIN_LIMIT:
                raise LivelockError(f"{SPIN_LIMIT} turns of the loop at {self._loop.now:.3f} s")
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._numbers = itertools.count(1)
        self._selector = _Jump(self)
        self._clock_resolution = 1e-12
        self.set_task_factory(self._task)
        self.unhandled: list[str] = []
        """What was reported to the loop: exceptions nobody retrieved and the like."""
        self.set_exception_handler(self._report)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self.now

    def jump(self) -> None:
        """To the next timer, exactly: what is asked for one instant is not due an instant earlier."""
        self.now = max(self.now, self._scheduled[0].when())  # type: ignore[attr-defined]  # asyncio's own heap
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
