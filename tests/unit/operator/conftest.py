"""A started executor for each test that asks for one."""

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest

from tests.unit.operator.benchtop import Bench, make_bench


@pytest.fixture(scope="session", autouse=True)
def _no_loop_left_by_a_plugin() -> None:
    """looptime asks for the event loop before each test; if none was ever set, Python makes one that nobody closes."""
    asyncio.set_event_loop(None)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A started executor on a fake API server; it is stopped, statuses flushed, when the test ends."""
    made, started, over = make_bench(), anyio.Event(), anyio.Event()

    async def lead() -> None:
        async with anyio.create_task_group() as group:
            made.executor.start(group)
            started.set()
            await over.wait()
            group.cancel_scope.cancel()
        await made.executor.stop()

    owner = asyncio.create_task(lead())
    await started.wait()
    yield made
    over.set()
    await owner
