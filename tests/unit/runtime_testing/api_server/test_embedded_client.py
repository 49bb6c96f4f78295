"""Claims about the client in process: the transport's own behaviour, faults, and virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from controller_runtime.cache import Informer
from controller_runtime.election import NotLeaderError
from controller_runtime.testing.api_server import ApiRequest, ApiResponse, EmbeddedClient, Fault
from controller_runtime.transport import (
    AlreadyExists,
    Conflict,
    InternalError,
    Invalid,
    NotFound,
    PatchType,
    TransportError,
)
from tests.unit.runtime_testing.api_server.virtual import MAPS, ConfigMap, LoopClock, server

pytestmark = pytest.mark.looptime


class Fence:
    """Open, or not."""

    def __init__(self, *, opened: bool) -> None:
        self.opened = opened

    def check(self) -> None:
        if not self.opened:
            raise NotLeaderError("not the leader")


def on(method: str, fault: Fault) -> Callable[..., Fault | None]:
    """A hook that orders a fault for the first request of this method."""
    left = [fault]

    def hook(request: ApiRequest, answer: ApiResponse | None = None) -> Fault | None:
        return left.pop() if left and request.method == method else None

    return hook


async def test_refusals_are_the_transports_errors() -> None:
    async with EmbeddedClient(server()) as client:
        made = json.loads(await client.create(MAPS, {"metadata": {"name": "a"}}, namespace="default"))
        with pytest.raises(AlreadyExists):
            await client.create(MAPS, {"metadata": {"name": "a"}}, namespace="default")
        with pytest.raises(NotFound, match="not found"):
            await client.get(MAPS, "b", namespace="default")
        with pytest.raises(Conflict):
            await client.delete(MAPS, "a", namespace="default", resource_version="1")
        test = {"op": "test", "path": "/metadata/uid", "value": "another"}
        with pytest.raises(Invalid):
            await client.patch(MAPS, "a", [test], PatchType.JSON, namespace="default")
        await client.delete(MAPS, "a", namespace="default", uid=made["metadata"]["uid"])


async def test_a_closed_fence_sends_no_write() -> None:
    """Trap 33."""
    served = server()
    fence = Fence(opened=False)
    async with EmbeddedClient(served, fence=fence) as client:
        before = served.version
        with pytest.raises(NotLeaderError):
            await client.create(MAPS, {"metadata": {"name": "a"}}, namespace="default")
        assert served.version == before
        assert json.loads(await client.list(MAPS))["items"] == []
        fence.opened = True
        await client.create(MAPS, {"metadata": {"name": "a"}}, namespace="default")


async def test_a_lost_answer_leaves_the_write_behind() -> None:
    served = server(after=on("POST", Fault(lost=True)))
    async with EmbeddedClient(served) as client:
        with pytest.raises(TransportError) as caught:
            await client.create(MAPS, {"metadata": {"name": "a"}}, namespace="default")
        assert caught.value.sent is None
        await client.get(MAPS, "a", namespace="default")


async def test_a_lost_request_leaves_nothing_behind() -> None:
    served = server(before=on("POST", Fault(lost=True)))
    async with EmbeddedClient(served) as client:
        with pytest.raises(TransportError):
            await client.create(MAPS, {"metadata": {"name": "a"}}, namespace="default")
        with pytest.raises(NotFound):
            await client.get(MAPS, "a", namespace="default")


async def test_an_ordered_answer_is_given_instead() -> None:
    status = {"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError", "message": "no"}
    answer = ApiResponse(500, json.dumps(status).encode())
    served = server(before=on("GET", Fault(answer=answer)))
    async with EmbeddedClient(served) as client:
        with pytest.raises(InternalError, match="no"):
            await client.list(MAPS)


async def test_a_busy_server_is_asked_again_when_it_said() -> None:
    """Trap 34, on the virtual clock."""
    answer = ApiResponse(429, b'{"kind":"Status","code":429,"reason":"TooManyRequests"}', {"Retry-After": "7"})
    served = server(before=on("POST", Fault(answer=answer)))
    async with EmbeddedClient(served) as client:
        begun = asyncio.get_running_loop().time()
        await client.create(MAPS, {"metadata": {"name": "a"}}, namespace="default")
        assert 7.0 <= asyncio.get_running_loop().time() - begun <= 7.0 * 1.26


async def test_a_slow_answer_runs_into_the_deadline_after_the_write() -> None:
    served = server(after=on("POST", Fault(delay=100.0)))
    async with EmbeddedClient(served) as client:
        with pytest.raises(TransportError, match="no answer within 30 s"):
            await client.create(MAPS, {"metadata": {"name": "a"}}, namespace="default")
        await client.get(MAPS, "a", namespace="default")


async def test_an_informer_lives_on_it_through_cuts_and_forgetting() -> None:
    """Traps 1, 2 and 5: a watch that broke, a version that is forgotten, a deletion that was missed."""
    served = server()
    async with EmbeddedClient(served) as client:
        await client.create(MAPS, {"metadata": {"name": "a"}}, namespace="default")
        await client.create(MAPS, {"metadata": {"name": "b"}}, namespace="default")
        informer = Informer(client, MAPS, ConfigMap, clock=LoopClock())
        running = asyncio.create_task(informer.run())
        async with asyncio.timeout(60):
            await informer.wait_synced()
        assert set(informer.store.keys()) == {"default/a", "default/b"}
        served.freeze_watches()
        await client.delete(MAPS, "a", namespace="default")
        await client.create(MAPS, {"metadata": {"name": "c"}}, namespace="default")
        await asyncio.sleep(30)
        assert set(informer.store.keys()) == {"default/a", "default/b"}, "frozen watches say nothing"
        served.expire_window()
        served.freeze_watches(frozen=False)
        served.cut_watches()
        await asyncio.sleep(120)
        assert set(informer.store.keys()) == {"default/b", "default/c"}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert served.open_watches == 0


async def test_the_same_seed_gives_the_same_history() -> None:
    histories = []
    for _ in range(2):
        async with EmbeddedClient(server()) as client:
            histories.append(
                [
                    json.loads(await client.create(MAPS, {"metadata": {"generateName": "x-"}}, namespace="default"))
                    for _ in range(3)
                ]
            )
    assert [entry["metadata"]["name"] for entry in histories[0]] == [
        entry["metadata"]["name"] for entry in histories[1]
    ]
    assert [entry["metadata"]["uid"] for entry in histories[0]] == [entry["metadata"]["uid"] for entry in histories[1]]
