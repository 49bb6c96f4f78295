"""Lists and watches against a model server, in virtual time: what is asked, and what becomes of the picture."""

import asyncio
from typing import Any

import pytest

from controller_runtime.transport import TransportError
from tests.unit.runtime.model_server import (
    AHEAD,
    EXPIRED,
    Line,
    ModelServer,
    status,
)
from tests.unit.runtime.watching import Seen, same, settle, watching

pytestmark = pytest.mark.looptime


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
