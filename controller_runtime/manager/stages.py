"""What can be run, in which stage, and the group of tasks that runs one stage.

Relied on by `manager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

import anyio

_logger = logging.getLogger(__name__)
_STILL_WAITING_SECONDS = 30.0
_FLUSH_SECONDS = 5.0
_FLUSH_GRACE_SECONDS = 0.5


class Stage(IntEnum):
    """In which order parts start; they stop in reverse (trap 45)."""

    HTTP = 0
    """Probes, metrics, webhooks, the event recorder: conversion webhooks must serve before caches can list."""
    CACHES = 1
    """Informers. The next stage starts when all have their first list."""
    WARM = 2
    """What a standby does too."""
    LEADER = 3
    """What only the leader does: started when the lease is won, stopped when it is lost, as often as that happens."""


class Runnable(Protocol):
    """A part of the process."""

    async def run(self) -> None:
        """Work until cancelled. Returning early is allowed (a one-time task); raising ends the process in order.

        A part of stage LEADER may be run again after it was cancelled.
        """


@runtime_checkable
class Synced(Protocol):
    """A part the next stage waits for: an informer."""

    async def wait_synced(self) -> None:
        """Return once the first list is complete."""


@runtime_checkable
class Started(Protocol):
    """A part the next stage waits for: a server."""

    async def wait_started(self) -> None:
        """Return once it serves."""


@runtime_checkable
class Flushable(Protocol):
    """A part with something to send before it is stopped: the event recorder (trap 46)."""

    async def flush(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound the part keeps by itself
        """Send what is pending, for at most `timeout` seconds."""


@dataclass(frozen=True, slots=True)
class Part:
    """A runnable with its name."""

    name: str
    runnable: Runnable


class StageGroup:
    """The tasks of one stage: one per part, named after it.

    Tasks are cancelled once, by asyncio, and then awaited. A cancelled anyio scope would cancel them again at each
    turn of the loop: a part that needs two seconds to stop would keep a core busy for two seconds.
    """

    def __init__(self, stage: Stage, parts: Sequence[Part], *, on_failure: Callable[[Part, Exception], None]) -> None:
        self._stage = stage
        self._parts = parts
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._begun = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def still_running(self) -> list[str]:
        """Names of the parts that have not ended."""
        return [task.get_name() for task in self._tasks if not task.done()]

    async def run(self) -> None:
        """Run all parts until each has ended."""
        try:
            if not self._stopping:
                async with asyncio.TaskGroup() as group:
                    self._tasks = [group.create_task(self._supervise(part), name=part.name) for part in self._parts]
                    self._begun.set()
        finally:
            self._ended.set()

    async def wait_ready(self) -> None:
        """Return once every part that can say so is ready; what keeps it waiting is logged every 30 s (trap 48)."""
        await self._begun.wait()
        await asyncio.sleep(0)  # each part takes its first step before the next stage does
        for part in self._parts:
            while not await self._is_ready(part):
                _logger.warning("stage %s still waits for %s", self._stage.name, part.name)

    @staticmethod
    async def _is_ready(part: Part) -> bool:
        with anyio.move_on_after(_STILL_WAITING_SECONDS):
            if isinstance(part.runnable, Synced):
                await part.runnable.wait_synced()
            if isinstance(part.runnable, Started):
                await part.runnable.wait_started()
            return True
        return False

    async def stop(self, seconds: float) -> bool:
        """Flush, cancel and await all parts for at most `seconds`; True if none is left (trap 28)."""
        for part in self._parts:
            if isinstance(part.runnable, Flushable) and part.name in self.still_running:
                await self._flush(part, part.runnable, min(_FLUSH_SECONDS, seconds / 2))
        if not self._stopping:
            self._stopping = True
            for task in self._tasks:
                task.cancel()
        with anyio.move_on_after(max(seconds, 0.05)):
            await self._ended.wait()
        return self._ended.is_set()

    @staticmethod
    async def _flush(part: Part, flushable: Flushable, seconds: float) -> None:
        try:
            # The part keeps the time itself; this is for one that does not.
            with anyio.move_on_after(max(seconds, 0.0) + _FLUSH_GRACE_SECONDS):
                await flushable.flush(seconds)
        except Exception:
            _logger.exception("%s could not be flushed", part.name)

    async def wait_ended(self) -> None:
        """Return once no part runs."""
        await self._ended.wait()

    async def _supervise(self, part: Part) -> None:
        try:
            await part.runnable.run()
        except Exception as error:  # noqa: BLE001 - the boundary: the manager logs it and stops
            self._on_failure(part, error)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group of groups; the error itself if it is none."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error
