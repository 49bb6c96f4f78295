"""Two replicas: one writes, whatever happens to the other (B157, traps 28, 33)."""

import asyncio
import time

import pytest

from tests.faults.conftest import OpenWorld
from tests.faults.world import World, package, scaled

PACKAGES = {"base": package(), "drivers": package("2.1.0", dependsOn={"base": "1.0.0"})}
BOTH = ("operator-0", "operator-1")


async def _started(world: World, count: int) -> tuple[str, str]:
    """Leader and standby of a rollout under way."""
    for name in BOTH:
        await world.start_operator(name)
    leader = await world.until_led()
    await world.apply(PACKAGES, interruptionBudget={"count": max(2, count // 4)})
    await world.until(lambda: world.completed_nodes() >= count // 8, "some are complete", within=120)
    return leader, next(name for name in BOTH if name != leader)


@pytest.mark.slow
async def test_a_leader_that_was_stopped_past_its_lease_writes_nothing_when_it_goes_on(worlds: OpenWorld) -> None:
    """Trap 33: nobody fences on the server, so the old leader has to notice by itself, before its first write."""
    count = scaled(40)
    async with worlds([f"node-{number:03d}" for number in range(count)]) as world:
        leader, standby = await _started(world, count)
        world.processes.pause(leader)
        stopped = time.time()
        await world.until_led(by=standby, within=60)
        taken = time.time()
        await world.until(
            lambda: any(m.kind == "Job" and m.time > taken for m in world.journal.moments[-200:]),
            "work goes on",
            within=60,
        )
        resumed = time.time()
        world.processes.resume(leader)
        await world.until_settled(within=150)
        await world.check()
        world.processes.check_running(*BOTH)
        assert taken - stopped > 5
        world.check_fenced()
        late = [one for one in world.work_of(leader) if one.received > resumed]
        assert late == [], f"{leader} went on at {resumed} and wrote {late}"
        assert world.work_of(standby)


@pytest.mark.slow
async def test_a_rolling_restart_hands_over_within_seconds(worlds: OpenWorld) -> None:
    """Trap 29, B157: SIGTERM drains, releases the lease, and the warm standby works on."""
    count = scaled(40)
    async with worlds([f"node-{number:03d}" for number in range(count)]) as world:
        await _started(world, count)
        for _ in range(2):
            leader = world.leader()
            standby = next(name for name in BOTH if name != leader)
            told = time.time()
            code, _ = await asyncio.gather(
                asyncio.to_thread(world.processes.stop, leader), world.until_led(by=standby, within=30)
            )
            (released, nobody), (taken, _) = [(since, who) for since, who in world.holders() if since > told][:2]
            print(f"{leader} to {standby}: released after {released - told:.2f} s, taken after {taken - told:.2f} s")
            assert (code, nobody) == (0, "")
            assert taken - released < 3.0  # the retry period is 2 s, with jitter
            await world.start_operator(leader)
            await asyncio.sleep(2.0)
        await world.until_settled(within=150)
        await world.check()
        world.check_fenced()
