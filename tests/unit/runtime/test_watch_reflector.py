"""Lists and watches against a model server, in virtual time: what is asked, when, and what becomes of the picture."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from controller_runtime.cache import Change, Informer
from controller_runtime.transport import TransportError
from tests.unit.runtime.model_server import (
    AHEAD,
    EXPIRED,
    WIDGETS,
    Line,
    LoopClock,
    ModelServer,
    Widget,
    refusal,
    status,
)

pytestmark = pytest.mark.looptime


class Seen:
    """The changes a store told, as words: `+a` came, `~a` changed, `-a` left."""

    def __init__(self, informer: Informer[Widget]) -> None:
        self.words: list[str] = []
        self.changes: list[Change[Widget]] = []
        informer.store.subscribe(self._note)

    def _note(self, change: Change[Widget]) -> None:
        self.changes.append(change)
        item = change.new or change.old
        assert item is not None
        sign = "+" if change.old is None else "-" if change.new is None else "~"
        self.words.append(f"{sign}{item.metadata.name}")


@asynccontextmanager
async def watching(
    server: ModelServer, *, streaming: bool = True, synced: bool = True
) -> AsyncIterator[Informer[Widget]]:
    informer = Informer(server, WIDGETS, Widget, clock=LoopClock(), streaming=streaming)
    task = asyncio.create_task(informer.run())
    try:
        if synced:
            async with asyncio.timeout(600):
                await informer.wait_synced()
        yield informer
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def same(informer: Informer[Widget], server: ModelServer) -> bool:
    return {key: item.color for key, item in zip(informer.store.keys(), informer.store.values(), strict=True)} == {
        key: item.get("color", "") for key, item in server.objects.items()
    }


async def settle() -> None:
    await asyncio.sleep(0.01)


async def test_a_streaming_list_brings_the_picture_and_the_same_stream_brings_the_changes() -> None:
    server = ModelServer()
    server.put("a", color="red")
    async with watching(server) as informer:
        seen = Seen(informer)
        server.put("b", color="blue")
        server.put("a", color="green")
        server.remove("b")
        await settle()
        assert seen.words == ["+b", "~a", "-b"]
        assert same(informer, server)
        assert [request["what"] for request in server.requests] == ["streaming"]
        asked = server.requests[0]
        assert asked["resourceVersionMatch"] == "NotOlderThan"
        assert asked["allowWatchBookmarks"] == "true"
        assert 300 <= int(asked["timeoutSeconds"]) <= 600


async def test_an_error_event_is_never_stored_and_costs_a_pause() -> None:
    """Trap 1."""
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        seen = Seen(informer)
        version, before = informer.store.version, asyncio.get_running_loop().time()
        server.lines[-1].send({"type": "ERROR", "object": status(500, "InternalError", "etcd is unwell")})
        server.lines[-1].end()
        await asyncio.sleep(0.7)
        assert len(server.requests) == 1  # still pausing,
        assert server.lines[0].closed  # and holding no stream meanwhile
        await asyncio.sleep(1.0)
        assert len(server.asked("watch")) == 1
        assert informer.counts["error"] == 1
        assert seen.words == []
        assert informer.store.version == version
        assert asyncio.get_running_loop().time() - before < 2


@pytest.mark.parametrize("form", ["http", "event"])
async def test_both_forms_of_410_make_exactly_one_relist(form: str) -> None:
    """Trap 2, trap 3: and no watch is opened twice at the stale version."""
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        await settle()
        if form == "http":
            server.on_watch.append(EXPIRED)
        server.cut()
        server.put("b")
        server.put("a", color="red")
        if form == "event":
            server.forget()
        await asyncio.sleep(10)
        assert informer.counts["expired"] == 1
        assert [request["what"] for request in server.requests] == ["streaming", "watch", "streaming"]
        assert server.requests[-1]["version"] == "11"
        stale = [request["version"] for request in server.asked("watch")]
        assert len(stale) == len(set(stale))
        assert same(informer, server)


async def test_a_relist_that_is_refused_as_too_old_asks_for_the_newest() -> None:
    """Trap 3."""
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        server.on_watch.extend([EXPIRED, EXPIRED])
        server.cut()
        await asyncio.sleep(30)
        assert [request["version"] for request in server.asked("streaming")] == ["", "11", ""]
        assert same(informer, server)


async def test_bookmarks_alone_move_the_version_from_which_the_watch_goes_on() -> None:
    """Trap 4: half an hour of bookmarks, then a cut."""
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        seen = Seen(informer)
        for _ in range(30):
            await asyncio.sleep(60)
            server.version += 7
            server.bookmark()
        await settle()
        server.cut(broken=False)
        await settle()
        assert server.asked("watch")[-1]["version"] == str(server.version)
        assert len(server.asked("streaming")) == 1
        assert seen.words == []


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_relist_emits_a_delete_for_what_vanished(*, streaming: bool) -> None:
    """Trap 5: once, with the last state known."""
    server = ModelServer()
    server.put("a")
    server.put("b", color="blue")
    async with watching(server, streaming=streaming) as informer:
        seen = Seen(informer)
        await settle()
        server.cut()
        server.remove("b")
        server.forget()
        await asyncio.sleep(10)
        assert seen.words == ["-b"]
        assert seen.changes[0].old is not None
        assert seen.changes[0].old.color == "blue"
        assert same(informer, server)


async def test_another_object_of_the_same_name_is_a_delete_and_an_add() -> None:
    """Trap 6: the UID changed during the gap."""
    server = ModelServer()
    first = server.put("a", color="red")
    async with watching(server) as informer:
        seen = Seen(informer)
        await settle()
        server.cut()
        server.remove("a")
        second = server.put("a", color="red")
        server.forget()
        await asyncio.sleep(10)
        assert seen.words == ["-a", "+a"]
        gone, come = seen.changes
        assert gone.old is not None
        assert come.new is not None
        assert (gone.old.metadata.uid, come.new.metadata.uid) == (first["metadata"]["uid"], second["metadata"]["uid"])


async def test_readers_keep_the_old_picture_during_a_slow_relist() -> None:
    """Trap 7: the new one comes in one step."""
    server = ModelServer(page_size=1)
    for name in "abc":
        server.put(name)
    async with watching(server, streaming=False) as informer:
        seen = Seen(informer)
        views: list[list[str]] = []
        await settle()
        server.cut()
        server.remove("a")
        server.put("d")
        server.forget()
        server.on_list.extend([lambda: views.append(sorted(informer.store.keys())) for _ in range(3)])
        await asyncio.sleep(10)
        assert views == [["n/a", "n/b", "n/c"]] * 3
        assert sorted(seen.words) == ["+d", "-a"]
        assert same(informer, server)


async def test_a_page_that_fails_discards_the_pages_before_it() -> None:
    """Trap 8: 410 on page two; not synced on half a list, no deletes."""
    server = ModelServer(page_size=1)
    server.put("a")
    server.put("b")
    server.on_list.extend([lambda: None, EXPIRED])
    async with watching(server, streaming=False, synced=False) as informer:
        seen = Seen(informer)
        await asyncio.sleep(0.5)
        assert not informer.store.synced
        assert seen.words == []
        await asyncio.sleep(10)
        assert informer.store.synced
        # The list in one piece: its tokens do not live long enough.
        assert server.asked("list")[2]["limit"] == ""
        assert sorted(seen.words) == ["+a", "+b"]


async def test_a_streaming_list_that_dies_before_its_end_mark_starts_from_scratch() -> None:
    """Traps 9, 10: killed after the third ADDED; the versions seen so far are no place to go on from."""
    server = ModelServer()
    for name in "abcd":
        server.put(name)

    def die(line: Line) -> None:
        line.send(*({"type": "ADDED", "object": item} for item in list(server.objects.values())[:3]))
        line.end(broken=True)

    server.on_watch.append(die)
    async with watching(server, synced=False) as informer:
        seen = Seen(informer)
        await asyncio.sleep(0.5)
        assert len(informer.store) == 0
        assert not informer.store.synced
        await asyncio.sleep(10)
        assert [(request["what"], request["version"]) for request in server.requests] == [("streaming", "")] * 2
        assert seen.words == ["+a", "+b", "+c", "+d"]


async def test_a_relist_asks_for_nothing_older_than_what_is_known() -> None:
    """Trap 11: never version 0, always NotOlderThan."""
    server = ModelServer()
    server.put("a")
    async with watching(server, streaming=False) as informer:
        await settle()
        server.cut()
        server.put("b")
        server.forget()
        await asyncio.sleep(10)
        first, relist = server.asked("list")
        assert (first["version"], first["match"]) == ("", "")
        assert (relist["version"], relist["match"]) == ("11", "NotOlderThan")
        assert same(informer, server)


async def test_a_server_that_is_behind_is_asked_without_a_version() -> None:
    """Trap 12."""
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        server.on_watch.append(AHEAD)
        server.cut()
        await asyncio.sleep(10)
        assert server.requests[-1]["version"] == ""
        assert same(informer, server)


@pytest.mark.parametrize("answer", [status(429, "TooManyRequests"), TransportError("refused", sent=False)])
async def test_a_busy_or_absent_server_is_never_asked_for_a_list(answer: Any) -> None:
    """Trap 13: three times busy, and the watch goes on at the same version."""
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        await settle()
        server.on_watch.extend([answer, answer, answer])
        server.cut()
        server.put("b")
        await asyncio.sleep(60)
        assert [(request["what"], request["version"]) for request in server.requests[1:]] == [("watch", "11")] * 4
        assert same(informer, server)


async def test_a_silent_watch_is_given_up_after_the_servers_timeout_and_a_margin() -> None:
    """Trap 14: half-open; the watch goes on at the same version."""
    server = ModelServer()
    server.put("a")
    async with watching(server) as informer:
        allowed = int(server.requests[0]["timeoutSeconds"])
        await asyncio.sleep(allowed + 9)
        assert len(server.requests) == 1
        await asyncio.sleep(3)
        assert [(request["what"], request["version"]) for request in server.requests[1:]] == [("watch", "11")]
        assert server.lines[0].closed
        assert informer.counts["stalled"] == 1


async def test_a_streaming_list_that_stalls_gives_way_to_pages() -> None:
    """A server that knows nothing of streaming lists ignores the wish and sends no end mark."""
    server = ModelServer()
    server.put("a")
    server.on_watch.append(lambda line: None)
    async with watching(server) as informer:
        assert 30 <= asyncio.get_running_loop().time() <= 32
        assert [request["what"] for request in server.requests[:2]] == ["streaming", "list"]
        assert same(informer, server)


async def test_a_server_that_refuses_streaming_lists_is_paged_at_once() -> None:
    server = ModelServer()
    server.streaming = False
    server.put("a")
    async with watching(server) as informer:
        assert asyncio.get_running_loop().time() < 0.1
        assert [request["what"] for request in server.requests[:2]] == ["streaming", "list"]
        assert server.asked("list")[0]["limit"] == "500"
        assert same(informer, server)


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
