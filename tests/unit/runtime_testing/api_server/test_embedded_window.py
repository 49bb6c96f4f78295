"""Claims about what is forgotten, and about watches in virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from controller_runtime.testing.api_server import ApiRequest, ApiServer
from controller_runtime.testing.api_server.values import AnswerLostError
from tests.unit.runtime_testing.api_server.virtual import server

pytestmark = pytest.mark.looptime
PATH = "/api/v1/namespaces/default/configmaps"


def _make(served: ApiServer, *names: str) -> None:
    for name in names:
        served.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})


def _list(served: ApiServer, **query: str) -> tuple[int, dict[str, Any]]:
    answer = served.handle(ApiRequest(method="GET", path=PATH, query=query))
    return answer.status, json.loads(answer.body)


def _watch(served: ApiServer, **query: str) -> Any:
    return served.watch(ApiRequest(method="GET", path=PATH, query={"watch": "true", **query}))


def _events(chunk: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in chunk.splitlines()]


async def test_a_forgotten_version_is_an_error_event_and_the_end() -> None:
    """Trap 2."""
    served = server()
    _make(served, "a", "b")
    version = served.version - 1
    served.expire_window()
    watch = _watch(served, resourceVersion=str(version))
    (event,) = _events(await watch.chunk())
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"] == f"too old resource version: {version} ({served.version})"
    assert await watch.chunk() == b""


async def test_a_forgotten_token_is_410_with_a_token_for_the_inconsistent_rest() -> None:
    served = server()
    _make(served, "a", "b", "c")
    _, first = _list(served, limit="1")
    _make(served, "aa")
    served.expire_window()
    status, refused = _list(served, limit="1", **{"continue": first["metadata"]["continue"]})
    assert (status, refused["reason"]) == (410, "Expired")
    status, rest = _list(served, **{"continue": refused["metadata"]["continue"]})
    assert status == 200
    assert [item["metadata"]["name"] for item in rest["items"]] == ["aa", "b", "c"]


async def test_a_forgotten_exact_version_is_410() -> None:
    served = server()
    _make(served, "a")
    version = str(served.version)
    _make(served, "b")
    served.expire_window()
    status, refused = _list(served, resourceVersion=version, resourceVersionMatch="Exact")
    assert (status, refused["reason"]) == (410, "Expired")


async def test_the_window_is_bounded() -> None:
    served = server(window=3)
    _make(served, "a")
    version = str(served.version)
    _make(served, "b", "c", "d", "e")
    (event,) = _events(await _watch(served, resourceVersion=version).chunk())
    assert event["object"]["code"] == 410


async def test_a_watch_that_falls_out_of_the_window_ends() -> None:
    served = server(window=3)
    watch = _watch(served, resourceVersion=str(served.version))
    _make(served, "a", "b", "c", "d", "e")
    assert await watch.chunk() == b""


async def test_quiet_watches_get_a_bookmark_each_minute() -> None:
    served = server()
    watch = _watch(served, resourceVersion=str(served.version), allowWatchBookmarks="true", timeoutSeconds="100")
    begun = asyncio.get_running_loop().time()
    (event,) = _events(await watch.chunk())
    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"]["resourceVersion"] == str(served.version)
    assert asyncio.get_running_loop().time() - begun == pytest.approx(60.0)
    assert await watch.chunk() == b"", "the end in good order"
    assert asyncio.get_running_loop().time() - begun == pytest.approx(100.0)


async def test_a_cut_watch_breaks_and_a_clean_one_ends() -> None:
    served = server()
    broken, clean = (_watch(served, resourceVersion=str(served.version)) for _ in range(2))
    waiting = asyncio.create_task(broken.chunk())
    await asyncio.sleep(1)
    broken.cut()
    with pytest.raises(AnswerLostError):
        await waiting
    clean.cut(cleanly=True)
    assert await clean.chunk() == b""


async def test_a_frozen_watch_says_everything_when_it_is_thawed() -> None:
    served = server()
    watch = _watch(served, resourceVersion=str(served.version))
    served.freeze_watches()
    _make(served, "a", "b")
    waiting = asyncio.create_task(watch.chunk())
    await asyncio.sleep(1000)
    assert not waiting.done()
    served.freeze_watches(frozen=False)
    assert [event["object"]["metadata"]["name"] for event in _events(await waiting)] == ["a", "b"]


async def test_stored_objects_are_not_changed_by_later_writes() -> None:
    served = server()
    _make(served, "a")
    _, before = _list(served)
    version = served.version
    patch = ApiRequest(
        method="PATCH",
        path=f"{PATH}/a",
        body=b'{"metadata":{"labels":{"k":"v"}},"data":{"k":"v"}}',
        content_type="application/merge-patch+json",
    )
    assert served.handle(patch).status == 200
    _, past = _list(served, resourceVersion=str(version), resourceVersionMatch="Exact")
    assert past["items"] == before["items"]
