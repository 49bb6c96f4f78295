"""The runtime's metrics for Prometheus, under the names controllers use (OBS-2), in a registry of its own.

Everything that can be known beforehand starts at 0. Depths, running times and cache sizes are read when somebody
scrapes. Implements the protocols of `protocols`; relied on by whoever wires a process.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller_runtime.clock import Clock, SystemClock
from controller_runtime.observability.protocols import CacheView, QueueView

# A second series for each counter and histogram, saying when it was made: nobody reads it.
disable_created_metrics()  # type: ignore[no-untyped-call]

RESULTS = ("success", "error", "requeue", "requeue_after")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_DROPS = ("queue_full", "spam", "rejected", "unreachable", "invalid")
_NO_FAULTS = frozenset({"list", "watch", "event", "bookmark", "undecodable"})

RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0),
    *(10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
QUEUE_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))
_REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_LAG_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RuntimeMetrics:
    """All metrics of one process. `registry` may carry metrics of others as well."""

    def __init__(self, registry: CollectorRegistry | None = None, *, clock: Clock | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._scraped = _Scraped(SystemClock() if clock is None else clock)
        self.registry.register(self._scraped)
        self._controllers = _ControllerFamilies(self.registry)
        self._queues = _QueueFamilies(self.registry)
        self.election = _Election(self.registry)
        self.events = _Events(self.registry)
        self._requests = Counter(
            "rest_client_requests_total", "Requests to the API server.", ("code", "method"), registry=self.registry
        )
        self._request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "How long requests to the API server took.",
            ("verb",),
            buckets=_REQUEST_BUCKETS,
            registry=self.registry,
        )
        for method in _METHODS:
            self._requests.labels("200", method)
            self._request_seconds.labels(method)
        self._lag = Histogram(
            "controller_runtime_py_loop_lag_seconds",
            "How much later than asked the event loop called back.",
            buckets=_LAG_BUCKETS,
            registry=self.registry,
        )

    def controller(self, name: str) -> ControllerCounts:
        """The metrics of one controller, at 0."""
        return ControllerCounts(self._controllers, name)

    def queue(self, name: str, *, controller: str | None = None) -> QueueCounts:
        """The metrics of one queue, at 0; `controller` defaults to the queue's name."""
        return QueueCounts(self._queues, self._scraped, name, controller or name)

    def watch_cache(self, cache: CacheView) -> None:
        """Publish size, relists and faults of an informer."""
        self._scraped.caches.append(cache)

    def request(self, code: str, method: str, seconds: float) -> None:
        """Count one attempt of a request: the `metrics` of a client."""
        self._requests.labels(code, method).inc()
        self._request_seconds.labels(method).observe(seconds)

    def loop_lag(self, seconds: float) -> None:
        """Count one measurement of the loop's lag."""
        self._lag.observe(seconds)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Everything in the format the `Accept` header asks for, and its content type."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type


class _ControllerFamilies:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"controller_runtime_{name}", text, ("controller", *labels), registry=registry)

        self.results = counter("reconcile_total", "Passes by result.", "result")
        self.errors = counter("reconcile_errors_total", "Passes that failed.")
        self.terminal = counter("terminal_reconcile_errors_total", "Passes that failed for good.")
        self.timeouts = counter("reconcile_timeouts_total", "Passes that were cancelled because they took too long.")
        self.seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long passes took.",
            ("controller",),
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        )
        self.most = Gauge(
            "controller_runtime_max_concurrent_reconciles", "Workers there are.", ("controller",), registry=registry
        )
        self.active = Gauge(
            "controller_runtime_active_workers", "Workers that are busy.", ("controller",), registry=registry
        )


class ControllerCounts:
    """Implements `ControllerMetrics`."""

    def __init__(self, families: _ControllerFamilies, name: str) -> None:
        self._results = {result: families.results.labels(name, result) for result in RESULTS}
        self._errors = families.errors.labels(name)
        self._terminal = families.terminal.labels(name)
        self._timeouts = families.timeouts.labels(name)
        self._seconds = families.seconds.labels(name)
        self._most = families.most.labels(name)
        self._active = families.active.labels(name)

    def workers(self, count: int) -> None:
        """How many passes may run at once."""
        self._most.set(count)

    def started(self) -> None:
        """A worker became busy."""
        self._active.inc()

    def stopped(self) -> None:
        """A worker is free again."""
        self._active.dec()

    def finished(self, *, result: str, seconds: float) -> None:
        """A pass came to its end."""
        self._results[result].inc()
        self._seconds.observe(seconds)

    def failed(self, *, terminal: bool, timed_out: bool) -> None:
        """A pass failed."""
        self._errors.inc()
        if terminal:
            self._terminal.inc()
        if timed_out:
            self._timeouts.inc()


