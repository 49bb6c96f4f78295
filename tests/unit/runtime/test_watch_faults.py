"""Faults of servers, objects and ourselves, in virtual time: how long is waited, what is said, what is left alone."""

import asyncio
import json
import logging
from contextlib import suppress

import pytest

from controller_runtime.cache import Informer
from controller_runtime.transport import TransportError
from tests.unit.runtime.model_server import (
    WIDGETS,
    Line,
    LoopClock,
    ModelServer,
    Widget,
    refusal,
    status,
)
from tests.unit.runtime.watching import Seen, same, settle, watching

pytestmark = pytest.mark.looptime


async def test_watches_that_end_at_once_are_not_reopened_in_a_hot_loop() -> None:
    """Trap 15: fewer than five opens in the first five seconds."""
    server = ModelServer()
    server.put("a")
    server.on_watch.extend([lambda line: line.end()] * 100)
    async with watching(server, synced=False):
        await asyncio.sleep(5)
        assert len(server.requests) < 5


async def test_even_one_event_before_each_end_makes_no_hot_loop() -> None:
    server = ModelServer()
    item = server.put("a")

    def one_event(line: Line) -> None:
        line.send({"type": "MODIFIED", "object": item})
        line.end()

    async with watching(server):
        server.on_watch.extend([one_event] * 1000)
        server.cut()
        await asyncio.sleep(10)
        assert len(server.requests) < 8


async def test_the_backoff_grows_to_thirty_seconds_and_forgets_after_two_healthy_minutes() -> None:
    server = ModelServer()
    server.put("a")
    async with watching(server):
        server.on_watch.extend([status(429)] * 20)
        server.cut()
        await asyncio.sleep(300)
        count = len(server.requests)
        assert 12 <= count <= 21
        while server.on_watch:  # noqa: ASYNC110
            await asyncio.sleep(1)
        await asyncio.sleep(31 + 121)
        healthy = len(server.requests)
        server.cut()
        await asyncio.sleep(1.7)
        assert len(server.requests) == healthy + 1


