"""Where writes run: at most so many at once, first come first served, all owned by one task group that ends with leadership."""

from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup
from opentelemetry import context as tracing

Work = Callable[[], Awaitable[None]]


class Latch:
    """Counts the writes of one pass. A pass waits a moment for them; those that are late report by themselves."""

    def __init__(self) -> None:
        self._open = 0
        self._settled: anyio.Event | None = None
        self.detached = False
        """The pass has gone on."""
        self.clean = True
        """Nothing of it failed so far."""

    @property
    def settled(self) -> bool:
        """All writes have ended."""
        return self._open == 0

    def begun(self) -> None:
        """One more write."""
        self._open += 1

    def ended(self) -> None:
        """One less."""
        self._open -= 1
        if self._open == 0 and self._settled is not None:
            self._settled.set()

    async def wait(self, seconds: float) -> None:
        """Wait until all have ended, at most so long; then the pass is on its own."""
        if self._open:
            self._settled = anyio.Event()
            with anyio.move_on_after(seconds):
                await self._settled.wait()
        self.detached = True


class WritePool:
    """Runs works with a limit. `Work` must not raise but for cancellation."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._active = 0
        self._waiting: deque[tuple[tracing.Context, Work]] = deque()
        self._group: TaskGroup | None = None

    @property
    def running(self) -> bool:
        """Whether works are taken."""
        return self._group is not None

    def start(self, group: TaskGroup) -> None:
        """Run works in `group` from now on."""
        self._group = group
        self._active = 0

    def stop(self) -> None:
        """Take no more works and drop those that have not begun. Those under way end with the group."""
        self._group = None
        self._waiting.clear()

    def submit(self, work: Work) -> None:
        """Run `work` as soon as there is room. Raises RuntimeError when the pool does not run."""
        if self._group is None:
            raise RuntimeError("the write pool does not run: writes happen only while leading")
        self._waiting.append((tracing.get_current(), work))
        if self._active < self._limit:
            self._active += 1
            self._group.start_soon(self._run)

    async def _run(self) -> None:
        try:
            while self._waiting:
                context, work = self._waiting.popleft()
                # Its requests are spans of the pass that planned it, whoever's turn it is.
                token = tracing.attach(context)
                try:
                    await work()
                finally:
                    tracing.detach(token)
        finally:
            self._active -= 1
