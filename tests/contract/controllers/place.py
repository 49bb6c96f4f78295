"""Where a contract test of controllers plays: a namespace and nodes of its own on one of two backends, and what is seen there.

On the embedded one time is virtual: an hour of back-off costs nothing. On the real one it is not, so that tests wait for what they expect
and never longer.
"""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any, Literal

from controller_runtime.cache import Change, Informer
from controller_runtime.clock import Clock
from controller_runtime.transport import Client, NotFound, Resource
from nodewright.simulator.controllers.views import JOB, NODE, POD, Job, JobStatus
from nodewright.simulator.kubelets import Kubelets, Timing
from nodewright.simulator.rules import parse_rule

NAMESPACE = Resource(group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False)
CONFIG_MAP = Resource(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)
FAST = Timing(step_seconds=0.05, look_seconds=0.3, boot_seconds=0.2, mount_retry_seconds=0.3)
Body = dict[str, Any]


class Story:
    """What the watch told of one Job, in order."""

    def __init__(self) -> None:
        self.statuses: list[JobStatus] = []

    @property
    def last(self) -> JobStatus:
        return self.statuses[-1]

    @property
    def conditions(self) -> list[tuple[str, str, str]]:
        """Type, status and reason of each condition, in the order in which they first read so."""
        seen: dict[tuple[str, str, str], None] = {}
        for status in self.statuses:
            for one in status.conditions:
                seen.setdefault((one.type, one.status, one.reason))
        return list(seen)

    def ever(self, what: Callable[[JobStatus], bool]) -> bool:
        return any(what(status) for status in self.statuses)


class Place:
    """One test's part of a cluster."""

    def __init__(self, client: Client, clock: Clock, backend: Literal["embedded", "control_plane"]) -> None:
        self.client = client
        self.clock = clock
        self.backend = backend
        self.tag = uuid.uuid4().hex[:8]
        self.namespace = f"ctl-{self.tag}"
        self.stories: dict[str, Story] = {}

    def node(self, number: int = 0) -> str:
        return f"{self.tag}-{number}"

    @contextlib.asynccontextmanager
    async def kubelets(
        self, *rules: str, nodes: int = 1, timing: Timing = FAST, **options: Any
    ) -> AsyncIterator[Kubelets]:
        kubelets = Kubelets(
            self.client,
            nodes=[self.node(number) for number in range(nodes)],
            namespace=self.namespace,
            rules=[parse_rule(rule) for rule in rules],
            timing=timing,
            clock=self.clock,
            **{"heartbeat_seconds": 0.0, **options},
        )
        async with running(kubelets.run(), kubelets.wait_ready()):
            yield kubelets

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Keep the stories of Jobs."""
        informer = Informer(self.client, JOB, Job, namespace=self.namespace, clock=self.clock)

        def changed(change: Change[Job]) -> None:
            if change.new is not None:
                self.stories.setdefault(change.new.metadata.name, Story()).statuses.append(change.new.status)

        informer.store.subscribe(changed)
        async with running(informer.run(), informer.wait_synced()):
            yield

    # --- writing

    async def job(self, name: str, *, restart: str = "Never", pod: Body | None = None, **spec: Any) -> Body:
        """Create a Job of one pod with one container on the first node."""
        template = {
            "nodeName": self.node(),
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "work", "image": "registry.example/x:1"}],
            **(pod or {}),
        }
        body = {"metadata": {"name": name}, "spec": {"template": {"spec": template}, **spec}}
        return decoded(await self.client.create(JOB, body, namespace=self.namespace))

    async def config_map(self, name: str, owners: list[Body] | None = None, **metadata: Any) -> Body:
        body = {"metadata": {"name": name, "ownerReferences": owners or [], **metadata}}
        return decoded(await self.client.create(CONFIG_MAP, body, namespace=self.namespace))

    # --- reading

    async def get(self, resource: Resource, name: str) -> Body:
        return decoded(await self.client.get(resource, name, namespace=self.namespace if resource.namespaced else None))

    async def find(self, resource: Resource, name: str) -> Body | None:
        try:
            return await self.get(resource, name)
        except NotFound:
            return None

    async def pods(self, selector: str | None = None) -> list[Body]:
        """By creation."""
        raw = await self.client.list(POD, namespace=self.namespace, label_selector=selector)
        found: list[Body] = json.loads(raw)["items"]
        return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    async def until(self, what: Callable[[], Any], seconds: float = 30.0, *, say: str = "") -> None:
        """Wait until `what` (which may be a coroutine function) is true."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            found = what()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            if loop.time() > deadline:
                pods = [(pod["metadata"]["name"], pod.get("status")) for pod in await self.pods()]
                told = {name: story.last for name, story in self.stories.items()}
                raise AssertionError(f"not so within {seconds:g} s: {say}\n{told}\n{pods}")
            await asyncio.sleep(0.05)

    async def gone(self, resource: Resource, name: str, seconds: float = 30.0) -> None:
        async def absent() -> bool:
            return await self.find(resource, name) is None

        await self.until(absent, seconds, say=f"{resource} {name} is gone")

    async def ends(self, name: str, seconds: float = 30.0) -> Story:
        """Wait until the Job is finished, and for the moment in which a wrong write would follow."""

        def finished() -> bool:
            story = self.stories.get(name)
            return story is not None and any(one.type in ("Complete", "Failed") for one in story.last.conditions)

        await self.until(finished, seconds, say=f"Job {name} ends")
        await asyncio.sleep(1.5)
        return self.stories[name]

    async def starts(self, name: str, seconds: float = 30.0) -> Body:
        """Wait until a pod of the Job runs; the pod."""
        found: list[Body] = []

        async def runs() -> bool:
            found[:] = [pod for pod in await self.pods(f"job-name={name}") if pod["status"].get("phase") == "Running"]
            return bool(found)

        await self.until(runs, seconds, say=f"a pod of Job {name} runs")
        return found[0]

    async def clean(self) -> None:
        with contextlib.suppress(NotFound):
            await self.client.delete(NAMESPACE, self.namespace)
        for node in json.loads(await self.client.list(NODE))["items"]:
            if node["metadata"]["name"].startswith(self.tag):
                await self.client.delete(NODE, node["metadata"]["name"])


@contextlib.asynccontextmanager
async def running(run: Any, ready: Any) -> AsyncIterator[None]:
    """Run something for as long as the block, from when it is ready; its failure fails the test."""
    task = asyncio.ensure_future(run)
    try:
        async with asyncio.timeout(30):
            await ready
        yield
    finally:
        if task.done():
            task.result()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def decoded(raw: bytes) -> Body:
    body: Body = json.loads(raw)
    return body


def owner(of: Body, kind: str, api_version: str = "v1", **more: Any) -> Body:
    """An owner reference to an object."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": of["metadata"]["name"],
        "uid": of["metadata"]["uid"],
        **more,
    }


def created(pods: list[Body]) -> Iterator[float]:
    """When each was created, in seconds."""
    for pod in pods:
        yield datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()


def disruption_target(pod: Body) -> str | None:
    """The reason of a pod's true DisruptionTarget."""
    for one in pod["status"].get("conditions", []):
        if one["type"] == "DisruptionTarget" and one["status"] == "True":
            return str(one["reason"])
    return None
