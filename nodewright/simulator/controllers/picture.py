"""The informers all controllers share: one per resource. Relied on by `Controllers`, which runs them, and by every controller."""

import asyncio
import random
from collections.abc import Iterable

from controller_runtime.cache import Informer, Store
from controller_runtime.clock import Clock
from controller_runtime.transport import Resource
from controller_runtime.watch import WatchClient
from nodewright.simulator.controllers.views import (
    BUDGET,
    JOB,
    LEASE,
    NODE,
    POD,
    Anything,
    Budget,
    Job,
    Lease,
    Node,
    Pod,
    controller_of,
)


class Picture:
    """The stores, with their indexes: pods by `node`, by the UID of their `job`, and by `namespace`; budgets by `namespace`."""

    def __init__(
        self, client: WatchClient, others: Iterable[Resource], *, clock: Clock, rng: random.Random | None = None
    ) -> None:
        """`others` are resources of which only owners and finalizers matter."""
        rng = rng or random.Random(0)
        self._pods = Informer(client, POD, Pod, clock=clock, rng=rng)
        self._jobs = Informer(client, JOB, Job, clock=clock, rng=rng)
        self._nodes = Informer(client, NODE, Node, clock=clock, rng=rng)
        self._leases = Informer(client, LEASE, Lease, clock=clock, rng=rng)
        self._budgets = Informer(client, BUDGET, Budget, clock=clock, rng=rng)
        own = {POD, JOB, NODE, LEASE, BUDGET}
        self._others = {
            resource: Informer(client, resource, Anything, clock=clock, rng=rng)
            for resource in others
            if resource not in own
        }
        self.pods.add_index("node", lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
        self.pods.add_index("job", _job_of)
        self.pods.add_index("namespace", lambda pod: (pod.metadata.namespace,))
        self.budgets.add_index("namespace", lambda budget: (budget.metadata.namespace,))

    @property
    def pods(self) -> Store[Pod]:
        """All pods."""
        return self._pods.store

    @property
    def jobs(self) -> Store[Job]:
        """All Jobs."""
        return self._jobs.store

    @property
    def nodes(self) -> Store[Node]:
        """All nodes."""
        return self._nodes.store

    @property
    def leases(self) -> Store[Lease]:
        """All leases."""
        return self._leases.store

    @property
    def budgets(self) -> Store[Budget]:
        """All PodDisruptionBudgets."""
        return self._budgets.store

    @property
    def others(self) -> dict[Resource, Store[Anything]]:
        """Everything else that may own or be owned."""
        return {resource: informer.store for resource, informer in self._others.items()}

    async def run(self) -> None:
        """Keep the stores true until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers():
                group.create_task(informer.run(), name=f"watch {informer.resource}")

    async def wait_synced(self) -> None:
        """Wait until every store holds a whole list."""
        for informer in self._informers():
            await informer.wait_synced()

    def _informers(
        self,
    ) -> Iterable[
        Informer[Pod] | Informer[Job] | Informer[Node] | Informer[Lease] | Informer[Budget] | Informer[Anything]
    ]:
        yield from (self._pods, self._jobs, self._nodes, self._leases, self._budgets)
        yield from self._others.values()


def _job_of(pod: Pod) -> tuple[str, ...]:
    owner = controller_of(pod.metadata)
    is_job = owner is not None and owner.kind == "Job" and owner.api_version.startswith("batch/")
    return (owner.uid,) if owner is not None and is_job else ()
