"""The runtime's metrics: names, zeroes, and what queues, controllers and caches make of them."""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import pytest

from controller_runtime.controller import Controller, Request, Result, TerminalError
from controller_runtime.observability.loop_lag import LoopLag
from controller_runtime.observability.metrics import QUEUE_BUCKETS, RECONCILE_BUCKETS, RuntimeMetrics
from controller_runtime.queue import WorkQueue
from tests.unit.runtime.leases import LoopClock


def value(metrics: RuntimeMetrics, metric: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(metric, labels)


def text(metrics: RuntimeMetrics) -> str:
    return metrics.render()[0].decode()


def test_everything_that_can_be_known_starts_at_zero() -> None:
    """OBS-2."""
    metrics = RuntimeMetrics()
    metrics.controller("c")
    metrics.queue("c")
    metrics.election.leading(name="lease", is_leader=False)
    for result in ("success", "error", "requeue", "requeue_after"):
        assert value(metrics, "controller_runtime_reconcile_total", controller="c", result=result) == 0
    for name in (
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_terminal_reconcile_errors_total",
        "controller_runtime_reconcile_timeouts_total",
        "controller_runtime_reconcile_time_seconds_count",
        "controller_runtime_active_workers",
    ):
        assert value(metrics, name, controller="c") == 0, name
    for name in (
        "workqueue_adds_total",
        "workqueue_retries_total",
        "workqueue_queue_duration_seconds_count",
        "workqueue_work_duration_seconds_count",
    ):
        assert value(metrics, name, name="c", controller="c") == 0, name
    assert value(metrics, "leader_election_master_status", name="lease") == 0
    assert value(metrics, "rest_client_requests_total", code="200", method="PATCH") == 0
    assert value(metrics, "controller_runtime_py_events_dropped_total", reason="spam") == 0


def test_buckets_are_those_dashboards_expect() -> None:
    assert len(RECONCILE_BUCKETS) == 40
    assert (RECONCILE_BUCKETS[0], RECONCILE_BUCKETS[-1]) == (0.005, 60.0)
    assert len(QUEUE_BUCKETS) == 12
    assert QUEUE_BUCKETS[0] == pytest.approx(1e-8)


def test_no_series_tells_when_a_series_was_made() -> None:
    metrics = RuntimeMetrics()
    metrics.controller("c").finished(result="success", seconds=1)
    assert "_created" not in text(metrics)


def test_the_format_follows_the_accept_header() -> None:
    metrics = RuntimeMetrics()
    assert metrics.render()[1].startswith("text/plain")
    body, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_every_metric_has_a_help_text() -> None:
    helps = re.findall(r"^# HELP (\S+) *(.*)$", text(RuntimeMetrics()), flags=re.MULTILINE)
    assert len(helps) > 15
    assert [name for name, help_text in helps if not help_text] == []


@pytest.mark.looptime
async def test_a_queue_is_read_when_somebody_scrapes() -> None:
    """OBS-2."""
    metrics = RuntimeMetrics()
    queue = WorkQueue("q", metrics=metrics.queue("q", controller="c"))
    labels = {"name": "q", "controller": "c"}
    registry = metrics.registry
    assert registry.get_sample_value("workqueue_depth", {**labels, "priority": "0"}) == 0
    queue.add("running")
    await queue.get()
    queue.add("ready", priority=100)
    queue.add("later", after=60)
    await asyncio.sleep(3)
    assert registry.get_sample_value("workqueue_depth", {**labels, "priority": "100"}) == 1
    assert registry.get_sample_value("workqueue_depth", {**labels, "priority": "0"}) == 0
    assert registry.get_sample_value("workqueue_unfinished_work_seconds", labels) == 3
    assert registry.get_sample_value("workqueue_longest_running_processor_seconds", labels) == 3
    assert registry.get_sample_value("workqueue_adds_total", labels) == 3
    assert registry.get_sample_value("workqueue_retries_total", labels) == 1
    queue.done("running")
    assert registry.get_sample_value("workqueue_work_duration_seconds_sum", labels) == 3
    assert registry.get_sample_value("workqueue_unfinished_work_seconds", labels) == 0
    queue.shut_down()


@pytest.mark.looptime
async def test_a_controller_counts_each_outcome_once() -> None:
    """OBS-2."""
    metrics = RuntimeMetrics()

    async def reconcile(request: Request) -> Result:
        match request.key:
            case "later":
                return Result(requeue_after=1000)
            case "bad":
                raise TerminalError("no")
            case "slow":
                await asyncio.sleep(1000)
        return Result()

    subject = Controller("c", reconcile, metrics=metrics.controller("c"), queue_metrics=metrics.queue("c"), timeout=10)
    for key in ("good", "later", "bad", "slow"):
        subject.queue.add(key)
    task = asyncio.create_task(subject.run())
    await asyncio.sleep(5)
    assert value(metrics, "controller_runtime_active_workers", controller="c") == 1
    await asyncio.sleep(5.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    def results(result: str) -> float | None:
        return value(metrics, "controller_runtime_reconcile_total", controller="c", result=result)

    assert (results("success"), results("requeue_after"), results("error")) == (1, 1, 2)
    assert value(metrics, "controller_runtime_reconcile_errors_total", controller="c") == 2
    assert value(metrics, "controller_runtime_terminal_reconcile_errors_total", controller="c") == 1
    assert value(metrics, "controller_runtime_reconcile_timeouts_total", controller="c") == 1
    assert value(metrics, "controller_runtime_active_workers", controller="c") == 0
    assert value(metrics, "controller_runtime_max_concurrent_reconciles", controller="c") == 1
    assert value(metrics, "controller_runtime_reconcile_time_seconds_count", controller="c") == 4


@dataclass
class Shelf:
    things: list[object] = field(default_factory=list)

    def values(self) -> Collection[object]:
        return self.things


@dataclass
class Cache:
    resource: object = "nodes"
    counts: Mapping[str, int] = field(default_factory=dict)
    store: Shelf = field(default_factory=Shelf)
    last_progress: float = 0.0


@pytest.mark.looptime
async def test_a_cache_is_read_when_somebody_scrapes() -> None:
    """OBS-2: object counts, relists and watch restarts by resource."""
    metrics = RuntimeMetrics(clock=LoopClock())
    counts = {"list": 2, "watch": 5, "event": 9, "expired": 1, "undecodable": 3}
    metrics.watch_cache(Cache(counts=counts, store=Shelf(["a", "b"])))
    await asyncio.sleep(7)
    assert value(metrics, "controller_runtime_py_cached_objects", resource="nodes") == 2
    assert value(metrics, "controller_runtime_py_relists_total", resource="nodes") == 2
    assert value(metrics, "controller_runtime_py_watch_restarts_total", resource="nodes", reason="expired") == 1
    assert value(metrics, "controller_runtime_py_watch_restarts_total", resource="nodes", reason="watch") is None
    assert value(metrics, "controller_runtime_py_undecodable_objects_total", resource="nodes") == 3
    assert value(metrics, "controller_runtime_py_watch_silence_seconds", resource="nodes") == 7


def test_requests_are_counted_by_code_and_method() -> None:
    metrics = RuntimeMetrics()
    metrics.request("409", "PATCH", 0.2)
    metrics.request("<error>", "GET", 5.0)
    assert value(metrics, "rest_client_requests_total", code="409", method="PATCH") == 1
    assert value(metrics, "rest_client_requests_total", code="<error>", method="GET") == 1
    assert value(metrics, "rest_client_request_duration_seconds_sum", verb="GET") == 5


@pytest.mark.looptime
async def test_a_stalled_loop_is_measured_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    lags: list[float] = []
    clock = LoopClock()
    stalls = iter([0.0, 3.0, 0.0])

    class StallingClock(LoopClock):
        """A clock whose sleeps take longer than asked, as with a loop that is busy."""

        async def sleep(self, seconds: float) -> None:
            await clock.sleep(seconds + next(stalls, 0.0))

    task = asyncio.create_task(LoopLag(lags.append, clock=StallingClock()).run())
    await asyncio.sleep(3.8)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert lags[:3] == pytest.approx([0.0, 3.0, 0.0])
    assert "stalled for 3.0 s" in caplog.text


def test_the_election_and_the_recorder_have_their_metrics() -> None:
    metrics = RuntimeMetrics()
    metrics.election.leading(name="lease", is_leader=True)
    metrics.election.slow_path(name="lease")
    metrics.events.dropped(reason="spam")
    metrics.events.written()
    call: Callable[..., float | None] = metrics.registry.get_sample_value
    assert call("leader_election_master_status", {"name": "lease"}) == 1
    assert call("leader_election_slowpath_total", {"name": "lease"}) == 1
    assert call("controller_runtime_py_events_dropped_total", {"reason": "spam"}) == 1
    assert call("controller_runtime_py_events_written_total") == 1
