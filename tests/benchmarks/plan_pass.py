"""What a pass of the engine costs, in milliseconds: the first one, one in which nothing changed, and one in which some nodes did.

Run `python -m tests.benchmarks.plan_pass [nodes]`. The store is played by dicts of tuples; nothing is written.
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
    for _ in range(3):
        world.step()
        world.turn()
        world.turn()
    world.settle()
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


def main(count: int) -> None:
    """Measure and print."""
    world = finished_world(count)
    nodes = dict(world.nodes)
    jobs, pods = _by_node(world.jobs.values()), _by_node(world.pods.values())
    snapshot, now = snapshot_of(world, nodes, jobs, pods), world.now
    first = milliseconds(lambda: Engine(world.settings).plan(snapshot, now), 3)
    engine = Engine(world.settings)
    engine.plan(snapshot, now)
    steady = milliseconds(lambda: engine.plan(snapshot_of_same(snapshot), now), 20)
    changed = milliseconds(_changing(engine, world, nodes, jobs, pods), 10)
    built = milliseconds(engine.plan(snapshot, now).status.build, 3)  # type: ignore[union-attr]
    print(
        f"{count} nodes: first pass {first:.1f} ms, steady pass {steady:.2f} ms, {CHANGED} changed {changed:.1f} ms, status {built:.1f} ms"
    )


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
