"""The API server goes away, and comes back with or without its memory: nothing is done twice, nothing is forgotten (invariant 7)."""

import asyncio

import pytest

from tests.faults.conftest import OpenWorld
from tests.faults.world import World, package, scaled

PACKAGES = {"base": package(), "drivers": package("2.1.0", dependsOn={"base": "1.0.0"})}


async def _half_way(world: World, count: int) -> None:
    await world.start_operator()
    await world.apply(PACKAGES, interruptionBudget={"count": max(2, count // 4)})
    await world.until(lambda: world.completed_nodes() >= count // 4, "a quarter is complete", within=120)


@pytest.mark.slow
async def test_twenty_seconds_without_an_api_server(worlds: OpenWorld) -> None:
    """CON-26: no process ends for it; the lease is lost and won again, and the rollout goes on where it was."""
    count = scaled(40)
    async with worlds([f"node-{number:03d}" for number in range(count)]) as world:
        await _half_way(world, count)
        await asyncio.to_thread(world.plane.kill_api_server)
        await asyncio.sleep(20.0)
        await asyncio.to_thread(world.plane.restart_api_server)
        await world.until_settled(within=150)
        world.processes.check_running("operator-0")
        await world.check()


@pytest.mark.slow
async def test_watches_that_etcd_was_compacted_under(worlds: OpenWorld) -> None:
    """Traps 2, 3, B151: every watch is answered 410 and relists; what was deleted meanwhile is gone from the picture too."""
    count = scaled(40)
    async with worlds([f"node-{number:03d}" for number in range(count)]) as world:
        await _half_way(world, count)
        for _ in range(2):
            await asyncio.to_thread(world.plane.kill_api_server)
            await asyncio.to_thread(world.plane.compact_etcd)
            await asyncio.to_thread(world.plane.restart_api_server)
            await asyncio.sleep(4.0)
        await world.until_settled(within=150)
        world.processes.check_running("operator-0")
        await world.check()
