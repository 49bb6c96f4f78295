"""Wires the operator and runs it until it is told to stop: the only module that knows every part.

Stages: probes, metrics and the event recorder first, then caches, then, for as long as the lease is held, the controller with its
writers. A standby does all but the last, so that it takes over with warm caches. Relied on by `python -m nodewright.operator` and by tests.
"""

import gc
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio

import nodewright
from controller_runtime.clock import Clock, SystemClock
from controller_runtime.controller import Controller
from controller_runtime.election import LeaderElector, NotLeaderError
from controller_runtime.events import EventRecorder
from controller_runtime.manager import Manager, Stage
from controller_runtime.memory import THRESHOLDS, settle_garbage_collector
from controller_runtime.transport import Client, ClientConfig, load_config
from nodewright.engine.plan import Engine
from nodewright.engine.retention import surplus
from nodewright.model.snapshot import PlanSettings
from nodewright.operator import triggers
from nodewright.operator.events import CONTROLLER, PlanEvents
from nodewright.operator.executor import Executor
from nodewright.operator.informers import Informers, Stores
from nodewright.operator.reconciler import Reconciler
from nodewright.operator.retention import JobRetention
from nodewright.operator.settings import Settings
from nodewright.operator.snapshots import Catalog, Snapshots

_log = logging.getLogger(__name__)
LEASE_NAME: Final = "nodewright-operator"
SPAN_NAME: Final = "reconcile NodeWright"
CONCURRENT_PASSES: Final = 8
PARALLEL_REQUESTS: Final = 32
PASS_TIMEOUT: Final = 180.0


async def run(settings: Settings, *, kubeconfig: Path | None = None, context: str | None = None) -> int:
    """Run the operator as a process: until a signal, or a failure that it cannot live with. The exit code is 0 or 1.

    Raises:
        ConfigError: the cluster's address or credentials cannot be found or read.
    """
    gc.set_threshold(*THRESHOLDS)
    config = await load_config(kubeconfig, context)
    return await operate(settings, config)


async def operate(settings: Settings, config: ClientConfig, *, handle_signals: bool = True) -> int:
    """Run the operator against the API server of `config`; 0 after a clean stop, 1 after a failure."""
    clock = SystemClock()
    agent = f"nodewright-operator/{nodewright.__version__}"
    elector = _elector(settings, config, agent, clock)
    manager = Manager(clock, elector=elector, handle_signals=handle_signals)
    # Reads, watches and events go on without the lease; whatever changes the cluster asks the fence right before it is sent.
    reader = Client(config, user_agent=agent, max_in_flight=PARALLEL_REQUESTS, clock=clock)
    fence = elector.fence if elector is not None else None
    writer = Client(config, user_agent=agent, max_in_flight=PARALLEL_REQUESTS, clock=clock, fence=fence)
    async with reader, writer:
        _log.info("operator %s for namespace %s at %s", nodewright.__version__, settings.namespace, config.server)
        _add_parts(manager, settings, reader, writer, clock)
        code = await manager.run()
    _log.info("operator stopped with exit code %d", code)
    return code


def _elector(settings: Settings, config: ClientConfig, agent: str, clock: Clock) -> LeaderElector | None:
    if not settings.leader_elect:
        return None
    return LeaderElector(config, settings.namespace, LEASE_NAME, _identity(), user_agent=agent, clock=clock)


def _identity() -> str:
    """The pod's name: a pod's host name is it."""
    return os.environ.get("POD_NAME") or socket.gethostname()


def _add_parts(manager: Manager, settings: Settings, reader: Client, writer: Client, clock: Clock) -> None:
    informers = Informers(reader, namespace=settings.namespace, clock=clock)
    stores, recorder = informers.stores, EventRecorder(reader, CONTROLLER, _identity(), clock=clock)
    leading = _leading(settings, stores, writer, recorder, clock)
    manager.add(recorder, Stage.HTTP, name="events")
    for name, informer in informers.by_name.items():
        manager.add(informer, Stage.CACHES, name=f"watch of {name}")
    manager.add(_Settled(), Stage.WARM, name="memory")
    manager.add(leading, Stage.LEADER, name="controller")


def _leading(settings: Settings, stores: Stores, writer: Client, recorder: EventRecorder, clock: Clock) -> "Leading":
    catalog = Catalog(stores)

    def enqueue(name: str, *, after: float = 0.0, trigger: str) -> None:
        controller.queue.add(name, after=after, trigger=trigger)

    executor = Executor(
        writer,
        stores,
        clock=clock,
        events=PlanEvents(recorder, stores),
        enqueue=enqueue,
        published=lambda _name, _status: None,
    )
    reconciler = Reconciler(
        stores=stores,
        catalog=catalog,
        snapshots=Snapshots(stores, catalog),
        engine=Engine(plan_settings(settings)),
        executor=executor,
        clock=clock,
        default_interval=settings.default_interval,
        plan_interval=settings.plan_interval,
        gone=lambda _name: None,
    )
    controller = Controller(
        "nodewright",
        reconciler.reconcile,
        span_name=SPAN_NAME,
        concurrency=CONCURRENT_PASSES,
        timeout=PASS_TIMEOUT,
        min_interval=reconciler.interval,
        expected_errors=(NotLeaderError,),
    )
    triggers.register(controller, stores, catalog)
    retention = JobRetention(writer, stores, retain=settings.job_retain, surplus=surplus)
    return Leading(controller, executor, retention, stores)


def plan_settings(settings: Settings, *, traceparent: Callable[[], str | None] = lambda: None) -> PlanSettings:
    """The settings that decisions depend on."""
    return PlanSettings(
        agent_image=settings.agent_image,
        namespace=settings.namespace,
        copy_dir_root=settings.copy_dir_root,
        agent_log_root=settings.agent_log_root,
        image_pull_secret=settings.image_pull_secret,
        taint_key=settings.runtime_required_taint.key,
        taint_value=settings.runtime_required_taint.value,
        taint_effect=settings.runtime_required_taint.effect,
        stage_timeout=settings.job_stage_timeout or None,
        backoff_limit=settings.job_backoff_limit,
        ttl_succeeded=round(settings.job_ttl_succeeded),
        ttl_failed=round(settings.job_ttl_failed),
        reapply_on_reboot=settings.reapply_on_reboot,
        version=nodewright.__version__,
        traceparent=traceparent,
    )


class Leading:
    """What only the leader does. Everything it starts has ended when `run` returns, however it ends (trap 28)."""

    def __init__(self, controller: Controller, executor: Executor, retention: JobRetention, stores: Stores) -> None:
        self._controller = controller
        self._executor = executor
        self._retention = retention
        self._stores = stores

    async def run(self) -> None:
        """Plan and write until cancelled; then write the statuses that wait, if the lease still allows it."""
        for name in list(self._stores.nodewrights.keys()):
            self._controller.queue.add(name, trigger="leading")
        try:
            async with anyio.create_task_group() as group:
                self._executor.start(group)
                group.start_soon(self._controller.run, name="controller")
                group.start_soon(self._retention.run, name="retention")
        finally:
            with anyio.CancelScope(shield=True):
                await self._executor.stop()


class _Settled:
    """Once the caches are full: what lives now will live long."""

    async def run(self) -> None:
        """Take it out of the garbage collector's sight."""
        settle_garbage_collector()
