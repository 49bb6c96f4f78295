"""A cluster in this loop: the embedded API server with NodeWright's kinds, the controllers, simulated kubelets, and an operator.

With `virtual_time` it runs as fast as the machine can compute. The operator is given as a coroutine function, since the
simulator does not see the operator's insides: `nodewright.cli.simulated_operator` has the real one. Relied on by `nodewright simulate`.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from controller_runtime.clock import Clock
from controller_runtime.testing.api_server import ApiServer, EmbeddedClient
from controller_runtime.transport import Resource
from nodewright.api import keys
from nodewright.api.crd import deployment_policy_crd, nodewright_crd
from nodewright.simulator.controllers import Controllers, ControllerSettings
from nodewright.simulator.controllers.controllers import CONFIG_MAP
from nodewright.simulator.kubelets import Kubelets, NodeTemplate, Timing
from nodewright.simulator.ledger import Ledger
from nodewright.simulator.rules import Rule
from nodewright.simulator.virtual_time import VirtualClock

NAMESPACE: Final = "nodewright"
NODEWRIGHT: Final = Resource(keys.GROUP, keys.VERSION, keys.NODEWRIGHT_PLURAL, keys.NODEWRIGHT_KIND, namespaced=False)
PATIENT: Final = ControllerSettings(
    node_grace_seconds=1e9, node_startup_grace_seconds=1e9, node_monitor_seconds=60.0, pod_garbage_seconds=600.0
)
"""kube-controller-manager's times, for kubelets that send no heartbeats: nodes stay as they are without them."""

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"

Operator = Callable[[ApiServer, Clock], Awaitable[object]]
"""Runs an operator against the server until cancelled."""


class EmbeddedCluster:
    """An async context manager; within, everything runs. A part that ends by itself ends the block with its error.

    `nodes` are kubelets' nodes by name; objects (`load`) and kubelets without a Node object of theirs may be added before.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        rules: Iterable[Rule] = (),
        timing: Timing | None = None,
        ledger: Ledger | None = None,
        settings: ControllerSettings = PATIENT,
        namespace: str = NAMESPACE,
    ) -> None:
        """Must be made while the loop runs. `seed` decides UIDs and names."""
        self.clock = VirtualClock()
        self.server = ApiServer(clock=self.clock, rng=random.Random(seed), managed_fields=False, window=5_000)
        self.namespace = namespace
        self.kubelets: Kubelets | None = None
        self._seed, self._rules, self._timing, self._ledger = seed, tuple(rules), timing, ledger
        self._settings = settings
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[object]] = []
        self.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for crd in (nodewright_crd(), deployment_policy_crd()):
            self.load(_with_open_status(crd))

    def load(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object; gives it as stored.

        Raises:
            RefusalError: what the API server would answer.
        """
        return self.server.load(item)

    def client(self, name: str) -> EmbeddedClient:
        """A client of the server under that user agent."""
        return EmbeddedClient(self.server, user_agent=name, clock=self.clock, max_in_flight=64)

    async def start(self, *, nodes: Sequence[str], template: NodeTemplate | None = None) -> None:
        """Start the controllers and the kubelets of these nodes; return when they work."""
        self.kubelets = Kubelets(
            self.client("kubelet"),
            nodes=nodes,
            template=template,
            namespace=self.namespace,
            rules=self._rules,
            ledger=self._ledger,
            timing=self._timing,
            heartbeat_seconds=0.0,
            clock=self.clock,
        )
        controllers = Controllers(
            self.client("controllers"),
            clock=self.clock,
            settings=self._settings,
            collected=(CONFIG_MAP, NODEWRIGHT),
            events=False,
            rng=random.Random(self._seed),
        )
        self._begin(self.kubelets.run(), "kubelets")
        self._begin(controllers.run(), "controllers")
        await controllers.wait_ready()
        await self.kubelets.wait_ready()

    def start_operator(self, operator: Operator) -> asyncio.Task[object]:
        """Start an operator; it may be cancelled and another one started."""
        return self._begin(operator(self.server, self.clock), "operator")

    def _begin(self, work: Awaitable[object], name: str) -> asyncio.Task[object]:
        async def run() -> object:
            return await work

        task = self._group.create_task(run(), name=name)
        self._tasks.append(task)
        return task

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in reversed(self._tasks):
            task.cancel()
        await self._group.__aexit__(kind, error, trace)


def _with_open_status(crd: dict[str, Any]) -> dict[str, Any]:
    """The CRD without the schema of the status, which is what a thousand nodes say: checking it is a third of the work.

    That the operator's statuses are valid is for the cluster tests to prove.
    """
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    schema["properties"] = {**schema["properties"], "status": {"type": "object", _PRESERVE: True}}
    return crd
