"""An informer over a real socket: big objects, half-open connections, streams that break."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controller_runtime.cache import Informer
from controller_runtime.transport import Client, ClientConfig, TransportError, Unauthorized, exchange
from controller_runtime.watch import reflector
from tests.unit.runtime.model_server import WIDGETS, Widget
from tests.unit.runtime.wire_server import Answer, WireServer, refusing, serving


def event(kind: str, name: str, version: int, **fields: Any) -> bytes:
    metadata = {"name": name, "namespace": "n", "uid": f"u-{name}", "resourceVersion": str(version)}
    return json.dumps({"type": kind, "object": {"metadata": metadata, **fields}}).encode() + b"\n"


END = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"50","annotations":{"k8s.io/initial-events-end":"true"}}}}\n'


def stream(*chunks: bytes, abort: bool = False, stay: bool = True) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if abort:
            await asyncio.sleep(0.05)
            assert request.transport is not None
            request.transport.abort()
        if stay:
            await asyncio.sleep(30)
        return response

    return answer


@asynccontextmanager
async def informing(*answers: Answer) -> AsyncIterator[tuple[Informer[Widget], WireServer]]:
    async with serving(*answers) as server, Client(ClientConfig(server=server.url), user_agent="t") as client:
        informer = Informer(client, WIDGETS, Widget)
        task = asyncio.create_task(informer.run())
        try:
            async with asyncio.timeout(20):
                await informer.wait_synced()
            yield informer, server
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until(informer: Informer[Widget], key: str) -> Widget:
    async with asyncio.timeout(20):
        while (item := informer.store.get(key)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return item


async def test_an_object_of_five_mebibytes_is_one_event() -> None:
    """Trap 16: larger than any line reader's limit."""
    note = "x" * (5 * 2**20)
    async with informing(
        stream(END, event("ADDED", "big", 60, color="red", note=note), event("ADDED", "next", 61))
    ) as (informer, _):
        assert (await until(informer, "n/big")).color == "red"
        await until(informer, "n/next")
        assert informer.counts["watch"] == 1


async def test_a_stream_that_breaks_in_the_middle_of_a_line_goes_on_at_the_last_whole_event() -> None:
    """B149: the connection is reset; the half line is no event."""
    half = event("ADDED", "half", 70)[:40]
    answers = (stream(END, event("ADDED", "a", 60), half, abort=True), stream(event("ADDED", "half", 70)))
    async with informing(*answers) as (informer, server):
        await until(informer, "n/half")
        assert server.seen[1].query["resourceVersion"] == "60"
        assert "sendInitialEvents" not in server.seen[1].query


