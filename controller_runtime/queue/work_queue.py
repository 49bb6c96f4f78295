"""The work queue: which key is worked on next, and when.

Two heaps hold the pending keys, one ordered by priority for those whose time has come, one ordered by time for the
others; a dict holds the one entry a key has. Heap nodes are never removed from the middle: a node whose ticket is no
longer its entry's is skipped. One timer of the loop moves keys from waiting to ready. All methods but `get` are
synchronous, hence atomic under the loop, and no task is needed.

Relies on the running loop's clock only. Relied on by `controller`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeVar

from controller_runtime.observability.protocols import QueueMetrics
from controller_runtime.observability.silent import SilentQueueMetrics
from controller_runtime.queue.backoff import Backoff

_logger = logging.getLogger(__name__)

MAX_TRIGGERS = 8
"""So many different trigger names are remembered per key; more would only make spans longer."""
_SLACK = 64
"""Heaps are rebuilt when more than half of them, beyond this many nodes, is out of date."""


class Priority(IntEnum):
    """Which keys are handed out first. Any integer works; these are the names in use."""

    LOW = -100
    """First list, resync."""
    NORMAL = 0
    """Somebody changed something."""
    HIGH = 100
    """Deletions and deadlines."""


class QueueShutDown(Exception):  # noqa: N818 - not an error: the way a worker learns that there is no more work
    """Raised by `get` once the queue was shut down."""


@dataclass(frozen=True, slots=True)
class Request:
    """One hand-out of a key."""

    key: str
    """`name` or `namespace/name`."""
    triggers: tuple[str, ...] = ()
    """Low-cardinality names of what asked for it, each once, in order of arrival, at most eight."""
    queue_seconds: float = 0.0
    """How long the key had been ready before a worker took it."""


@dataclass(slots=True, eq=False)
class _Entry:
    """The pending state of one key."""

    key: str
    priority: int
    due: float
    """Loop time from which the key may be handed out, by its adds alone."""
    ticket: int = -1
    """Number of the heap node that stands for this entry; -1 while the key is being worked on."""
    ready_order: int = -1
    """Place among keys of the same priority; -1 until the key is ready."""
    ready_since: float = math.nan
    triggers: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Run:
    """A key that was handed out and not given back."""

    entry: _Entry
    since: float


_Node = TypeVar("_Node", bound=tuple[Any, ...])


class WorkQueue:
    """Keys to work on, each at most once in the queue and at most once in work.

    Guarantees
    - A key is handed out at least once after each add, and never to two workers at the same time (trap 19).
    - An add never delays a key: of several due times the earliest wins, of several priorities the highest (trap 21).
    - Between two hand-outs of one key lies at least `min_interval`; adds in between are folded into one.
    - A `get` that is cancelled after it was given a key puts the key back where it was (trap 20).
    - After `shut_down` all waiting `get` calls raise `QueueShutDown`, adds are ignored and pending keys are dropped:
      the cluster is the memory, and a new process lists everything again (trap 23).

    Assumptions
    - All calls come from one event loop. Times are those of the loop.
    - Whoever got a key calls `done` in a `finally`.
    """

    def __init__(
        self,
        name: str,
        *,
        min_interval: float | Callable[[str], float] = 0.0,
        backoff: Backoff | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self.name = name
        self._min_interval = min_interval
        self._backoff = Backoff() if backoff is None else backoff
        self._metrics: QueueMetrics = SilentQueueMetrics() if metrics is None else metrics
        self._entries: dict[str, _Entry] = {}
        self._ready: list[tuple[int, int, int, _Entry]] = []  # (-priority, ready_order, ticket, entry)
        self._waiting: list[tuple[float, int, _Entry]] = []  # (time, ticket, entry)
        self._running: dict[str, _Run] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}  # by time of hand-out: the oldest is first
        self._run_seconds: dict[str, float] = {}  # same keys as _not_before, plus those being evaluated
        self._getters: deque[asyncio.Future[Request]] = deque()
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._shut_down = False
        self._metrics.attach(self)

    # ------------------------------------------------------------------------------------------------ adding

    def add(self, key: str, *, priority: int = Priority.NORMAL, after: float = 0.0, trigger: str | None = None) -> None:
        """Ask for `key` to be handed out `after` seconds from now (at once by default).

        `trigger` is a low-cardinality name of the cause, kept until the key is handed out. Raises ValueError for a
        delay that is not a finite number; a negative one counts as zero.
        """
        if self._shut_down:
            return
        if not math.isfinite(after):
            raise ValueError(f"the delay of {key!r} must be a finite number of seconds, not {after}")
        now = self._now()
        due = now + max(0.0, after)
        if after > 0:
            self._metrics.retried()
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key, priority, due)
            self._metrics.added()
            stale = True
        else:
            is_ready = entry.ready_order >= 0
            stale = priority > entry.priority or (due < entry.due and not is_ready)
            entry.due = min(due, entry.due)
            entry.priority = max(priority, entry.priority)
        if trigger is not None and len(entry.triggers) < MAX_TRIGGERS:
            entry.triggers[trigger] = None
        if stale and key not in self._running:
            self._place(entry, now)
            self._hand_out(now)

    def add_rate_limited(self, key: str, *, priority: int = Priority.NORMAL, trigger: str | None = None) -> None:
        """Count a failure of `key` and add it after its backoff."""
        if self._shut_down:
            return
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add(key, priority=priority, after=self._backoff.delay(failures), trigger=trigger)

    def forget(self, key: str) -> None:
        """Forget the failures of `key`; without this the map grows and a new object inherits old delays (trap 22)."""
        self._failures.pop(key, None)

    # -------------------------------------------------------------------------------------------- handing out

    async def get(self) -> Request:
        """Wait for the next key and take it. Raises QueueShutDown when there is nothing to come."""
        now = self._now()
        entry = self._pop_ready()
        if entry is not None:
            return self._take(entry, now)
        if self._shut_down:
            raise QueueShutDown
        getter: asyncio.Future[Request] = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            return await getter
        except asyncio.CancelledError:
            if not getter.cancelled() and getter.exception() is None:
                self._put_back(getter.result().key)
            elif getter in self._getters:
                self._getters.remove(getter)
            raise

    def done(self, key: str) -> None:
        """Give `key` back; if added meanwhile it becomes pending again, once. Call it in a `finally` (trap 20)."""
        run = self._running.pop(key, None)
        if run is None:
            return
        now = self._now()
        seconds = now - run.since
        self._metrics.finished(ran=seconds)
        if self._shut_down:
            return
        self._keep_apart(key, run, seconds, now)
        entry = self._entries.get(key)
        if entry is not None:
            self._place(entry, now)
            self._hand_out(now)

    def shut_down(self) -> None:
        """Drop what is pending, wake every waiting `get` with QueueShutDown and ignore later adds. Idempotent."""
        self._shut_down = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for state in (self._entries, self._ready, self._waiting, self._failures, self._not_before, self._run_seconds):
            state.clear()
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_exception(QueueShutDown())

    # ---------------------------------------------------------------------------------------------- looking

    def __len__(self) -> int:
        """Number of pending keys, ready or not."""
        return len(self._entries)

    def failures(self, key: str) -> int:
        """How often `key` failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def last_run_seconds(self, key: str) -> float:
        """How long the last run of `key` took; 0 when it is not known any more. For a `min_interval` that adapts."""
        return self._run_seconds.get(key, 0.0)

    def depths(self) -> Mapping[int, int]:
        """Ready keys by priority."""
        return Counter(node[3].priority for node in self._ready if node[2] == node[3].ticket)

    def running_seconds(self) -> list[float]:
        """How long each key in work has been out."""
        if not self._running:
            return []
        now = self._now()
        return [now - run.since for run in self._running.values()]

    # --------------------------------------------------------------------------------------------- internals

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _place(self, entry: _Entry, now: float) -> None:
        """Push a new heap node for `entry`; its older nodes become void."""
        entry.ticket = next(self._numbers)
        due = max(entry.due, self._not_before.get(entry.key, entry.due))
        if due > now:
            heapq.heappush(self._waiting, (due, entry.ticket, entry))
            self._waiting = _without_void_nodes(self._waiting, live=len(self._entries))
            self._set_timer()
            return
        if entry.ready_order < 0:
            entry.ready_order = entry.ticket
            entry.ready_since = now
        heapq.heappush(self._ready, (-entry.priority, entry.ready_order, entry.ticket, entry))
        self._ready = _without_void_nodes(self._ready, live=len(self._entries))

    def _hand_out(self, now: float) -> None:
        """Give ready keys to those who wait."""
        while self._getters:
            if self._getters[0].done():  # cancelled, and its task has not run yet
                self._getters.popleft()
                continue
            entry = self._pop_ready()
            if entry is None:
                return
            self._getters.popleft().set_result(self._take(entry, now))

    def _pop_ready(self) -> _Entry | None:
        while self._ready:
            _, _, ticket, entry = heapq.heappop(self._ready)
            if ticket == entry.ticket:
                return entry
        return None

    def _take(self, entry: _Entry, now: float) -> Request:
        del self._entries[entry.key]
        entry.ticket = -1
        self._running[entry.key] = _Run(entry, now)
        waited = now - entry.ready_since
        self._metrics.handed_out(waited=waited)
        return Request(entry.key, tuple(entry.triggers), waited)

    def _put_back(self, key: str) -> None:
        """Undo a hand-out that nobody will work on: same place, same triggers, merged with what was added since."""
        run = self._running.pop(key, None)
        if run is None or self._shut_down:
            return
        now = self._now()
        entry = run.entry
        newer = self._entries.get(key)
        if newer is not None:
            entry.priority = max(entry.priority, newer.priority)
            entry.triggers |= newer.triggers
        self._entries[key] = entry
        self._place(entry, now)
        self._hand_out(now)

    def _keep_apart(self, key: str, run: _Run, seconds: float, now: float) -> None:
        """Note from when on `key` may be handed out again, and drop notes whose time has passed."""
        self._run_seconds[key] = seconds
        not_before = run.since + self._interval(key)
        self._not_before.pop(key, None)
        if not_before > now:
            self._not_before[key] = not_before
        else:
            del self._run_seconds[key]
        while self._not_before:
            oldest = next(iter(self._not_before))
            if self._not_before[oldest] > now:
                return
            del self._not_before[oldest]
            self._run_seconds.pop(oldest, None)

    def _interval(self, key: str) -> float:
        if not callable(self._min_interval):
            return self._min_interval
        try:
            return self._min_interval(key)
        except Exception:
            # A key must not get stuck because its pace could not be computed.
            _logger.exception("the interval of %s/%s could not be computed", self.name, key)
            return 0.0

    def _set_timer(self) -> None:
        while self._waiting and self._waiting[0][1] != self._waiting[0][2].ticket:
            heapq.heappop(self._waiting)
        if not self._waiting:
            return
        due = self._waiting[0][0]
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._wake_up, due)

    def _wake_up(self, due: float) -> None:
        """Move every key whose time has come from waiting to ready; the loop may call a hair before `due`."""
        self._timer = None
        now = max(due, self._now())
        while self._waiting and self._waiting[0][0] <= now:
            _, ticket, entry = heapq.heappop(self._waiting)
            if ticket == entry.ticket:
                self._place(entry, now)
        self._set_timer()
        self._hand_out(now)


def _without_void_nodes(heap: list[_Node], *, live: int) -> list[_Node]:
    """`heap`, rebuilt if most of its nodes stand for nothing any more: memory stays in proportion to the keys."""
    if len(heap) <= 2 * live + _SLACK:
        return heap
    kept = [node for node in heap if node[-2] == node[-1].ticket]
    heapq.heapify(kept)
    return kept
