"""The operator is killed again and again, and the rollout ends as if it had not been (LIF-2, invariant 7)."""

import asyncio

from tests.faults.conftest import OpenWorld
from tests.faults.world import SCALE, package, scaled


async def test_a_rollout_with_failing_packages_survives_kill_9_every_few_seconds(worlds: OpenWorld) -> None:
    """LIF-2, B05, B25: some attempts fail and are retried, some stages fail for good, and the operator dies between any two writes.

    Without election, so that each new process writes at once, while requests of the killed one may still be under way.
    """
    count = scaled(100)
    nodes = [f"node-{number:03d}" for number in range(count)]
    lost = {"node-005", "node-007"}
    async with worlds(nodes) as world:
        world.failing = lambda node: {"drivers"} if node in lost else set()
        world.rules(
            "package=base,stage=apply,node=~node-00[0-2],attempt=1:fail=1",
            "package=drivers,stage=config,node=~node-00[34],attempt=1:fail=3",
            "package=drivers,stage=apply,node=~node-00[57]:fail=1",
        )
        await world.apply(
            {"base": package(), "drivers": package("2.1.0", dependsOn={"base": "1.0.0"})},
            interruptionBudget={"count": count // 5},
        )

        ending = asyncio.create_task(world.until_settled(within=480.0 * max(SCALE, 1.0)))
        kills = 0
        while not ending.done():
            await world.start_operator(elect=False)
            await asyncio.wait([ending], timeout=world.random.uniform(1.0, 3.0))
            if not ending.done():
                await world.kill_operator()
                kills += 1
        await ending
        print(f"killed {kills} times")
        assert kills >= 3
        await world.check()