async def test_a_half_open_connection_is_noticed_and_the_watch_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 14: headers, a list, then silence. Both deadlines are seconds here instead of minutes."""
    monkeypatch.setattr(reflector, "SHORTEST_WATCH", 0)
    monkeypatch.setattr(reflector, "LONGEST_WATCH", 0)
    monkeypatch.setattr(reflector, "DEADLINE_MARGIN", 1.0)
    async with informing(stream(END), stream(event("ADDED", "later", 60))) as (informer, server):
        await until(informer, "n/later")
        assert server.seen[1].query["resourceVersion"] == "50"
        assert informer.counts["stalled"] >= 1


async def test_sockets_probe_dead_peers() -> None:
    """Trap 14: half a minute of silence, three probes; unanswered bytes end it too."""
    async with serving() as server, Client(ClientConfig(server=server.url), user_agent="t") as client:
        server.answers.append(stream(END))
        opened = await client.stream("/x", query={})
        connection = opened._answer.connection
        assert connection is not None
        assert connection.transport is not None
        sock: socket.socket = connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert [
            sock.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        ] == [30, 15, 3, 30_000]
        opened.close()


async def test_watches_take_no_slot_of_the_requests() -> None:
    async with (
        serving(*[stream(END)] * 5) as server,
        Client(ClientConfig(server=server.url), user_agent="t", max_in_flight=1) as client,
    ):
        streams = [await client.stream("/x", query={}) for _ in range(5)]
        assert (await client.request("GET", "/y")).body == b"{}"
        for opened in streams:
            opened.close()


async def test_a_401_on_a_watch_reads_the_token_again(tmp_path: Path) -> None:
    """Trap 40: once; a second 401 is the answer."""
    token = tmp_path / "token"
    token.write_text("old")
    config = ClientConfig(server="", token_file=token)
    async with (
        serving(refusing(401), stream(END), refusing(401), refusing(401)) as server,
        Client(replace(config, server=server.url), user_agent="t") as client,
    ):
        token.write_text("new")
        opened = await client.stream("/x", query={})
        assert await opened.chunk() == END
        opened.close()
        with pytest.raises(Unauthorized):
            await client.stream("/x", query={})
        assert [seen.headers["Authorization"] for seen in server.seen[:2]] == ["Bearer old", "Bearer new"]


async def test_a_watch_that_cannot_be_opened_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """B149: no head within the deadline, no connection, a cut one; each is an answer to back off on."""
    monkeypatch.setattr(exchange, "DEFAULT_TIMEOUT", 0.2)

    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(2)
        return web.Response()

    async def cut(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        await asyncio.sleep(2)
        return web.Response()

    async with serving(silent, cut, cut) as server, Client(ClientConfig(server=server.url), user_agent="t") as client:
        with pytest.raises(TransportError, match=r"no answer within 0\.2 s"):
            await client.stream("/x", query={})
        with pytest.raises(TransportError, match="GET /x"):
            await client.stream("/x", query={})
    async with Client(ClientConfig(server=server.url), user_agent="t") as client:
        with pytest.raises(TransportError) as caught:
            await client.stream("/x", query={})
        assert caught.value.sent is False


async def test_a_client_that_is_not_open_says_so() -> None:
    client = Client(ClientConfig(server="http://127.0.0.1:1"), user_agent="t")
    with pytest.raises(RuntimeError, match="async with"):
        await client.stream("/x", query={})
    with pytest.raises(RuntimeError, match="async with"):
        await client.request("GET", "/x")


async def test_a_refused_streaming_list_is_followed_by_pages() -> None:
    page = json.loads(event("ADDED", "a", 5))["object"]
    listing = web.json_response({"metadata": {"resourceVersion": "50"}, "items": [page]})
    refused = refusing(400, "BadRequest", message="unknown parameter sendInitialEvents")
    async with informing(refused, listing, stream(event("ADDED", "b", 60))) as (informer, server):
        await until(informer, "n/b")
        assert [seen.query.get("watch") for seen in server.seen] == ["true", None, "true"]
        assert server.seen[1].query["limit"] == "500"
        assert server.seen[2].query["resourceVersion"] == "50"


@pytest.mark.skipif(sys.platform != "linux", reason="only there the kernel gathers")
async def test_events_in_quick_succession_are_read_together_and_what_comes_after_a_pause_at_once() -> None:
    """Design (idle): heartbeats of many nodes must not wake the process one by one."""
    moves: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(await moves.get())

    async with serving(answer) as server, Client(ClientConfig(server=server.url), user_agent="t") as client:
        opened = await client.stream("/x", query={})
        opened._gather = 0.5
        moves.put_nowait(b"first")
        assert await opened.chunk() == b"first"
        loop = asyncio.get_running_loop()
        for number, text in enumerate((b"a", b"b", b"c")):
            loop.call_later(0.05 * number, moves.put_nowait, text)
        assert await opened.chunk() == b"abc"
        await asyncio.sleep(0.6)
        loop.call_later(0.05, moves.put_nowait, b"late")
        begun = loop.time()
        assert await opened.chunk() == b"late"
        assert loop.time() - begun < 0.5
        opened.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only there the kernel gathers")
async def test_the_end_of_a_watch_is_not_missed_while_events_are_gathered() -> None:
    async with (
        serving(stream(b"last", stay=False)) as server,
        Client(ClientConfig(server=server.url), user_agent="t") as client,
    ):
        opened = await client.stream("/x", query={})
        async with asyncio.timeout(10):
            assert await opened.chunk() == b"last"
            assert await opened.chunk() == b""
