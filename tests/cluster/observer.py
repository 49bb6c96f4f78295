"""A live picture of the cluster for tests of behaviour: what a person sees with ``kubectl get --watch``, without asking again and again.

Relies on the runtime's informers, over an administrator's credentials; the operator under test has its own. Scenarios read the
picture, wait until something is true in it, and have every change recorded in the order the API server made it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Self

import msgspec

from controller_runtime.cache import Change, Informer, ObjectMeta, Store
from controller_runtime.transport import Client, Resource

NODEWRIGHT: Final = Resource("nodewright.nvidia.com", "v1alpha1", "nodewrights", "NodeWright", namespaced=False)
NODE: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
POD: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
CONFIG_MAP: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
JOB: Final = Resource("batch", "v1", "jobs", "Job", namespaced=True)
EVENT: Final = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
LEASE: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
NAMESPACE: Final = "nodewright"
KEY: Final = "nodewright.nvidia.com"


class Thing(msgspec.Struct, frozen=True, rename="camel"):
    """Any object: its metadata, and the rest as plain JSON values."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    data: dict[str, str] = {}
    regarding: dict[str, Any] = {}
    reason: str = ""
    action: str = ""
    note: str = ""
    type: str = ""
    reporting_controller: str = ""

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return self.metadata.annotations

    def key(self, suffix: str) -> str | None:
        """The annotation of ours with that name part."""
        return self.metadata.annotations.get(f"{KEY}/{suffix}")

    def label(self, suffix: str) -> str | None:
        """The label of ours with that name part."""
        return self.metadata.labels.get(f"{KEY}/{suffix}")

    def condition(self, type_: str) -> dict[str, Any] | None:
        """The condition of that type in its status."""
        return next((item for item in self.status.get("conditions") or () if item["type"] == type_), None)

    def is_true(self, type_: str) -> bool:
        """Whether the condition of that type is True."""
        found = self.condition(type_)
        return found is not None and found["status"] == "True"

    @property
    def finished(self) -> bool:
        """Of a Job: Complete or Failed."""
        return self.is_true("Complete") or self.is_true("Failed")

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None


class Observer:
    """Stores of everything the scenarios look at. All methods belong to the loop of ``run``."""

    def __init__(self, client: Client) -> None:
        self._informers: dict[str, Informer[Thing]] = {}
        for resource in (NODEWRIGHT, NODE, POD, CONFIG_MAP, JOB, EVENT):
            namespace = NAMESPACE if resource in (POD, CONFIG_MAP, JOB) else None
            informer = Informer(client, resource, Thing, namespace=namespace)
            self._informers[resource.plural] = informer
            informer.store.subscribe(self._tell)
        self.nodes.add_index("scenario", lambda node: [node.labels.get("scenario", "")])
        for store in (self.jobs, self.pods):
            store.add_index("cr", lambda thing: [thing.label("name") or ""])
        self.config_maps.add_index(
            "cr", lambda thing: [thing.label("name") or thing.label("nodewright-node-meta") or ""]
        )
        self.events.add_index("regarding", lambda event: [event.regarding.get("name", "")])
        self._moved = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, informer in self._informers.items():
                group.create_task(informer.run(), name=f"observe-{name}")

    async def wait_synced(self) -> None:
        """Return when every store has its first picture."""
        for informer in self._informers.values():
            await informer.wait_synced()

    def _store(self, plural: str) -> Store[Thing]:
        return self._informers[plural].store

    @property
    def crs(self) -> Store[Thing]:
        """NodeWrights."""
        return self._store("nodewrights")

    @property
    def nodes(self) -> Store[Thing]:
        """Nodes."""
        return self._store("nodes")

    @property
    def pods(self) -> Store[Thing]:
        """Pods of the operator's namespace."""
        return self._store("pods")

    @property
    def jobs(self) -> Store[Thing]:
        """Jobs of the operator's namespace."""
        return self._store("jobs")

    @property
    def config_maps(self) -> Store[Thing]:
        """ConfigMaps of the operator's namespace."""
        return self._store("configmaps")

    @property
    def events(self) -> Store[Thing]:
        """Events of all namespaces."""
        return self._store("events")

    def take(self, resource: Resource, answer: bytes) -> None:
        """Take the answer of an own write into the picture."""
        if resource.plural in self._informers:
            self._store(resource.plural).observe(answer)

    def _tell(self, _change: Change[Thing]) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def until(self, true: Callable[[], object], *, within: float) -> bool:
        """Wait until ``true()`` is, looked at after each change and every half second; False after ``within`` seconds."""
        deadline = asyncio.get_running_loop().time() + within
        while True:
            moved = self._moved
            if true():
                return True
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(min(left, 0.5)):
                    await moved.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(0.02)  # what comes together is looked at once


class Recorder:
    """Records each change of one store from now on, as ``look`` sees it: values that are None are left out.

    The order within one resource is the API server's, nothing is missed: an informer folds no events of a running watch.
    """

    def __init__(self, store: Store[Thing], look: Callable[[Change[Thing]], object]) -> None:
        self.seen: list[Any] = []
        self._look = look
        self._open = True
        store.subscribe(self._record)

    def _record(self, change: Change[Thing]) -> None:
        if self._open:
            value = self._look(change)
            if value is not None:
                self.seen.append(value)

    def close(self) -> None:
        """Record no more."""
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def settle(*awaitables: Awaitable[object]) -> None:
    """Run side by side; the first failure is raised when all have ended."""
    for result in await asyncio.gather(*awaitables, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def by_name(things: Iterable[Thing]) -> dict[str, Thing]:
    """Things by their names."""
    return {thing.name: thing for thing in things}