async def test_a_missing_resource_is_asked_for_every_ten_seconds_with_one_clear_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Trap 48: the CRD, or the permission, comes a minute later."""
    server = ModelServer()
    server.put("a")
    server.on_watch.extend(
        [status(404, "NotFound", "no such resource")] * 3 + [status(403, "Forbidden", "may not")] * 3
    )
    with caplog.at_level(logging.INFO):
        async with watching(server):
            assert 59 <= asyncio.get_running_loop().time() <= 62
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert "widgets.example.com" in lines[0]
    assert "no such resource" in lines[0]


async def test_a_fresh_resource_whose_storage_initializes_is_waited_for() -> None:
    server = ModelServer()
    server.put("a")
    server.on_watch.extend([status(429, "TooManyRequests", "storage is (re)initializing")] * 2)
    async with watching(server) as informer:
        assert same(informer, server)
        assert server.asked("list") == []


async def test_one_unreadable_object_harms_no_other() -> None:
    """Trap 50: in the list and in the watch; its key is quarantined, counted, and still deleted when it goes."""
    server = ModelServer()
    server.put("a")
    server.put("bad", color={"not": "a text"})
    server.put("c")
    async with watching(server) as informer:
        assert sorted(informer.store.keys()) == ["n/a", "n/c"]
        assert informer.quarantined == {"n/bad"}
        server.put("a", size="large")
        server.put("d", color="blue")
        await settle()
        assert sorted(informer.store.keys()) == ["n/a", "n/c", "n/d"]
        assert informer.quarantined == {"n/bad", "n/a"}
        assert informer.counts["undecodable"] == 2
        assert informer.store.resource_version("n/a") == server.objects["n/a"]["metadata"]["resourceVersion"]
        server.put("bad", color="red")
        server.remove("a")
        await settle()
        assert sorted(informer.store.keys()) == ["n/bad", "n/c", "n/d"]
        assert informer.quarantined == set()


async def test_an_object_that_became_unreadable_is_not_deleted_by_a_relist() -> None:
    """Trap 50: its last readable version stays; deleting it would be a lie."""
    server = ModelServer()
    server.put("a", color="red")
    async with watching(server) as informer:
        seen = Seen(informer)
        await settle()
        server.cut()
        server.put("a", size="large")
        server.forget()
        await asyncio.sleep(10)
        assert informer.counts["expired"] == 1
        assert seen.words == []
        assert informer.store.get("n/a") is not None
        assert informer.quarantined == {"n/a"}


async def test_an_object_without_readable_metadata_is_left_out_and_counted() -> None:
    """Trap 50."""
    server = ModelServer()
    async with watching(server) as informer:
        server.lines[-1].send(
            {"type": "ADDED", "object": {"metadata": "none"}}, {"type": "ADDED", "object": {"no": "metadata"}}
        )
        server.put("a")
        await settle()
        assert list(informer.store.keys()) == ["n/a"]
        assert informer.counts["undecodable"] == 2
        assert len(server.requests) == 1


async def test_a_pause_lasts_at_least_as_long_as_the_server_asks() -> None:
    """Trap 34, for watches: in a refusal and in an ERROR event."""
    server = ModelServer()
    server.put("a")
    async with watching(server):
        busy = status(429, "TooManyRequests")
        busy["details"] = {"retryAfterSeconds": 40}
        server.on_watch.append(busy)
        server.cut()
        await asyncio.sleep(39)
        assert len(server.requests) == 2
        await asyncio.sleep(3)
        assert len(server.requests) == 3
        server.lines[-1].send({"type": "ERROR", "object": busy})
        await asyncio.sleep(39)
        assert len(server.requests) == 3
        await asyncio.sleep(3)
        assert len(server.requests) == 4


async def test_no_server_makes_us_blind_for_more_than_a_minute() -> None:
    server = ModelServer()
    server.put("a")
    async with watching(server):
        busy = status(429, "TooManyRequests")
        busy["details"] = {"retryAfterSeconds": 86_400}
        server.lines[-1].send({"type": "ERROR", "object": busy})
        await asyncio.sleep(59)
        assert len(server.requests) == 1
        await asyncio.sleep(2)
        assert len(server.requests) == 2


async def test_an_error_event_about_permission_costs_a_pause_and_no_list() -> None:
    """Not trap 48: the resource was there a moment ago, and whoever was allowed to open the stream is told why it
    ends.
    """
    server = ModelServer()
    server.put("a")
    async with watching(server):
        server.lines[-1].send({"type": "ERROR", "object": status(403, "Forbidden")})
        await asyncio.sleep(3)
        assert [request["what"] for request in server.requests] == ["streaming", "watch"]


async def test_a_line_that_is_no_event_costs_a_pause_and_no_object() -> None:
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        server.lines[-1].chunks.append(b"<html>proxy</html>\n")
        server.lines[-1].ready.set()
        server.lines[-1].send({"type": "DELETED", "object": server.objects["n/a"]})
        await asyncio.sleep(5)
        assert same(informer, server)
        assert server.asked("watch")[-1]["version"] == "11"


async def test_whatever_kills_the_watch_it_starts_again_from_a_full_list(caplog: pytest.LogCaptureFixture) -> None:
    """B149: an unexpected exception makes no zombie."""
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        server.on_watch.append(ZeroDivisionError("a defect"))
        server.cut()
        server.put("b")
        await asyncio.sleep(10)
        assert informer.counts["restart"] == 1
        assert server.requests[-1]["what"] == "streaming"
        assert same(informer, server)
    assert "a defect" in caplog.text


async def test_connections_reset_while_opening_do_not_end_the_watch() -> None:
    """B149: three resets, then it is accepted."""
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        server.on_watch.extend([TransportError("reset", sent=None)] * 3)
        server.cut()
        server.put("b")
        await asyncio.sleep(30)
        assert same(informer, server)


async def test_progress_is_told_by_events_and_bookmarks_only() -> None:
    """B149: what a liveness probe looks at."""
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(100)
        assert loop.time() - informer.last_progress >= 100
        server.bookmark()
        await settle()
        assert loop.time() - informer.last_progress < 1
        server.on_watch.extend([refusal(status(500))] * 100)
        server.on_list.extend([refusal(status(500))] * 100)
        server.cut()
        await asyncio.sleep(200)
        assert loop.time() - informer.last_progress >= 199


async def test_a_long_burst_gives_other_tasks_their_turn() -> None:
    """Section 4: decoding does not starve renewals."""
    server = ModelServer()
    async with watching(server) as informer:
        item = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "x", "uid": "u", "resourceVersion": "99"}}})
        clock = informer._clock
        ticks = 0.0

        def slow() -> float:
            nonlocal ticks
            ticks += 0.002
            return asyncio.get_running_loop().time() + ticks

        clock.monotonic = slow  # type: ignore[method-assign]
        server.lines[-1].chunks.append((item.encode() + b"\n") * 1000)
        server.lines[-1].ready.set()
        turns = 0
        for _ in range(50):
            await asyncio.sleep(0)
            turns += 1
        assert turns == 50
        assert 0 < informer.counts["event"] < 1000


async def test_waiting_for_the_first_picture_waits_for_the_handlers_too() -> None:
    """Trap 47."""
    server = ModelServer()
    server.put("a")
    informer = Informer(server, WIDGETS, Widget, clock=LoopClock())
    seen = Seen(informer)
    task = asyncio.create_task(informer.run())
    await informer.wait_synced()
    assert seen.words == ["+a"]
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_what_changes_during_a_streaming_list_counts_as_it_ends() -> None:
    """Trap 9: an object that comes, changes or goes before the end mark."""
    server = ModelServer()
    a, b = server.put("a", color="red"), server.put("b")
    newer = server.put("a", color="blue")
    server.remove("b")

    def mixed(line: Line) -> None:
        line.send({"type": "ADDED", "object": a}, {"type": "ADDED", "object": b}, {"type": "MODIFIED", "object": newer})
        line.send({"type": "DELETED", "object": b}, server._bookmark(end=True))

    server.on_watch.append(mixed)
    async with watching(server) as informer:
        assert same(informer, server)


@pytest.mark.parametrize("streaming", [True, False])
async def test_selectors_are_sent_with_every_request(*, streaming: bool) -> None:
    server = ModelServer()
    informer = Informer(
        server,
        WIDGETS,
        Widget,
        namespace="n",
        label_selector="a=b",
        field_selector="spec.x=y",
        clock=LoopClock(),
        streaming=streaming,
    )
    task = asyncio.create_task(informer.run())
    await informer.wait_synced()
    await settle()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert len(server.requests) == (1 if streaming else 2)
    for asked in server.requests:
        assert (asked["labelSelector"], asked["fieldSelector"]) == ("a=b", "spec.x=y")
        assert asked["path"] == "/apis/example.com/v1/namespaces/n/widgets"


async def test_a_page_that_is_no_list_is_a_fault_and_no_picture() -> None:
    """Trap 8."""
    server = ModelServer()
    server.put("a")
    server.on_list.append(lambda: b"<html>proxy</html>")
    async with watching(server, streaming=False) as informer:
        assert informer.counts["error"] == 1
        assert len(server.asked("list")) == 2
        assert same(informer, server)


async def test_cancelling_closes_the_stream() -> None:
    server = ModelServer()
    async with watching(server):
        pass
    assert all(line.closed for line in server.lines)
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("streaming", [True, False])
async def test_cancelled_at_any_moment_it_ends_and_leaves_nothing_open(*, streaming: bool) -> None:
    """Section 4: each await is a place to be cancelled; none swallows it, none leaks a stream or a task."""
    for moment in range(60):
        server = ModelServer(page_size=1)
        server.streaming = moment % 2 == 0
        for name in "abc":
            server.put(name)
        server.on_watch.extend([lambda line: line.end(), status(500)])
        informer = Informer(server, WIDGETS, Widget, clock=LoopClock(), streaming=streaming)
        task = asyncio.create_task(informer.run())
        for turn in range(moment):
            await asyncio.sleep(0 if turn % 4 else 0.4)
            if turn == moment // 2:
                server.cut()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(line.closed for line in server.lines)
        assert len(asyncio.all_tasks()) == 1
