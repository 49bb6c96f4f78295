"""The controller: workers that take keys from a queue and call the reconcile function.

A pass runs in a task of its own with an empty context, as a root span: nothing leaks from one pass to the next. What follows
from its outcome is one `match` with one metric and one log line per branch.

Relies on `queue` and on OpenTelemetry's API (not its SDK). Relied on by `manager`, which runs and cancels it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar, assert_never

from opentelemetry import trace

from controller_runtime.controller.result import Reconcile, Result, TerminalError
from controller_runtime.controller.sources import ChangeView, Existing, Mapper, Predicate, Source
from controller_runtime.observability.protocols import ControllerMetrics, QueueMetrics
from controller_runtime.observability.silent import SilentControllerMetrics
from controller_runtime.queue import Backoff, Priority, QueueShutDown, Request, WorkQueue

T = TypeVar("T")
_logger = logging.getLogger(__name__)
_SYNC_POLL_SECONDS = 0.05
_SYNC_LOG_SECONDS = 30.0


class _Ending(Enum):
    """How a pass ended."""

    DONE = auto()
    LATER = auto()
    FAILED = auto()
    TIMED_OUT = auto()
    TERMINAL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    ending: _Ending
    requeue_after: float = 0.0
    error: Exception | None = None


class Controller:
    """Calls `reconcile` for each key that is due.

    Guarantees
    - One pass per key at a time; `concurrency` passes at most over all keys (default 1).
    - `run` may be cancelled and called again: keys stay, adds in between are kept, and a pass that was cut off is pending
      again (a warm standby which leads, loses and leads again).
    - An exception of `reconcile` never ends a worker: the key comes back after its backoff. `TerminalError` waits for the next
      change. A pass longer than `timeout` seconds (default 180) is cancelled and counts as failed.
    - When `run` was cancelled it returns only after every pass has ended (trap 28).

    Caveats
    - A reconcile function that swallows cancellation holds up the stop; the manager then says so.

    `expected_errors` are failures that are part of life (a lost lease, a conflict): they back off like others, but are logged at
    info and leave the span without an error status.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        span_name: str | None = None,
        concurrency: int = 1,
        timeout: float = 180.0,
        min_interval: float | Callable[[str], float] = 0.0,
        backoff: Backoff | None = None,
        expected_errors: tuple[type[Exception], ...] = (),
        metrics: ControllerMetrics | None = None,
        queue_metrics: QueueMetrics | None = None,
        tracer: trace.Tracer | None = None,
    ) -> None:
        self.name = name
        self.queue = WorkQueue(name, min_interval=min_interval, backoff=backoff, metrics=queue_metrics)
        self._reconcile = reconcile
        self._span_name = span_name or f"reconcile {name}"
        self._concurrency = concurrency
        self._timeout = timeout
        self._expected_errors = expected_errors
        self._metrics: ControllerMetrics = SilentControllerMetrics() if metrics is None else metrics
        self._tracer = trace.NoOpTracer() if tracer is None else tracer
        self._sources: list[tuple[str, Callable[[], bool]]] = []
        self._running = False
        self._metrics.workers(concurrency)

    def watches(
        self,
        store: Source[T],
        mapper: Mapper[T],
        *,
        predicate: Predicate[T] | None = None,
        priority: int = Priority.NORMAL,
        trigger: str | None = None,
    ) -> None:
        """Add the keys that `mapper` finds in the old and the new object of each change `predicate` lets pass (trap 49).

        Objects that are in the store already count as added now. Until the store is synced its keys come with low priority.
        `trigger` is the low-cardinality name of this source in requests and spans.
        """

        def on_change(change: ChangeView[T]) -> None:
            if predicate is not None and not predicate(change):
                return
            level = priority if store.synced else min(priority, Priority.LOW)
            for obj in (change.old, change.new):
                if obj is not None:
                    for key in mapper(obj):
                        self.queue.add(key, priority=level, trigger=trigger)

        store.subscribe(on_change)
        self._sources.append((trigger or type(store).__name__, lambda: store.synced))
        for obj in store.values():
            on_change(Existing(obj))

    async def run(self) -> None:
        """Work until cancelled or until the queue is shut down; wait first for every source's first list (trap 47).

        Raises RuntimeError when it is running already.
        """
        if self._running:
            raise RuntimeError(f"controller {self.name} is running already")
        self._running = True
        try:
            await self._wait_for_sources()
            async with asyncio.TaskGroup() as group:
                for number in range(self._concurrency):
                    group.create_task(self._work(), name=f"{self.name} worker {number}")
        finally:
            self._running = False

    async def _wait_for_sources(self) -> None:
        loop = asyncio.get_running_loop()
        log_at = loop.time() + _SYNC_LOG_SECONDS
        while missing := [name for name, synced in self._sources if not synced()]:
            if loop.time() >= log_at:
                log_at += _SYNC_LOG_SECONDS
                _logger.warning("controller %s still waits for the first list of: %s", self.name, ", ".join(missing))
            await asyncio.sleep(_SYNC_POLL_SECONDS)

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                request = await self.queue.get()
            except QueueShutDown:
                return
            completed = False
            try:
                await self._process(request)
                completed = True
            finally:
                if not completed:
                    for trigger in (*request.triggers, "interrupted"):
                        self.queue.add(request.key, trigger=trigger)
                self.queue.done(request.key)
            if task.cancelling():  # the pass swallowed our cancellation: it was still meant for us
                raise asyncio.CancelledError

    async def _process(self, request: Request) -> None:
        loop = asyncio.get_running_loop()
        self._metrics.started()
        try:
            started = loop.time()
            # Cancelling this worker cancels the pass, and the worker goes on only when the pass has ended.
            outcome = await loop.create_task(
                self._traced_pass(request), name=f"{self._span_name} {request.key}", context=contextvars.Context()
            )
            self._settle(request, outcome, loop.time() - started)
        finally:
            self._metrics.stopped()

    async def _traced_pass(self, request: Request) -> _Outcome:
        """Run one pass in a span that is a root, since this task began with an empty context."""
        with self._tracer.start_as_current_span(
            self._span_name,
            attributes={
                "controller.name": self.name,
                "controller.request.name": request.key,
                "controller.trigger": request.triggers,
                "controller.queue_time_ms": round(request.queue_seconds * 1000),
                "controller.reconcile.attempt": self.queue.failures(request.key) + 1,
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            outcome = await self._pass(request)
            span.set_attribute("controller.result", outcome.ending.name.lower())
            if outcome.error is not None:
                span.record_exception(outcome.error)
                if not isinstance(outcome.error, self._expected_errors):
                    span.set_status(trace.StatusCode.ERROR, str(outcome.error))
            return outcome

    async def _pass(self, request: Request) -> _Outcome:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                result = await self._reconcile(request)
        except TerminalError as error:
            return _Outcome(ending=_Ending.TERMINAL, error=error)
        except Exception as error:  # noqa: BLE001 - the boundary: it is logged and counted in _settle
            if limit.expired():
                return _Outcome(ending=_Ending.TIMED_OUT, error=error)
            return _Outcome(ending=_Ending.FAILED, error=error)
        return _outcome_of(result)

    def _settle(self, request: Request, outcome: _Outcome, seconds: float) -> None:
        """Do what follows from a pass: the one place that decides whether and when the key comes back."""
        key, error, where = request.key, outcome.error, {"controller": self.name, "key": request.key}
        match outcome.ending:
            case _Ending.DONE:
                self.queue.forget(key)
                self._metrics.finished(result="success", seconds=seconds)
                _logger.debug("%s %s: done", self._span_name, key, extra=where)
            case _Ending.LATER:
                self.queue.forget(key)
                self.queue.add(key, after=outcome.requeue_after, trigger="deadline")
                self._metrics.finished(result="requeue_after", seconds=seconds)
                _logger.debug("%s %s: again in %.3f s", self._span_name, key, outcome.requeue_after, extra=where)
            case _Ending.TERMINAL:
                self.queue.forget(key)
                self._metrics.finished(result="error", seconds=seconds)
                self._metrics.failed(terminal=True, timed_out=False)
                _logger.error("%s %s: not tried again: %s", self._span_name, key, error, extra=where)
            case _Ending.TIMED_OUT:
                self.queue.add_rate_limited(key, trigger="retry")
                self._metrics.finished(result="error", seconds=seconds)
                self._metrics.failed(terminal=False, timed_out=True)
                _logger.error("%s %s: cancelled after %s s", self._span_name, key, self._timeout, extra=where)
            case _Ending.FAILED:
                self.queue.add_rate_limited(key, trigger="retry")
                self._metrics.finished(result="error", seconds=seconds)
                self._metrics.failed(terminal=False, timed_out=False)
                if isinstance(error, self._expected_errors):
                    _logger.info("%s %s: tried again later: %s", self._span_name, key, error, extra=where)
                else:
                    _logger.error("%s %s: %s", self._span_name, key, error, exc_info=error, extra=where)
            case _:
                assert_never(outcome.ending)


def _outcome_of(result: Result) -> _Outcome:
    if result.error is not None:
        if result.requeue_after is not None:
            _logger.warning("requeue_after %s is ignored, the error decides: %s", result.requeue_after, result.error)
        ending = _Ending.TERMINAL if isinstance(result.error, TerminalError) else _Ending.FAILED
        return _Outcome(ending=ending, error=result.error)
    if result.requeue_after is not None:
        return _Outcome(ending=_Ending.LATER, requeue_after=result.requeue_after)
    return _Outcome(ending=_Ending.DONE)
