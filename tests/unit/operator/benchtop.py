"""One cluster for the executor's tests: a fake API server, the real stores, and an executor whose wishes for passes are recorded."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from controller_runtime.cache import Store
from controller_runtime.clock import SystemClock
from nodewright.api import keys
from nodewright.model.objects import Job, Node, NodeWrightObject
from nodewright.model.plan import Event, JobCreate
from nodewright.model.snapshot import CR
from nodewright.operator import resources, stored
from nodewright.operator.executor import Executor
from nodewright.operator.informers import Stores, add_indexes
from nodewright.operator.snapshots import Catalog
from tests.unit.operator.fake_api import FakeApi

NAMESPACE = "nodewright"


class FixedClock(SystemClock):
    """The time of day stands still."""

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Bench:
    """What a test of writes needs."""

    api: FakeApi
    stores: Stores
    executor: Executor
    catalog: Catalog
    passes: list[tuple[str, float, str]] = field(default_factory=list)
    """(CR, seconds, trigger) of each pass asked for."""
    events: list[tuple[str, Event]] = field(default_factory=list)
    published: list[tuple[str, Any]] = field(default_factory=list)

    def add_cr(self, name: str = "cr", **spec: Any) -> CR:
        """A NodeWright in the API server and in the store."""
        body = {"metadata": {"name": name, "generation": 1}, "spec": spec, "status": {}}
        self.api.put(resources.NODEWRIGHT, body)
        self.stores.nodewrights.observe(self.api.raw(resources.NODEWRIGHT, name))
        return self.cr(name)

    def cr(self, name: str = "cr") -> CR:
        found = self.catalog.cr(name)
        assert found is not None
        return found

    def source(self, name: str = "cr") -> NodeWrightObject:
        found = self.stores.nodewrights.get(name)
        assert found is not None
        return found

    def add_node(self, name: str = "n1", **body: Any) -> Node:
        """A Node in the API server and in the store; `body` holds metadata, spec, status."""
        full = {"spec": {}, **body, "metadata": {"labels": {"a": "b"}, **body.get("metadata", {}), "name": name}}
        self.api.put(resources.NODE, full)
        return self.stores.nodes.observe(self.api.raw(resources.NODE, name))

    def node(self, name: str = "n1") -> dict[str, Any]:
        """The Node as the API server has it."""
        return self.api.objects["nodes", name]

    def add_job(self, name: str = "j1", *, cr: str = "cr", node: str = "n1") -> Job:
        self.api.put(resources.JOB, job_body(name, cr=cr, node=node))
        return self.stores.jobs.observe(self.api.raw(resources.JOB, name))


def job_body(name: str, *, cr: str = "cr", node: str = "n1") -> dict[str, Any]:
    labels = {keys.LABEL_NAME: cr, keys.LABEL_NODE: node}
    owner = {"apiVersion": keys.API_VERSION, "kind": "NodeWright", "name": cr, "uid": f"uid-{cr}", "controller": True}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]},
        "spec": {},
    }


def create(name: str = "j1", *, node: str = "n1", package: str = "p") -> JobCreate:
    return JobCreate(name=name, body=job_body(name, node=node), package=package, stage="apply", run="r1")


class _Events:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def on_node(self, node: Node, event: Event) -> None:
        self._bench.events.append((node.name, event))

    def on_cr(self, cr: CR, event: Event) -> None:
        self._bench.events.append((event.node or cr.name, event))


def make_stores() -> Stores:
    """Real stores, empty."""
    stores = Stores(
        namespace=NAMESPACE,
        nodewrights=Store(cast(Any, stored.StoredNodeWright)),
        policies=Store(cast(Any, stored.StoredDeploymentPolicy)),
        nodes=Store(cast(Any, stored.StoredNode)),
        jobs=Store(cast(Any, stored.StoredJob)),
        pods=Store(cast(Any, stored.StoredPod)),
        configmaps=Store(cast(Any, stored.StoredConfigMap)),
        metadata=Store(cast(Any, stored.StoredNodeMetadata)),
    )
    add_indexes(stores)
    return stores


def make_bench() -> Bench:
    api, stores = FakeApi(), make_stores()
    bench = Bench(api=api, stores=stores, executor=cast(Any, None), catalog=Catalog(stores))

    def enqueue(name: str, *, after: float = 0.0, trigger: str) -> None:
        bench.passes.append((name, after, trigger))

    bench.executor = Executor(
        cast(Any, api),
        stores,
        clock=FixedClock(),
        events=_Events(bench),
        enqueue=enqueue,
        published=lambda name, status: bench.published.append((name, status)),
    )
    return bench
