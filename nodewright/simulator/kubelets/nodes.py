"""The nodes of the simulation as API objects: registration, heartbeats, readiness, reboots.

Relies on the transport client. `kubelets.Kubelets` relies on it and lays the pods on top.
"""

import asyncio
import contextlib
import heapq
import itertools
import logging
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller_runtime.transport import AlreadyExists, ApiError, Client, NotFound, PatchType, Resource, TransportError
from nodewright.simulator.kubelets.container_run import timestamp
from nodewright.simulator.kubelets.node_body import (
    NOT_READY,
    READY,
    NodeTemplate,
    address_of,
    heartbeat,
    new_boot_id,
    registration,
    status_patch,
)
from nodewright.simulator.kubelets.pod_view import NODE

LEASE = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", namespaced=True)
LEASE_NAMESPACE = "kube-node-lease"
BEATERS = 2
"""So many heartbeats are under way at most: they must never be in the way of pods."""

_logger = logging.getLogger(__name__)


class _NodeInfo(msgspec.Struct, rename={"boot_id": "bootID"}):
    boot_id: str = ""


class _NodeStatus(msgspec.Struct, rename="camel"):
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)


class _Node(msgspec.Struct):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


@dataclass(slots=True, eq=False)
class SimulatedNode:
    """One node. `up` is false while it is down: it then writes nothing and its pods stand still."""

    name: str
    address: str
    boot_id: str
    template: NodeTemplate
    up: bool = True
    registered: bool = False
    pods: set[str] = field(default_factory=set)
    """UIDs of the pods it runs."""


class Nodes:
    """All simulated nodes, and the loop of their heartbeats.

    A node object that somebody deleted is made again only when its node boots (a kubelet registers when it starts): its
    heartbeats end, its pods go on until they are deleted.
    """

    def __init__(self, client: Client, *, heartbeat_seconds: float, lease_seconds: float, offset: float) -> None:
        """`heartbeat_seconds` and `lease_seconds` 0 turn that kind of heartbeat off; `offset` makes loop time Unix time."""
        self._client = client
        self._periods = {"status": heartbeat_seconds, "lease": lease_seconds}
        self._offset = offset
        self._nodes: dict[str, SimulatedNode] = {}
        self._beats: list[tuple[float, int, str, SimulatedNode]] = []
        self._numbers = itertools.count()
        self._addresses: dict[str, str] = {}
        """By name, kept for good: a machine that registers again has its address, which pods it still runs have in their status."""
        self._more = asyncio.Event()

    def get(self, name: str) -> SimulatedNode | None:
        """The node of that name, if it is simulated here."""
        return self._nodes.get(name)

    def names(self) -> list[str]:
        """Names of all simulated nodes."""
        return list(self._nodes)

    async def register(self, name: str, template: NodeTemplate) -> SimulatedNode:
        """Make the Node object, or go on with the one that is there (a kubelet that was restarted keeps the boot ID).

        Raises ValueError for a name that is simulated already, ApiError and TransportError when the server does not have it.
        """
        if name in self._nodes:
            raise ValueError(f"node {name} is simulated already")
        if name not in self._addresses:
            self._addresses[name] = address_of(next(self._numbers))
        node = SimulatedNode(name, self._addresses[name], new_boot_id(), template)
        self._nodes[name] = node
        try:
            await self._create(node)
        except BaseException:
            del self._nodes[name]
            raise
        node.registered = True
        self._schedule(node)
        return node

    async def delete(self, name: str) -> SimulatedNode:
        """Delete the Node object and simulate it no more."""
        node = self._nodes.pop(name)
        node.registered = node.up = False
        with contextlib.suppress(NotFound):
            await self._client.delete(NODE, name)
        return node

    async def patch_ready(
        self, node: SimulatedNode, status: str, why: tuple[str, str], *, boot_id: str | None = None
    ) -> None:
        """Write the Ready condition, and the boot ID with it."""
        body = status_patch(status, why, now=self._now(), boot_id=boot_id)
        await self._client.patch(NODE, node.name, body, PatchType.STRATEGIC, subresource="status")

    async def boot(self, node: SimulatedNode) -> None:
        """Come back after a reboot: a new boot ID with Ready False, then Ready True, as a kubelet that starts does."""
        node.boot_id = new_boot_id()
        try:
            await self.patch_ready(node, "False", NOT_READY, boot_id=node.boot_id)
        except NotFound:
            await self._create(node)
            if not node.registered:
                node.registered = True
                self._schedule(node)
        else:
            await self.patch_ready(node, "True", READY)

    async def beat(self) -> None:
        """Send heartbeats until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(BEATERS):
                group.create_task(self._beat(), name=f"heartbeats-{number}")

    async def _create(self, node: SimulatedNode) -> None:
        body = registration(node.name, node.template, boot_id=node.boot_id, address=node.address, now=self._now())
        try:
            await self._client.create(NODE, body)
        except AlreadyExists:
            old = msgspec.json.decode(await self._client.get(NODE, node.name), type=_Node).status.node_info.boot_id
            node.boot_id = old or node.boot_id
            await self.patch_ready(node, "True", READY, boot_id=None if old else node.boot_id)
        if self._periods["lease"]:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(LEASE, self._lease(node), namespace=LEASE_NAMESPACE)

    def _schedule(self, node: SimulatedNode) -> None:
        now = asyncio.get_running_loop().time()
        number = next(self._numbers)
        for kind, period in self._periods.items():
            if period:  # spread over the period by the golden ratio, however many nodes there are and will be
                heapq.heappush(self._beats, (now + period * ((number * 0.6180339887) % 1.0), number, kind, node))
        self._more.set()

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._beats:
                self._more.clear()
                await self._more.wait()
                continue
            wait = self._beats[0][0] - loop.time()
            if wait > 0:
                await asyncio.sleep(max(wait, 0.05))  # a few at a time
                continue
            _, number, kind, node = heapq.heappop(self._beats)
            if node.up and node.registered:
                await self._send(kind, node)
            if self._nodes.get(node.name) is node and node.registered:
                heapq.heappush(self._beats, (loop.time() + self._periods[kind], number, kind, node))

    async def _send(self, kind: str, node: SimulatedNode) -> None:
        try:
            if kind == "status":
                body = heartbeat(self._now())
                await self._client.patch(NODE, node.name, body, PatchType.STRATEGIC, subresource="status")
            else:
                renewal = {"spec": {"renewTime": self._micro_time()}}
                await self._client.patch(LEASE, node.name, renewal, PatchType.MERGE, namespace=LEASE_NAMESPACE)
        except NotFound:
            _logger.info("node %s: its %s object is gone, its heartbeats end", node.name, kind)
            node.registered = node.registered and kind != "status"
        except (ApiError, TransportError) as error:
            _logger.debug("node %s: heartbeat failed: %s", node.name, error)

    def _lease(self, node: SimulatedNode) -> dict[str, Any]:
        spec = {"holderIdentity": node.name, "leaseDurationSeconds": 40, "renewTime": self._micro_time()}
        return {"metadata": {"name": node.name, "namespace": LEASE_NAMESPACE}, "spec": spec}

    def _micro_time(self) -> str:
        return timestamp(self._now()).replace("Z", ".000000Z")

    def _now(self) -> float:
        return asyncio.get_running_loop().time() + self._offset
