"""The whole operator as a simulated process: `nodewright.operator.app.serve`, unchanged, on a client, a clock and a memory of its own."""

import asyncio
import contextlib
import contextvars
from typing import Any

from controller_runtime.election import Fence
from controller_runtime.observability.metrics import RuntimeMetrics
from controller_runtime.observability.tracing import set_up_tracing
from controller_runtime.testing.api_server import ApiServer
from nodewright.operator.app import LEASE_NAME, Outside, serve
from nodewright.operator.settings import Settings
from nodewright.simulator.virtual_time import VirtualClock
from tests.simulation.elector import LoopElector
from tests.simulation.faults import FaultyClient, Watched
from tests.simulation.loop import PROCESS

NAMESPACE = "nodewright"
AGENT_IMAGE = "registry.example/agent:1.0.0"


class Process:
    """One start of one replica. Whatever it remembers ends with it."""

    def __init__(self, server: ApiServer, replica: int, start: int, *, elect: bool, settings: dict[str, Any]) -> None:
        self.replica = replica
        self.agent = f"operator-{replica}.{start}"
        self.alive = True
        self.watched = Watched()
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.settings = Settings(
            agent_image=AGENT_IMAGE, metrics_address=None, probe_address=None, webhook_address=None,
            enable_webhooks=False, leader_elect=elect, **settings,
        )  # fmt: skip
        reader = self._client(server, None)
        fence = Fence(self.clock)
        self.elector = (
            LoopElector(
                reader, namespace=NAMESPACE, name=LEASE_NAME, identity=self.agent, clock=self.clock, fence=fence
            )
            if elect
            else None
        )
        self.outside = Outside(
            reader=reader,
            writer=self._client(server, fence if elect else None),
            metrics=RuntimeMetrics(clock=self.clock),
            tracing=set_up_tracing(service_name="", service_version="", service_instance="", environ={}),
            clock=self.clock,
            identity=f"operator-{replica}",
        )
        self.failure: BaseException | None = None
        self.exit_code: int | None = None
        context = contextvars.copy_context()
        context.run(PROCESS.set, self.agent)
        self.task = asyncio.get_running_loop().create_task(self._run(), name=self.agent, context=context)

    def _client(self, server: ApiServer, fence: Fence | None) -> FaultyClient:
        return FaultyClient(server, watched=self.watched, agent=self.agent, clock=self.clock, fence=fence)

    async def _run(self) -> None:
        try:
            self.exit_code = await serve(
                self.settings, self.outside, elector=self.elector, handle_signals=False, exit_process=lambda code: None
            )
        except Exception as error:  # noqa: BLE001 - the simulation reports it
            self.failure = error

    def kill(self) -> None:
        """As SIGKILL: nothing it asks for reaches the server any more, and it ends."""
        self.alive = False
        self.watched.cut("", cleanly=False)
        self.task.cancel()
        if self.elector is not None and self.elector._task is not None:
            self.elector._task.cancel()

    async def stop(self) -> None:
        """As SIGTERM: in good order."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        self.alive = False

    @property
    def broken(self) -> str:
        """Why it ended although nobody asked it to; "" while it runs."""
        if not self.alive or not self.task.done() or self.task.cancelled():
            return ""
        return f"{self.agent} ended by itself: {self.failure!r}, exit code {self.exit_code}"
