"""What a pass of the engine costs, in milliseconds: the longest of the first ones, one in which nothing changed, and one in which some
nodes did. The event loop stands still for as long, so no pass should take more than 50 ms.

Run `python -m tests.benchmarks.plan_pass [nodes]`; without a number it measures 1,000 nodes, and how a rollout begins on 5,000. The store
is played by dicts of tuples; nothing is written. First passes are measured in CPU time, others in the best of several runs.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from nodewright.api import keys
from nodewright.engine.plan import Engine
from nodewright.model.objects import Job, Node, Pod
from nodewright.model.snapshot import Snapshot
from tests.unit.engine.world import CR_NAME, World, package

T = TypeVar("T", Job, Pod)
CHANGED = 20


def finished_world(count: int) -> World:
    """A rollout of one package that has ended everywhere, its Jobs retained."""
    world = World(*(f"node-{i:04}" for i in range(count)))
    world.cr(packages={"kernel": package()})
    while True:
        world.settle(limit=count)
        if not world.turn():
            return world


def fresh_world(count: int) -> World:
    """A CR that has just been made, without a budget: every node is to be picked."""
    world = World(*(f"node-{i:04}" for i in range(count)))
    world.cr(packages={"kernel": package()})
    return world


def snapshot_of(
    world: World, nodes: dict[str, Node], jobs: dict[str, tuple[Job, ...]], pods: dict[str, tuple[Pod, ...]]
) -> Snapshot:
    """A snapshot whose answers are as cheap as the store's."""
    every = tuple(job for on_node in jobs.values() for job in on_node)
    metadata = tuple(world.configmaps.values())
    return Snapshot(
        cr=world.crs[CR_NAME],
        crs=tuple(world.crs.values()),
        nodes=tuple(nodes.values()),
        jobs_on=lambda _cr, node: jobs.get(node, ()),
        pods_on=lambda _cr, node: pods.get(node, ()),
        jobs_of=lambda _cr: every,
        metadata_of=lambda _cr: metadata,
        configmap=world.configmaps.get,
    )


def milliseconds(call: Callable[[], object], repeat: int) -> float:
    """The best of several runs."""
    best = float("inf")
    for _ in range(repeat):
        gc.collect()
        begun = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begun)
    return best * 1000


def first_passes(world: World, snapshot: Snapshot) -> str:
    """The passes of a new engine up to the first that decides, and the one after it; nothing is written."""
    longest, count = 0.0, 0
    for _ in range(3):
        engine, took, deciding = Engine(world.settings), list[float](), 0
        while deciding < 2:
            gc.collect()
            begun = time.process_time()
            deciding += engine.plan(snapshot, world.now).status is not None
            took.append((time.process_time() - begun) * 1000)
        longest, count = min(longest or max(took), max(took)), len(took) - 1
    return f"{count} first passes, the longest {longest:.1f} ms"


def begin(count: int) -> None:
    """Measure how a rollout begins, and print it."""
    world = fresh_world(count)
    print(f"{count} nodes, a rollout begins: {first_passes(world, snapshot_of(world, dict(world.nodes), {}, {}))}")


def main(count: int) -> None:
    """Measure and print."""
    begin(count)
    world = finished_world(count)
    nodes = dict(world.nodes)
    jobs, pods = _by_node(world.jobs.values()), _by_node(world.pods.values())
    snapshot, now = snapshot_of(world, nodes, jobs, pods), world.now
    print(f"{count} nodes, the operator starts after one: {first_passes(world, snapshot)}")
    engine = Engine(world.settings)
    while engine.plan(snapshot, now).status is None:
        pass
    steady = milliseconds(lambda: engine.plan(snapshot_of_same(snapshot), now), 20)
    changed = milliseconds(_changing(engine, world, nodes, jobs, pods), 10)
    built = milliseconds(engine.plan(snapshot, now).status.build, 3)  # type: ignore[union-attr]
    print(f"{count} nodes: steady pass {steady:.2f} ms, {CHANGED} changed {changed:.1f} ms, status {built:.1f} ms")


def snapshot_of_same(snapshot: Snapshot) -> Snapshot:
    """A new snapshot of the same objects, as each pass gets one."""
    return Snapshot(
        cr=snapshot.cr, crs=snapshot.crs, nodes=(*snapshot.nodes,), jobs_on=snapshot.jobs_on, pods_on=snapshot.pods_on,
        jobs_of=snapshot.jobs_of, metadata_of=snapshot.metadata_of, configmap=snapshot.configmap,
    )  # fmt: skip


def _changing(
    engine: Engine,
    world: World,
    nodes: dict[str, Node],
    jobs: dict[str, tuple[Job, ...]],
    pods: dict[str, tuple[Pod, ...]],
) -> Callable[[], object]:
    def call() -> object:
        for name in list(nodes)[:CHANGED]:
            node = nodes[name]
            nodes[name] = msgspec.structs.replace(
                node, metadata=msgspec.structs.replace(node.metadata, resource_version=world.version())
            )
        return engine.plan(snapshot_of(world, nodes, jobs, pods), world.now)

    return call


def _by_node(items: Iterable[T]) -> dict[str, tuple[T, ...]]:
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(item.metadata.labels[keys.LABEL_NODE], []).append(item)
    return {label: tuple(on_node) for label, on_node in found.items()}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
    if len(sys.argv) == 1:
        begin(5000)
