"""People delete what they like, nodes come and go, the spec is edited in the middle: each is a signal, and only that (invariant 2)."""

import asyncio

import pytest

from nodewright.model.objects import Job, Pod
from tests.faults.conftest import OpenWorld
from tests.faults.reading import claimed
from tests.faults.world import CR, World, package, scaled

PACKAGES = {"base": package(), "drivers": package("2.1.0", dependsOn={"base": "1.0.0"})}


async def _until_some(world: World, count: int) -> None:
    await world.until(lambda: world.completed_nodes() >= count, f"{count} are complete", within=120)


@pytest.mark.slow
async def test_jobs_and_pods_deleted_by_hand(worlds: OpenWorld) -> None:
    """B26, B25, JOB-6: what was deleted runs again where it was not over, and nothing else does."""
    count = scaled(40)
    async with worlds([f"node-{number:03d}" for number in range(count)]) as world:
        await world.start_operator()
        await world.apply(PACKAGES, interruptionBudget={"count": max(2, count // 3)})
        deleted = 0
        while world.completed_nodes() < count * 3 // 4 and deleted < count:
            things: list[Job | Pod] = [*world.journal.now.jobs.values(), *world.journal.now.pods.values()]
            if things:
                await world.delete_by_hand(world.random.choice(things))
                deleted += 1
            await asyncio.sleep(world.random.uniform(0.1, 0.6))
        print(f"deleted {deleted} Jobs and pods")
        await world.until_settled(within=180)
        await world.check()


@pytest.mark.slow
async def test_nodes_that_come_and_go(worlds: OpenWorld) -> None:
    """ROL-19, JOB-11, trap 59: a deleted node leaves every map and frees its slot; one of its name is another node, from the start."""
    count = scaled(30)
    names = [f"node-{number:03d}" for number in range(count)]
    async with worlds(names) as world:
        await world.start_operator()
        await world.apply(PACKAGES, interruptionBudget={"count": max(2, count // 3)})
        added = 0
        for _ in range(count):
            victim = world.random.choice(sorted(world.journal.now.nodes))
            match world.random.randrange(3):
                case 0:
                    await world.kubelets.delete_node(victim)
                case 1:
                    await world.kubelets.delete_node(victim)
                    await asyncio.sleep(world.random.choice([0.0, 0.1, 1.0]))
                    await world.add_nodes(victim)
                case _:
                    await world.add_nodes(f"late-{added:03d}")
                    added += 1
            await asyncio.sleep(world.random.uniform(0.1, 0.8))
        await world.until_settled(within=180)
        await world.check()
        uids = {node.metadata.uid for node in world.journal.now.nodes.values()}
        jobs = (
            world.journal.now.jobs.values()
        )  # one that is being deleted waits until the cluster has collected its pods
        left = [
            job.metadata.name
            for job in jobs
            if claimed(job).node_uid not in uids and job.metadata.deletion_timestamp is None
        ]
        assert left == [], f"Jobs of nodes that are gone: {left}"


@pytest.mark.slow
async def test_a_spec_that_is_edited_several_times_in_the_middle(worlds: OpenWorld) -> None:
    """CHG-6, JOB-10, ROL-15, B154, B155: a version raised twice, a package added, one removed, the budget changed both ways."""
    count = scaled(30)
    async with worlds([f"node-{number:03d}" for number in range(count)]) as world:
        await world.start_operator()
        await world.apply({**PACKAGES, "tuning": package()}, interruptionBudget={"count": max(2, count // 3)})
        await _until_some(world, 3)
        await world.edit(packages={"base": {"version": "1.1.0"}, "drivers": {"dependsOn": {"base": "1.1.0"}}})
        await asyncio.sleep(world.random.uniform(0.0, 1.0))
        await world.edit(packages={"extra": package("0.1.0", dependsOn={"tuning": "1.0.0"})})
        await asyncio.sleep(world.random.uniform(0.0, 3.0))
        await world.edit(interruptionBudget={"count": 2})
        await asyncio.sleep(world.random.uniform(0.0, 3.0))
        await world.edit(packages={"tuning": None, "extra": {"dependsOn": None}})
        await asyncio.sleep(world.random.uniform(0.0, 1.0))
        await world.edit(
            packages={"base": {"version": "1.2.0"}, "drivers": {"version": "2.2.0", "dependsOn": {"base": "1.2.0"}}}
        )
        await asyncio.sleep(0.2)
        await world.edit(interruptionBudget={"count": max(2, count // 2)})
        await world.until_settled(within=240)
        await world.check()
        assert world.journal.now.crs[CR].metadata.generation >= 7
