"""The event recorder: takes events synchronously, writes them later, few at a time, and never fails whoever called.

An event that was seen before (same object, type, reason and action) within six minutes raises a count; the count is
written as a series, at first after five seconds, then ever more rarely. So one node event is one POST, and a thousand
events of one reason on one object are one POST and a few PATCHes. A spam filter bounds the requests per object, type
and reason: counts wait for it, new series are dropped by it.

Relies on a client without a fence: the last events are written after the lease was given back. Relied on by whoever
tells people what happens; `manager` flushes it last (trap 46).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from controller_runtime.clock import Clock, SystemClock
from controller_runtime.events.event import (
    EVENTS,
    Event,
    EventKey,
    EventType,
    ObjectReference,
    event_body,
    event_name,
    series_patch,
)
from controller_runtime.events.spam import SpamFilter
from controller_runtime.micro_time import micro_time
from controller_runtime.observability.protocols import EventMetrics
from controller_runtime.observability.silent import SilentEventMetrics
from controller_runtime.transport import AlreadyExists, ApiError, NotFound, PatchType, Resource, TransportError

_logger = logging.getLogger(__name__)
SERIES_SECONDS = 360.0
"""A series ends when its event was not seen for so long; the next one begins a new series."""
FIRST_PAUSE = 5.0
LONGEST_PAUSE = 60.0
"""Seconds between two writes of one series: the first value, doubled with each write up to the second."""
MAX_SERIES = 4096
TRIES = 12
_RETRY_SECONDS = 10.0
_REQUEST_SECONDS = 10.0


class EventClient(Protocol):
    """What the recorder needs of a client."""

    async def create(
        self, resource: Resource, body: Mapping[str, Any] | bytes, *, namespace: str | None = None
    ) -> bytes:
        """Create an object."""

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any] | Sequence[Any] | bytes,
        patch_type: PatchType,
        *,
        namespace: str | None = None,
    ) -> bytes:
        """Change parts of an object."""


@dataclass(slots=True, eq=False)
class _Series:
    """One event and how often it was seen; it stands in the queue at most once."""

    key: EventKey
    event: Event
    name: str
    first_time: datetime
    last_time: datetime
    last_seen: float
    """Monotonic."""
    count: int = 1
    written_count: int = 0
    """What the server knows; 0 = there is no object yet."""
    written_at: float = 0.0
    pause: float = FIRST_PAUSE
    due: float = 0.0
    held_until: float = 0.0
    """The spam filter lets nothing of it through before."""
    busy: bool = False
    """In the queue, or being written."""

    def next_look(self) -> float:
        """When its count may be due: at its pace, or when it has gone quiet."""
        return max(min(self.due, self.last_seen + FIRST_PAUSE), self.held_until)


class EventRecorder:
    """Writes events; `event` is synchronous, never blocks, never raises.

    - At most `capacity` writes wait (a thousand nodes may end two stages each in a minute); the oldest is dropped, and counted, when one
      more comes.
    - At most `concurrency` requests run at once (default 2), first come first served.
    - A write is tried twelve times while the API server is away; a refusal is final.
    """

    def __init__(
        self,
        client: EventClient,
        reporting_controller: str,
        reporting_instance: str,
        namespace_of_cluster_scoped: str = "default",
        *,
        clock: Clock | None = None,
        metrics: EventMetrics | None = None,
        capacity: int = 4096,
        concurrency: int = 2,
    ) -> None:
        self._client = client
        self._reporting_controller = reporting_controller
        self._reporting_instance = reporting_instance
        self._default_namespace = namespace_of_cluster_scoped
        self._clock: Clock = SystemClock() if clock is None else clock
        self._metrics: EventMetrics = SilentEventMetrics() if metrics is None else metrics
        self._capacity = capacity
        self._concurrency = concurrency
        self._series: OrderedDict[EventKey, _Series] = OrderedDict()  # least recently seen first
        self._counting: dict[_Series, None] = {}  # their count is ahead of what the server knows
        self._queue: deque[_Series] = deque()
        self._writing = 0
        self._spam = SpamFilter()
        self._has_work = asyncio.Event()
        self._has_counts = asyncio.Event()
        self._idle = asyncio.Event()

    def event(
        self,
        regarding: ObjectReference,
        *,
        type: EventType,  # noqa: A002 - the API's word
        reason: str,
        action: str,
        note: str,
        related: ObjectReference | None = None,
        subject: str = "",
    ) -> None:
        """Record that something happened to `regarding`. Must be called in the loop's thread.

        `reason` is a word in CamelCase saying why, `action` what was done, `note` a sentence (cut off at 1024 bytes).
        Repetitions become a series; a `subject` sets apart what the rest does not tell apart.
        Whatever is wrong with them, nothing is raised (OBS-6).
        """
        try:
            self._record(
                Event(
                    regarding=regarding,
                    related=related,
                    type=type,
                    reason=reason,
                    action=action,
                    note=str(note),
                    subject=subject,
                )
            )
        except Exception:
            self._metrics.dropped(reason="invalid")
            _logger.exception("an event was not recorded")

    async def run(self) -> None:
        """Write events until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._concurrency):
                group.create_task(self._write_forever(), name=f"event writer {number}")
            group.create_task(self._count_forever(), name="event series")

    async def flush(self, timeout: float) -> None:  # noqa: ASYNC109 - called from outside any scope of ours
        """Write everything that waits, counts included, for at most `timeout` seconds; works after `run` has ended too."""
        for series in list(self._counting):
            del self._counting[series]
            self._enqueue(series)
        try:
            async with asyncio.timeout(timeout):
                while self._queue:
                    await self._write(self._queue.popleft())
                while self._writing:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            _logger.warning("%d events were not written in time", len(self._queue) + self._writing)

    # --------------------------------------------------------------------------------------------- taking in

    def _record(self, event: Event) -> None:
        if event.type not in ("Normal", "Warning") or not (event.reason and event.action and event.regarding.name):
            raise ValueError(f"an event needs a type, a reason, an action and an object: {event}")
        now = self._clock.monotonic()
        self._end_old_series(now)
        key = EventKey.of(event)
        series = self._series.get(key)
        if series is not None:
            series.count += 1
            series.last_seen = now
            series.last_time = self._clock.now()
            self._series.move_to_end(key)
            self._count_later(series, now)
            return
        if not self._spam.allows(key, now):
            self._metrics.dropped(reason="spam")
            return
        time = self._clock.now()
        series = _Series(key, event, event_name(event.regarding.name), time, time, now)
        self._series[key] = series
        self._enqueue(series)

    def _end_old_series(self, now: float) -> None:
        """Forget series that ended. What is still to be written of them stays in the queue or among the counts."""
        while self._series:
            oldest = next(iter(self._series.values()))
            if now - oldest.last_seen <= SERIES_SECONDS and len(self._series) < MAX_SERIES:
                return
            del self._series[oldest.key]

    def _count_later(self, series: _Series, now: float) -> None:
        if not series.busy and series not in self._counting:
            series.due = max(series.written_at + series.pause, now + FIRST_PAUSE)
            self._counting[series] = None
            self._has_counts.set()

    def _enqueue(self, series: _Series) -> None:
        if len(self._queue) >= self._capacity:
            oldest = self._queue.popleft()
            oldest.busy = False
            self._forget(oldest)
            self._metrics.dropped(reason="queue_full")
        series.busy = True
        self._queue.append(series)
        self._has_work.set()

    def _forget(self, series: _Series) -> None:
        """After a failure: the next event of this kind begins a new series."""
        if self._series.get(series.key) is series:
            del self._series[series.key]

    # ----------------------------------------------------------------------------------------------- writing

    async def _count_forever(self) -> None:
        """Move series whose count is due into the queue.

        A count is due at the series' pace, or as soon as the series has gone quiet: nothing is left to be written minutes later,
        when nothing happens any more. The spam filter may hold it longer.
        """
        while True:
            if not self._counting:
                self._has_counts.clear()
                await self._has_counts.wait()
            now = self._clock.monotonic()
            for series in list(self._counting):
                quiet = now - series.last_seen >= FIRST_PAUSE
                if series.due > now and (not quiet or series.held_until > now):
                    continue
                wait = self._spam.seconds_until_allowed(series.key, now)
                if wait > 0:
                    series.due = series.held_until = now + wait
                    continue
                self._spam.allows(series.key, now)
                del self._counting[series]
                self._enqueue(series)
            next_due = min((it.next_look() for it in self._counting), default=now)
            await self._clock.sleep(min(max(next_due - now, 0.1), FIRST_PAUSE))

    async def _write_forever(self) -> None:
        while True:
            while not self._queue:
                self._has_work.clear()
                await self._has_work.wait()
            await self._write(self._queue.popleft())

    async def _write(self, series: _Series) -> None:
        self._writing += 1
        try:
            await self._write_with_retries(series)
            series.busy = False
            if series.count > series.written_count > 0:
                self._count_later(series, self._clock.monotonic())
        except asyncio.CancelledError:
            self._queue.appendleft(series)  # for the last flush
            raise
        except Exception:
            self._forget(series)
            self._metrics.dropped(reason="rejected")
            _logger.exception("an event about %s could not be written", series.event.regarding.name)
        finally:
            self._writing -= 1
            if self._writing == 0:
                self._idle.set()

    async def _write_with_retries(self, series: _Series) -> None:
        for attempt in range(TRIES):
            count = series.count
            try:
                async with asyncio.timeout(_REQUEST_SECONDS):
                    await self._send(series, count)
            except AlreadyExists:
                pass  # an earlier try was executed, its answer lost
            except NotFound as error:
                if series.written_count == 0:
                    return self._give_up(series, error, reason="rejected")  # the namespace is gone
                series.written_count = 0  # the server forgot the event: it keeps them for an hour
                series.name = event_name(series.event.regarding.name)
                continue
            except ApiError as error:
                if error.status != 429 and error.status < 500:
                    return self._give_up(series, error, reason="rejected")
                await self._clock.sleep(min(_RETRY_SECONDS, 0.5 * 2.0**attempt))
                continue
            except (TransportError, TimeoutError):
                await self._clock.sleep(min(_RETRY_SECONDS, 0.5 * 2.0**attempt))
                continue
            return self._wrote(series, count)
        return self._give_up(series, None, reason="unreachable")

    async def _send(self, series: _Series, count: int) -> None:
        namespace = series.event.regarding.namespace or self._default_namespace
        patch = series_patch(count=count, time=micro_time(series.last_time))
        if series.written_count:
            await self._client.patch(EVENTS, series.name, patch, PatchType.MERGE, namespace=namespace)
            return
        body = event_body(
            series.event,
            name=series.name,
            namespace=namespace,
            time=micro_time(series.first_time),
            reporting_controller=self._reporting_controller,
            reporting_instance=self._reporting_instance,
        )
        await self._client.create(EVENTS, body if count == 1 else {**body, **patch}, namespace=namespace)

    def _wrote(self, series: _Series, count: int) -> None:
        self._metrics.written()
        if series.written_count:
            series.pause = min(series.pause * 2, LONGEST_PAUSE)
        series.written_count = count
        series.written_at = self._clock.monotonic()

    def _give_up(self, series: _Series, error: ApiError | None, *, reason: str) -> None:
        self._forget(series)
        self._metrics.dropped(reason=reason)
        _logger.warning(
            "event %s about %s %s was not written: %s",
            series.event.reason,
            series.event.regarding.kind,
            series.event.regarding.name,
            error or "the API server did not answer",
        )