class _QueueFamilies:
    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("name", "controller")
        self.adds = Counter("workqueue_adds_total", "Keys that became pending.", labels, registry=registry)
        self.retries = Counter("workqueue_retries_total", "Adds with a delay.", labels, registry=registry)
        self.waited = Histogram(
            "workqueue_queue_duration_seconds",
            "How long keys were ready before a worker took them.",
            labels,
            buckets=QUEUE_BUCKETS,
            registry=registry,
        )
        self.ran = Histogram(
            "workqueue_work_duration_seconds",
            "How long workers had keys.",
            labels,
            buckets=QUEUE_BUCKETS,
            registry=registry,
        )


class QueueCounts:
    """Implements `QueueMetrics`."""

    def __init__(self, families: _QueueFamilies, scraped: _Scraped, name: str, controller: str) -> None:
        self._labels = (name, controller)
        self._scraped = scraped
        self._adds = families.adds.labels(name, controller)
        self._retries = families.retries.labels(name, controller)
        self._waited = families.waited.labels(name, controller)
        self._ran = families.ran.labels(name, controller)

    def attach(self, queue: QueueView) -> None:
        """Read depth and running times from this queue at scrape time."""
        self._scraped.queues[self._labels] = queue

    def added(self) -> None:
        """A key became pending."""
        self._adds.inc()

    def retried(self) -> None:
        """A key was added with a delay."""
        self._retries.inc()

    def handed_out(self, *, waited: float) -> None:
        """A worker took a key."""
        self._waited.observe(waited)

    def finished(self, *, ran: float) -> None:
        """A worker gave a key back."""
        self._ran.observe(ran)


class _Election:
    """Implements `ElectionMetrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._status = Gauge(
            "leader_election_master_status", "1 while this process holds the lease.", ("name",), registry=registry
        )
        self._slow = Counter(
            "leader_election_slowpath_total", "Renewals that met a conflict.", ("name",), registry=registry
        )

    def leading(self, *, name: str, is_leader: bool) -> None:
        """Whether this process holds the lease."""
        self._status.labels(name).set(1 if is_leader else 0)
        self._slow.labels(name)

    def slow_path(self, *, name: str) -> None:
        """A renewal met a conflict and had to read the lease again."""
        self._slow.labels(name).inc()


class _Events:
    """Implements `EventMetrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._written = Counter(
            "controller_runtime_py_events_written_total", "Writes of events that succeeded.", registry=registry
        )
        self._dropped = Counter(
            "controller_runtime_py_events_dropped_total", "Events given up.", ("reason",), registry=registry
        )
        for reason in _DROPS:
            self._dropped.labels(reason)

    def written(self) -> None:
        """One request was answered with success."""
        self._written.inc()

    def dropped(self, *, reason: str) -> None:
        """One event was given up."""
        self._dropped.labels(reason).inc()


class _Scraped(Collector):
    """What is read from live queues and caches when somebody scrapes."""

    def __init__(self, clock: Clock) -> None:
        self.queues: dict[tuple[str, str], QueueView] = {}
        self.caches: list[CacheView] = []
        self._clock = clock

    def describe(self) -> Iterator[Metric]:
        """Nothing: names are known only to `collect`, and no other collector uses them."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Read everything now."""
        yield from self._of_queues()
        yield from self._of_caches()

    def _of_queues(self) -> Iterator[Metric]:
        labels = ("name", "controller")
        depth = GaugeMetricFamily("workqueue_depth", "Keys that are ready.", labels=(*labels, "priority"))
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "How long all keys in work have been out, added up.", labels=labels
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds", "The longest a key in work has been out.", labels=labels
        )
        for names, queue in self.queues.items():
            for priority, count in ({0: 0} | dict(queue.depths())).items():
                depth.add_metric((*names, str(priority)), count)
            running = queue.running_seconds()
            unfinished.add_metric(names, sum(running))
            longest.add_metric(names, max(running, default=0.0))
        yield from (depth, unfinished, longest)

    def _of_caches(self) -> Iterator[Metric]:
        prefix = "controller_runtime_py"
        labels = ("resource",)
        objects = GaugeMetricFamily(f"{prefix}_cached_objects", "Objects in the cache.", labels=labels)
        relists = CounterMetricFamily(f"{prefix}_relists", "Full lists, the first one included.", labels=labels)
        restarts = CounterMetricFamily(
            f"{prefix}_watch_restarts", "Watches that ended by a fault.", labels=("resource", "reason")
        )
        unreadable = CounterMetricFamily(f"{prefix}_undecodable_objects", "Objects that were put aside.", labels=labels)
        silence = GaugeMetricFamily(
            f"{prefix}_watch_silence_seconds", "How long the server has told nothing.", labels=labels
        )
        now = self._clock.monotonic()
        for cache in self.caches:
            resource, counts = str(cache.resource), cache.counts
            objects.add_metric((resource,), len(cache.store.values()))
            relists.add_metric((resource,), counts.get("list", 0))
            unreadable.add_metric((resource,), counts.get("undecodable", 0))
            silence.add_metric((resource,), now - cache.last_progress)
            for reason, count in counts.items():
                if reason not in _NO_FAULTS:
                    restarts.add_metric((resource, reason), count)
        yield from (objects, relists, restarts, unreadable, silence)
