"""Everything at once, by a seed that is printed."""

import asyncio
import time

import pytest

from nodewright.model.objects import Job, Pod
from tests.faults.conftest import OpenWorld
from tests.faults.world import SCALE, World, package, scaled

REPLICAS = ("operator-0", "operator-1")
SECONDS = 60.0 * max(SCALE, 1.0)


class Chaos:
    """Does one harm after another, each of a kind chosen by the world's random numbers."""

    def __init__(self, world: World, count: int) -> None:
        self._world = world
        self._count = count
        self._added = 0
        self._patch = 0
        self._tuning = False
        self._down: set[str] = set()
        self.done: dict[str, int] = {}

    async def run(self, seconds: float) -> None:
        """Until the time is over; leaves both replicas running and the API server up."""
        harms = [
            (self.delete_something, 8),
            (self.remake_node, 3),
            (self.add_node, 1),
            (self.drop_node, 1),
            (self.edit, 2),
            (self.kill_replica, 3),
            (self.stop_replica, 1),
            (self.restart_api_server, 1),
        ]
        choices, weights = zip(*harms, strict=True)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            (harm,) = self._world.random.choices(choices, weights)
            self.done[harm.__name__] = self.done.get(harm.__name__, 0) + 1
            await harm()
            await asyncio.sleep(self._world.random.uniform(0.0, 1.0))

    async def delete_something(self) -> None:
        """A Job or a pod, whichever."""
        now = self._world.journal.now
        things: list[Job | Pod] = [*now.jobs.values(), *now.pods.values()]
        if things:
            await self._world.delete_by_hand(self._world.random.choice(things))

    async def remake_node(self) -> None:
        """The same name with another UID."""
        name = self._world.random.choice(sorted(self._world.journal.now.nodes))
        await self._world.kubelets.delete_node(name)
        await self._world.add_nodes(name)

    async def add_node(self) -> None:
        """One more."""
        self._added += 1
        await self._world.add_nodes(f"late-{self._added:03d}")

    async def drop_node(self) -> None:
        """One less."""
        if len(self._world.journal.now.nodes) > self._count // 2:
            await self._world.kubelets.delete_node(self._world.random.choice(sorted(self._world.journal.now.nodes)))

    async def edit(self) -> None:
        """A version, a package, or the budget."""
        match self._world.random.randrange(3):
            case 0:
                self._patch += 1
                version = f"1.0.{self._patch}"
                await self._world.edit(
                    packages={"base": {"version": version}, "drivers": {"dependsOn": {"base": version}}}
                )
            case 1:
                self._tuning = not self._tuning
                await self._world.edit(packages={"tuning": package() if self._tuning else None})
            case _:
                await self._world.edit(interruptionBudget={"count": self._world.random.randint(2, self._count // 2)})

    async def kill_replica(self) -> None:
        """SIGKILL, and started again by its kubelet."""
        name = self._world.random.choice(REPLICAS)
        await self._world.kill_operator(name)
        await self._world.start_operator(name, wait=False)

    async def stop_replica(self) -> None:
        """SIGSTOP for some seconds, sometimes past the lease."""
        name = self._world.random.choice(REPLICAS)
        self._world.processes.pause(name)
        await asyncio.sleep(self._world.random.uniform(1.0, 20.0))
        self._world.processes.resume(name)

    async def restart_api_server(self) -> None:
        """With what its watches remember compacted away."""
        await asyncio.to_thread(self._world.plane.kill_api_server)
        await asyncio.to_thread(self._world.plane.compact_etcd)
        await asyncio.sleep(self._world.random.uniform(0.0, 5.0))
        await asyncio.to_thread(self._world.plane.restart_api_server)


@pytest.mark.slow
async def test_everything_at_once(worlds: OpenWorld) -> None:
    """Invariants 1 to 5 and 7 to 9, with two replicas; `NODEWRIGHT_FAULTS_SEED` plays the same harms again."""
    count = scaled(40)
    async with worlds([f"node-{number:03d}" for number in range(count)]) as world:
        for name in REPLICAS:
            await world.start_operator(name)
        await world.apply(
            {"base": package(), "drivers": package("2.1.0", dependsOn={"base": "1.0.0"})},
            interruptionBudget={"count": max(2, count // 3)},
        )
        chaos = Chaos(world, count)
        await chaos.run(SECONDS)
        print(chaos.done)
        await world.until_settled(within=300)
        await world.check()
        world.check_fenced()
