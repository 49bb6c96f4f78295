"""What the runtime reports, as protocols: the places that count know nothing of Prometheus.

Relied on by `queue`, `controller`, `election`, `events`, `cache` and `transport`; `observability.metrics` implements
all of them. Each protocol has a silent twin in `observability.silent`, so that no caller tests for None.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol


class QueueView(Protocol):
    """What is read from a live queue when metrics are scraped: no timer keeps these up to date."""

    def depths(self) -> Mapping[int, int]:
        """Ready keys by priority (keys waiting for their time do not count)."""

    def running_seconds(self) -> list[float]:
        """How long each key being worked on has been out, in seconds."""


class QueueMetrics(Protocol):
    """Counts of one work queue (OBS-2, `workqueue_*`)."""

    def attach(self, queue: QueueView) -> None:
        """Read depth and running times from this queue at scrape time."""

    def added(self) -> None:
        """A key became pending."""

    def retried(self) -> None:
        """A key was added with a delay."""

    def handed_out(self, *, waited: float) -> None:
        """A worker took a key that had been ready for `waited` seconds."""

    def finished(self, *, ran: float) -> None:
        """A worker gave a key back after `ran` seconds."""


class ControllerMetrics(Protocol):
    """Counts of one controller (OBS-2, `controller_runtime_*`)."""

    def workers(self, count: int) -> None:
        """How many reconciles may run at once."""

    def started(self) -> None:
        """A worker became busy."""

    def stopped(self) -> None:
        """A worker is free again, whatever happened; called once for each `started`."""

    def finished(self, *, result: str, seconds: float) -> None:
        """A reconcile came to its end (one that was cancelled did not); `result` is success, error, requeue or requeue_after."""

    def failed(self, *, terminal: bool, timed_out: bool) -> None:
        """A reconcile failed; called in addition to `finished`."""


class ElectionMetrics(Protocol):
    """Counts of one election. Called from the election's own thread."""

    def leading(self, *, name: str, is_leader: bool) -> None:
        """Whether this process holds the lease (`leader_election_master_status`)."""

    def slow_path(self, *, name: str) -> None:
        """A renewal met a conflict and had to read the lease again."""


class EventMetrics(Protocol):
    """Counts of the event recorder."""

    def written(self) -> None:
        """One request was answered with success."""

    def dropped(self, *, reason: str) -> None:
        """One event was given up; `reason` is queue_full, spam, rejected, unreachable, evicted or invalid."""


class CacheView(Protocol):
    """What is read from an informer when metrics are scraped."""

    @property
    def resource(self) -> object:
        """Its `str` names the resource: `nodes`, `jobs.batch`."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What happened, by word: `list`, `watch`, `event`, `bookmark`, `undecodable`; every other word is a fault."""

    @property
    def store(self) -> CachedObjects:
        """The objects."""

    @property
    def last_progress(self) -> float:
        """Monotonic time at which the server last told something."""


class CachedObjects(Protocol):
    """Anything that can list what it holds."""

    def values(self) -> Collection[object]:
        """All objects."""
