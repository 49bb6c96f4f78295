"""The real operator on an embedded cluster: the wiring of production, with an engine that lets somebody watch.

Lives here because the simulator does not see the operator's insides, and the operator knows of no simulator. `simulate` relies on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from controller_runtime.clock import Clock
from controller_runtime.observability.metrics import RuntimeMetrics
from controller_runtime.observability.tracing import set_up_tracing
from controller_runtime.testing.api_server import ApiServer, EmbeddedClient
from nodewright.engine.node_plan import NodeOutcome
from nodewright.engine.plan import Engine
from nodewright.model.plan import Plan
from nodewright.model.snapshot import PlanSettings, Snapshot
from nodewright.operator.app import Outside, serve
from nodewright.operator.settings import Settings
from nodewright.simulator.embedded_cluster import Operator

IDENTITY: Final = "nodewright-operator-0"
SHORTEST_INTERVAL: Final = 1.0
LONGEST_INTERVAL: Final = 5.0
NODES_A_SECOND: Final = 200
"""Virtual seconds between two passes grow with the nodes: planning takes no time here, so that without that a thousand nodes would be
planned anew for each of ten thousand events."""


class PassWatcher(Protocol):
    """Told after each pass of a CR what became of its nodes."""

    def __call__(self, cr: str, outcomes: Mapping[str, NodeOutcome]) -> None:
        """`outcomes` has the selected nodes whose outcome is another object than after the last pass, and all of them at first."""


class WatchedEngine(Engine):
    """The engine; after each pass, whoever watches sees each node's outcome."""

    def __init__(self, settings: PlanSettings, *, watcher: PassWatcher) -> None:
        super().__init__(settings)
        self._watcher = watcher
        self._seen: dict[str, dict[str, NodeOutcome]] = {}

    def plan(self, snapshot: Snapshot, now: float) -> Plan:
        """As ever."""
        plan = super().plan(snapshot, now)
        cr = snapshot.cr
        if cr.spec is not None and plan.status is not None:
            seen = self._seen.setdefault(cr.name, {})
            fresh: dict[str, NodeOutcome] = {}
            for name, record in self._memory.of(cr, cr.spec).records.items():
                outcome = record.outcome
                if record.selected and outcome is not None and seen.get(name) is not outcome:
                    seen[name] = fresh[name] = outcome
            if fresh:
                self._watcher(cr.name, fresh)
        return plan


@dataclass(frozen=True, slots=True)
class SimulatedSettings:
    """What of the operator's settings a simulation may change."""

    namespace: str
    nodes: int
    agent_image: str = "ghcr.io/nvidia/nodewright/agent:6.4.2"
    reapply_on_reboot: bool = False


def real_operator(settings: SimulatedSettings, watcher: PassWatcher) -> Operator:
    """The operator, to be started on a cluster. It is the only one, so it seeks no lease; it serves no ports."""

    async def run(server: ApiServer, clock: Clock) -> int:
        def client() -> EmbeddedClient:
            return EmbeddedClient(server, user_agent="nodewright-operator", clock=clock)

        outside = Outside(
            reader=client(),
            writer=client(),
            metrics=RuntimeMetrics(clock=clock),
            tracing=set_up_tracing(service_name="", service_version="", service_instance="", environ={}),
            clock=clock,
            identity=IDENTITY,
            engine=lambda planned: WatchedEngine(planned, watcher=watcher),
        )
        chosen = Settings(
            namespace=settings.namespace,
            agent_image=settings.agent_image,
            reapply_on_reboot=settings.reapply_on_reboot,
            plan_interval=min(max(SHORTEST_INTERVAL, settings.nodes / NODES_A_SECOND), LONGEST_INTERVAL),
            job_retain=1_000_000,
            leader_elect=False,
            enable_webhooks=False,
            metrics_address=None,
            probe_address=None,
            webhook_address=None,
        )
        return await serve(chosen, outside, elector=None, handle_signals=False, exit_process=_never)

    return run


def _never(code: int) -> None:
    """A simulation does not end the process."""
