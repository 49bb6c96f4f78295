"""A virtual loop in which a process can be frozen, as SIGSTOP does: time goes on, and all it missed happens when it is thawed.

What belongs to a process says so in its context (`PROCESS`). `world` relies on it.
"""

import asyncio
from collections import deque
from contextvars import ContextVar

from nodewright.simulator.virtual_time import VirtualLoop

SPIN_LIMIT = 50_000
"""So many turns without time going on are a livelock."""

PROCESS: ContextVar[str] = ContextVar("PROCESS", default="")
"""Whose code this is; "" is the cluster's."""


class FreezingLoop(VirtualLoop):
    """See the module."""

    def __init__(self) -> None:
        super().__init__(spin_limit=SPIN_LIMIT)
        self._frozen: dict[str, deque[asyncio.Handle]] = {}

    def freeze(self, process: str) -> None:
        """Let nothing of that process run any more."""
        self._frozen.setdefault(process, deque())

    def thaw(self, process: str) -> None:
        """Let it run again, first what it missed."""
        self._ready.extend(self._frozen.pop(process, ()))

    def _run_ready(self, count: int) -> None:
        ready = self._ready
        for _ in range(count):
            handle = ready.popleft()
            if handle.cancelled():
                continue
            parked = self._frozen.get(handle._context.get(PROCESS, "")) if self._frozen else None  # type: ignore[attr-defined]
            if parked is not None:
                parked.append(handle)
            else:
                handle._run()
