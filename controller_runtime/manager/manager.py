"""The manager: one root task group, four stages, and an orderly end.

Start: HTTP, CACHES, WARM, then LEADER for as long as the lease is held. Stop: LEADER, the election (its lease is
released only when the workers are gone), WARM, CACHES, HTTP, where the event recorder is flushed. Losing the lease
stops the stage LEADER and nothing else: caches go on, and this process is a warm standby.

Relies on `stages` and on an elector's few methods.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from typing import Protocol

import anyio

from controller_runtime.clock import Clock, SystemClock
from controller_runtime.election import Fence, NotLeaderError
from controller_runtime.manager.stages import Part, Runnable, Stage, StageGroup, leaves

_logger = logging.getLogger(__name__)
_LEAST_STOP_SECONDS = 1.0
"""Workers get this long to stop even if another process holds the lease already: the fence keeps their writes back."""
_EXIT_BEFORE_EXPIRY_SECONDS = 0.25


class Elector(Protocol):
    """What the manager needs of a leader elector."""

    fence: Fence

    async def wait_leading(self) -> None:
        """Return once the lease is held."""

    async def wait_lost(self) -> str:
        """Return once the lease is lost, with the reason."""

    async def stop(self, *, release: bool | None = None) -> None:
        """End the election; release the lease unless `release` is False."""


class Manager:
    """Runs the parts of a process until a signal, `stop`, or the first failure.

    - The first SIGTERM or SIGINT is a clean stop within `shutdown_timeout` seconds (default 30: less than a Pod's grace
      period); the second exits at once.
    - `run` returns the exit code: 0 after a clean stop, 1 if a part failed (the first failure decides; cancellations
    are none).
    - A part that ignores its cancellation is named in the log. It ends the process at once only if it would outlive the
      lease after a loss (trap 28), or the shutdown timeout.
    - `linger`: seconds the stage HTTP goes on serving after the stop began, while endpoints still name this Pod (trap
    45).
    - Without an elector the stage LEADER starts right away.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        shutdown_timeout: float = 30.0,
        linger: float = 0.0,
        elector: Elector | None = None,
        handle_signals: bool = True,
        exit_process: Callable[[int], object] = os._exit,
    ) -> None:
        self._clock: Clock = SystemClock() if clock is None else clock
        self._shutdown_timeout = shutdown_timeout
        self._linger = linger
        self._elector = elector
        self._handle_signals = handle_signals
        self._exit_process = exit_process
        self._parts: dict[Stage, list[Part]] = {stage: [] for stage in Stage}
        self._groups: dict[Stage, StageGroup] = {}
        self._stop_requested = asyncio.Event()
        self._starting: anyio.CancelScope | None = None
        self._failed = False

    def add(self, runnable: Runnable, stage: Stage, *, name: str | None = None) -> None:
        """Add a part before `run`. Raises ValueError for a name that is taken; the default is the class's name."""
        wanted = name or getattr(runnable, "name", None) or type(runnable).__name__
        if any(part.name == wanted for parts in self._parts.values() for part in parts):
            raise ValueError(f"two parts are named {wanted!r}")
        self._parts[stage].append(Part(wanted, runnable))

    @property
    def is_stopping(self) -> bool:
        """Whether the stop has begun: readiness fails from then on (trap 45)."""
        return self._stop_requested.is_set()

    def stop(self) -> None:
        """Begin a clean stop. Idempotent."""
        self._stop_requested.set()

    async def run(self) -> int:
        """Start everything, wait for the end, stop everything; return the exit code."""
        async with anyio.create_task_group() as root:
            try:
                if self._handle_signals:
                    root.start_soon(self._obey_signals, name="signals")
                root.start_soon(self._start, root, name="start")
                await self._stop_requested.wait()
            finally:
                self._stop_requested.set()
                with anyio.CancelScope(shield=True):
                    await self._shut_down()
            root.cancel_scope.cancel()
        return 1 if self._failed else 0

    # ------------------------------------------------------------------------------------------------- start

    async def _start(self, root: anyio.abc.TaskGroup) -> None:
        with anyio.CancelScope() as self._starting:
            for stage in (Stage.HTTP, Stage.CACHES, Stage.WARM):
                await self._open(stage, root).wait_ready()
            if self._elector is None:
                self._open(Stage.LEADER, root)
                return
            while True:
                await self._lead_once(self._elector, root)

    def _open(self, stage: Stage, root: anyio.abc.TaskGroup) -> StageGroup:
        group = self._groups[stage] = StageGroup(stage, self._parts[stage], on_failure=self._on_failure(stage))
        root.start_soon(group.run, name=f"stage {stage.name}")
        _logger.debug("stage %s starts", stage.name)
        return group

    async def _lead_once(self, elector: Elector, root: anyio.abc.TaskGroup) -> None:
        """Wait for the lease, run the stage LEADER while it is held, and see the stage out."""
        await elector.wait_leading()
        _logger.info("this process leads")
        group = self._open(Stage.LEADER, root)
        reason = await elector.wait_lost()
        _logger.warning("this process does not lead any more: %s", reason)
        now = self._clock.monotonic()
        seconds = max(_LEAST_STOP_SECONDS, elector.fence.expires_at - _EXIT_BEFORE_EXPIRY_SECONDS - now)
        if not await group.stop(seconds):
            self._exit_now(f"still running although the lease is lost: {', '.join(group.still_running)}")
            await group.wait_ended()

    # -------------------------------------------------------------------------------------------------- stop

    async def _shut_down(self) -> None:
        begun = self._clock.monotonic()
        deadline = begun + self._shutdown_timeout
        _logger.info("stopping")
        if self._starting is not None:
            self._starting.cancel()
        drained = await self._stop_stage(Stage.LEADER, deadline)
        if self._elector is not None:
            # A worker that may still write keeps the lease until it runs out (trap 29).
            await self._elector.stop(release=None if drained else False)
        for stage in (Stage.WARM, Stage.CACHES):
            drained &= await self._stop_stage(stage, deadline)
        if Stage.HTTP in self._groups:
            await self._clock.sleep(max(0.0, min(begun + self._linger, deadline) - self._clock.monotonic()))
        drained &= await self._stop_stage(Stage.HTTP, deadline)
        if not drained:
            left = [name for group in self._groups.values() for name in group.still_running]
            self._exit_now(f"still running after {self._shutdown_timeout:g} s: {', '.join(left)}")
            for group in self._groups.values():
                await group.wait_ended()

    async def _stop_stage(self, stage: Stage, deadline: float) -> bool:
        group = self._groups.get(stage)
        if group is None:
            return True
        # A stage never gets everything that is left: those after it have to be stopped as well.
        share = (deadline - self._clock.monotonic()) * (1.0 if stage is Stage.HTTP else 0.75)
        ended = await group.stop(share)
        if not ended:
            _logger.error("stage %s does not end: %s", stage.name, ", ".join(group.still_running))
        return ended

    def _exit_now(self, reason: str) -> None:
        _logger.critical("the process ends at once: %s", reason)
        self._failed = True
        for handler in logging.getLogger().handlers:
            handler.flush()
        self._exit_process(1)

    # --------------------------------------------------------------------------------------- failures, signals

    def _on_failure(self, stage: Stage) -> Callable[[Part, Exception], None]:
        def failed(part: Part, error: Exception) -> None:
            errors = list(leaves(error))
            if stage is Stage.LEADER and all(isinstance(leaf, NotLeaderError) for leaf in errors):
                # The fence closed under a part's feet: the loss is about to be told, and is no failure (CON-26).
                _logger.info("%s ended: %s", part.name, errors[0])
                return
            for leaf in errors:
                _logger.error("%s failed: %s", part.name, leaf, exc_info=leaf)
            self._failed = True
            self._stop_requested.set()

        return failed

    async def _obey_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for received in signals:
                if self.is_stopping:
                    self._exit_now(f"second signal: {received.name}")
                    return
                _logger.info("%s: stopping", received.name)
                self.stop()
