"""An idle watch in virtual time: bookmarks at their times, no turn of the loop for nothing."""

import asyncio

import pytest

from controller_runtime.testing.api_server import ApiServer
from controller_runtime.testing.api_server.values import ApiRequest


@pytest.mark.looptime
async def test_an_idle_watch_wakes_for_its_bookmarks_and_its_end_only() -> None:
    """asyncio fires timers a hair early: a watch that waited again for that hair would stop virtual time for ever."""
    server = ApiServer()
    query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "3600", "resourceVersion": "0"}
    watch = server.watch(ApiRequest(method="GET", path="/api/v1/nodes", query=query))
    began = asyncio.get_running_loop().time()
    turns = 0
    async with asyncio.timeout(4000):
        while await watch.chunk():
            turns += 1
    assert asyncio.get_running_loop().time() - began == pytest.approx(3600, abs=1)
    assert 55 <= turns <= 61, "a bookmark a minute"
