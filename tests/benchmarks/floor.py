"""The floor of the rollout benchmark: the cheapest program that could do the same Jobs.

It creates the very Jobs the operator would create, each node's next one when its last one is Complete, and does nothing else: no node
state, no status, no events, no ConfigMaps while the clock runs. What the operator needs beyond this is the operator's own cost. Same
transport, same limit of requests in flight, the product's own Job bodies.

Run it while simulated kubelets serve the nodes:

    python -m tests.benchmarks.floor --kubeconfig FILE --nodes 100 --packages 1 --stages apply,config

It prints one JSON line, and `run_floor` returns the same. The Jobs belong to a ConfigMap `floor-<tag>`, so deleting that one
(`--clean`) lets the cluster collect them.
"""

import argparse
import asyncio
import gc
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import msgspec

from controller_runtime.cache import Change, Informer, ObjectMeta
from controller_runtime.transport import AlreadyExists, Client, ClientConfig, Resource, load_config
from nodewright.api.nodewright import NodeWrightSpec, parse_nodewright_spec
from nodewright.model.node_state import Entry, Stage, State
from nodewright.model.objects import Node
from nodewright.model.objects import ObjectMeta as CRMeta
from nodewright.model.snapshot import CR, PlanSettings
from nodewright.workloads.configmaps import node_metadata
from nodewright.workloads.jobs import stage_job

JOB = Resource(group="batch", version="v1", plural="jobs", kind="Job", namespaced=True)
CONFIG_MAP = Resource(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)
NODE = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False)
CREATORS = 32
"""As many requests in flight as the operator's client allows."""


class FloorResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one run took. `cpu_seconds` is user and system time of this process while the clock ran."""

    nodes: int
    jobs: int
    wall_seconds: float
    cpu_seconds: float
    failed: int


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str


class _JobStatus(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[_Condition, ...] = ()


class _Job(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta
    status: _JobStatus = _JobStatus()

    @property
    def outcome(self) -> str | None:
        """Complete, Failed or None."""
        found = (
            one.type for one in self.status.conditions if one.status == "True" and one.type in ("Complete", "Failed")
        )
        return next(found, None)


class _NodeList(msgspec.Struct):
    items: list[Node]


class Floor:
    """One run over some nodes: a queue of (node, step) to create, fed by a Job watch."""

    def __init__(
        self, client: Client, nodes: Sequence[Node], *, packages: int, stages: Sequence[Stage], cr: CR, namespace: str
    ):
        self._client = client
        self._namespace = namespace
        self._settings = PlanSettings(agent_image="registry.example/agent:1.0.0", namespace=namespace)
        self._cr = cr
        assert cr.spec is not None
        self._spec: NodeWrightSpec = cr.spec
        self._steps = [(name, stage) for name in list(cr.spec.packages)[:packages] for stage in stages]
        self._nodes = nodes
        self._where: dict[str, tuple[int, int]] = {}  # job name -> (node, step)
        self._todo: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self._left = len(nodes)
        self._finished = asyncio.Event()
        self.failed = 0
        self._informer = Informer(
            client, JOB, _Job, namespace=namespace, label_selector=f"nodewright.nvidia.com/name={cr.name}"
        )
        self._informer.store.subscribe(self._seen)

    async def prepare(self) -> None:
        """Before the clock runs: the ConfigMaps that the pods mount."""
        bodies = [self._owned(node_metadata(self._cr, node, self._settings)) for node in self._nodes]
        todo = iter(bodies)

        async def create_some() -> None:
            for body in todo:
                try:
                    await self._client.create(CONFIG_MAP, body, namespace=self._namespace)
                except AlreadyExists:
                    continue

        await asyncio.gather(*(create_some() for _ in range(CREATORS)))

    async def run(self, *, timeout_seconds: float) -> FloorResult:
        """Create and wait; raises TimeoutError when the Jobs do not end in time."""
        watch = asyncio.create_task(self._informer.run(), name="jobs")
        await self._informer.wait_synced()
        began, cpu = time.perf_counter(), _cpu_seconds()
        creators = [asyncio.create_task(self._create(), name=f"create-{number}") for number in range(CREATORS)]
        failure = asyncio.ensure_future(asyncio.wait([watch, *creators], return_when=asyncio.FIRST_COMPLETED))
        try:
            for node in range(len(self._nodes)):
                self._todo.put_nowait((node, 0))
            async with asyncio.timeout(timeout_seconds):
                finished = asyncio.ensure_future(self._finished.wait())
                await asyncio.wait([finished, failure], return_when=asyncio.FIRST_COMPLETED)
            wall, cpu = time.perf_counter() - began, _cpu_seconds() - cpu
        finally:
            for task in (watch, *creators):
                task.cancel()
            results = await asyncio.gather(watch, *creators, return_exceptions=True)
            await failure
        for result in results:
            if isinstance(result, Exception):
                raise result
        jobs = len(self._nodes) * len(self._steps)
        return FloorResult(nodes=len(self._nodes), jobs=jobs, wall_seconds=wall, cpu_seconds=cpu, failed=self.failed)

    def _seen(self, change: Change[_Job]) -> None:
        job = change.new
        if job is None or (place := self._where.get(job.metadata.name)) is None or job.outcome is None:
            return
        del self._where[job.metadata.name]
        node, step = place
        if job.outcome == "Failed":
            self.failed += 1
        if job.outcome == "Complete" and step + 1 < len(self._steps):
            self._todo.put_nowait((node, step + 1))
            return
        self._left -= 1
        if not self._left:
            self._finished.set()

    async def _create(self) -> None:
        while True:
            place = await self._todo.get()
            body = self._body(*place)
            self._where[body["metadata"]["name"]] = place
            await self._client.create(JOB, body, namespace=self._namespace)

    def _body(self, node: int, step: int) -> dict[str, Any]:
        name, stage = self._steps[step]
        package = self._spec.packages[name]
        entry = Entry(
            name=name,
            version=package.version,
            image=package.image,
            stage=stage,
            state=State.IN_PROGRESS,
            run="floor",
            generation=1,
        )
        job = stage_job(
            cr=self._cr,
            package_name=name,
            package=package,
            entry=entry,
            node=self._nodes[node],
            order=node,
            settings=self._settings,
        )
        return self._owned(job)

    def _owned(self, body: dict[str, Any]) -> dict[str, Any]:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": self._cr.name, "uid": self._cr.meta.uid}
        return {**body, "metadata": {**body["metadata"], "ownerReferences": [{**owner, "controller": True}]}}


async def run_floor(
    config: ClientConfig,
    *,
    nodes: int,
    packages: int = 1,
    stages: Sequence[Stage] = (Stage.APPLY, Stage.CONFIG),
    namespace: str = "nodewright",
    label_selector: str | None = None,
    timeout_seconds: float = 600.0,
    clean: bool = False,
) -> FloorResult:
    """Run the floor over the first `nodes` nodes (by name) that fit the selector. Raises ValueError when there are fewer."""
    async with Client(config, user_agent="nodewright-floor", max_in_flight=CREATORS) as client:
        found = msgspec.json.decode(await client.list(NODE, label_selector=label_selector), type=_NodeList).items
        chosen = sorted(found, key=lambda node: node.name)[:nodes]
        if len(chosen) < nodes:
            raise ValueError(f"the cluster has {len(found)} such nodes, {nodes} are asked for")
        owner_name = f"floor-{time.time_ns():x}"
        body = {"metadata": {"name": owner_name, "namespace": namespace}}
        owner = msgspec.json.decode(await client.create(CONFIG_MAP, body, namespace=namespace), type=_Job).metadata
        cr = CR(meta=CRMeta(name=owner.name, uid=owner.uid, generation=1), spec=_spec(packages))
        floor = Floor(client, chosen, packages=packages, stages=stages, cr=cr, namespace=namespace)
        try:
            await floor.prepare()
            gc.collect()
            return await floor.run(timeout_seconds=timeout_seconds)
        finally:
            if clean:
                await client.delete(CONFIG_MAP, owner_name, namespace=namespace, propagation="Background")


def _spec(packages: int) -> NodeWrightSpec:
    described = {
        f"package-{letter}": {"version": "1.0.0", "image": f"registry.example/package-{letter}"}
        for letter in ascii_lowercase[:packages]
    }
    spec = parse_nodewright_spec({"nodeSelectors": {"matchLabels": {}}, "packages": described})
    if isinstance(spec, list):
        raise TypeError(f"the floor's spec is wrong: {spec}")
    return spec


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _main(options: argparse.Namespace) -> FloorResult:
    stages = [Stage(text) for text in options.stages.split(",")]
    return await run_floor(
        await load_config(options.kubeconfig),
        nodes=options.nodes,
        packages=options.packages,
        stages=stages,
        namespace=options.namespace,
        label_selector=options.selector,
        timeout_seconds=options.timeout,
        clean=options.clean,
    )


def main() -> int:
    """Parse the command line, run, print one JSON line."""
    parser = argparse.ArgumentParser(description="The floor of the rollout benchmark.")
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--packages", type=int, default=1)
    parser.add_argument("--stages", default="apply,config")
    parser.add_argument("--namespace", default="nodewright")
    parser.add_argument("--selector")
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--clean", action="store_true")
    gc.set_threshold(50_000, 20, 50)
    sys.stdout.write(msgspec.json.encode(asyncio.run(_main(parser.parse_args()))).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
