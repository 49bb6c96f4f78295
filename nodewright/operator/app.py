"""Wires the operator and runs it until it is told to stop: the only module that knows every part.

Stages: probes, metrics and the event recorder first, then caches, then, for as long as the lease is held, the controller with its
writers. A standby does all but the last, so that it takes over with warm caches. Relied on by `python -m nodewright.operator` and by tests.
"""

import gc
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from opentelemetry import trace

import nodewright
from controller_runtime.clock import Clock, SystemClock
from controller_runtime.controller import Controller
from controller_runtime.election import Fence, LeaderElector, NotLeaderError
from controller_runtime.events import EventRecorder
from controller_runtime.manager import Manager, Stage
from controller_runtime.manager.manager import Elector
from controller_runtime.memory import THRESHOLDS, settle_garbage_collector
from controller_runtime.observability.loop_lag import LoopLag
from controller_runtime.observability.metrics import RuntimeMetrics
from controller_runtime.observability.tracing import RequestSpans, Tracing, set_up_tracing
from controller_runtime.transport import Client, ClientConfig, load_config
from nodewright.engine.plan import Engine
from nodewright.engine.retention import surplus
from nodewright.model.snapshot import PlanSettings
from nodewright.operator import triggers
from nodewright.operator.catch_up import Lister, catch_up
from nodewright.operator.events import CONTROLLER, PlanEvents
from nodewright.operator.executor import Executor
from nodewright.operator.informers import Informers, Stores
from nodewright.operator.metrics import DomainMetrics
from nodewright.operator.reconciler import Planner, Reconciler
from nodewright.operator.retention import JobRetention
from nodewright.operator.servers import add_servers, publisher
from nodewright.operator.settings import Settings
from nodewright.operator.snapshots import Catalog, Snapshots

_log = logging.getLogger(__name__)
LEASE_NAME: Final = "nodewright-operator"
SERVICE_NAME: Final = "nodewright-operator"
USER_AGENT: Final = f"nodewright-operator/{nodewright.__version__}"
CONTROLLER_NAME: Final = "nodewright"
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
    clock, version = SystemClock(), nodewright.__version__
    metrics = RuntimeMetrics(clock=clock)
    tracing = set_up_tracing(service_name=SERVICE_NAME, service_version=version, service_instance=_identity())
    elector = _elector(settings, config, metrics, clock)
    # Reads, watches and events go on without the lease; whatever changes the cluster asks the fence right before it is sent.
    reader = _client(config, metrics, tracing, clock, fence=None)
    writer = _client(config, metrics, tracing, clock, fence=elector.fence if elector is not None else None)
    try:
        async with reader, writer:
            _log.info("operator %s for namespace %s at %s", version, settings.namespace, config.server)
            outside = Outside(
                reader=reader, writer=writer, metrics=metrics, tracing=tracing, clock=clock, identity=_identity()
            )
            code = await serve(settings, outside, elector=elector, handle_signals=handle_signals)
    finally:
        tracing.shut_down()
    _log.info("operator stopped with exit code %d", code)
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What the operator talks to; the simulation gives it an API server and a clock of its own."""

    reader: Client
    """Without a fence."""
    writer: Client
    """Asks the elector's fence before each write."""
    metrics: RuntimeMetrics
    tracing: Tracing
    clock: Clock
    identity: str
    """The pod's name."""
    engine: Callable[[PlanSettings], Planner] = Engine
    """Makes what plans; a simulation looks over its shoulder."""


async def serve(
    settings: Settings,
    outside: Outside,
    *,
    elector: Elector | None,
    handle_signals: bool,
    exit_process: Callable[[int], object] = os._exit,
) -> int:
    """Run the operator until it is told to stop; 0 after a clean stop, 1 after a failure."""
    manager = Manager(outside.clock, elector=elector, handle_signals=handle_signals, exit_process=exit_process)
    _add_parts(manager, settings, outside)
    return await manager.run()


def _client(
    config: ClientConfig, metrics: RuntimeMetrics, tracing: Tracing, clock: Clock, *, fence: Fence | None
) -> Client:
    return Client(
        config,
        user_agent=USER_AGENT,
        max_in_flight=PARALLEL_REQUESTS,
        clock=clock,
        fence=fence,
        metrics=metrics.request,
        observer=RequestSpans(tracing.tracer(SERVICE_NAME)) if tracing.is_on else None,
    )


def _elector(settings: Settings, config: ClientConfig, metrics: RuntimeMetrics, clock: Clock) -> LeaderElector | None:
    if not settings.leader_elect:
        return None
    return LeaderElector(
        config,
        settings.namespace,
        LEASE_NAME,
        _identity(),
        user_agent=USER_AGENT,
        clock=clock,
        metrics=metrics.election,
    )


def _identity() -> str:
    """The pod's name: a pod's host name is it."""
    return os.environ.get("POD_NAME") or socket.gethostname()


def _add_parts(manager: Manager, settings: Settings, outside: Outside) -> None:
    clock, metrics = outside.clock, outside.metrics
    informers = Informers(outside.reader, namespace=settings.namespace, clock=clock)
    recorder = EventRecorder(outside.reader, CONTROLLER, outside.identity, clock=clock, metrics=metrics.events)
    add_servers(manager, settings, metrics, informers, outside.reader, clock)
    manager.add(recorder, Stage.HTTP, name="events")
    if settings.metrics_address is not None:
        manager.add(LoopLag(metrics.loop_lag, clock=clock), Stage.HTTP)
    for name, informer in informers.by_name.items():
        manager.add(informer, Stage.CACHES, name=f"watch of {name}")
    manager.add(_Settled(), Stage.WARM, name="memory")
    manager.add(_leading(settings, informers.stores, recorder, outside), Stage.LEADER, name="leading")


def _leading(settings: Settings, stores: Stores, recorder: EventRecorder, outside: Outside) -> "Leading":
    """Everything that plans and writes."""
    catalog, clock, tracer = Catalog(stores), outside.clock, outside.tracing.tracer(SERVICE_NAME)
    domain = DomainMetrics(outside.metrics.registry, publish_legacy=settings.publish_legacy_metrics)

    def enqueue(name: str, *, after: float = 0.0, trigger: str) -> None:
        controller.queue.add(name, after=after, trigger=trigger)

    executor = Executor(
        outside.writer,
        stores,
        clock=clock,
        events=PlanEvents(recorder, stores),
        enqueue=enqueue,
        published=publisher(domain, catalog),
    )
    traceparent = current_traceparent if outside.tracing.is_on else (lambda: None)
    reconciler = Reconciler(
        stores=stores,
        catalog=catalog,
        snapshots=Snapshots(stores, catalog),
        engine=outside.engine(plan_settings(settings, traceparent=traceparent)),
        executor=executor,
        clock=clock,
        default_interval=settings.default_interval,
        plan_interval=settings.plan_interval,
        gone=domain.forget,
        tracer=tracer,
    )
    controller = Controller(
        CONTROLLER_NAME,
        reconciler.reconcile,
        span_name=SPAN_NAME,
        concurrency=CONCURRENT_PASSES,
        timeout=PASS_TIMEOUT,
        min_interval=reconciler.interval,
        expected_errors=(NotLeaderError,),
        metrics=outside.metrics.controller(CONTROLLER_NAME),
        queue_metrics=outside.metrics.queue(CONTROLLER_NAME),
        tracer=tracer,
    )
    triggers.register(controller, stores, catalog)
    retention = JobRetention(outside.writer, stores, retain=settings.job_retain, surplus=surplus)
    return Leading(controller, executor, retention, stores, domain, outside.reader)


def current_traceparent() -> str | None:
    """The current span as a W3C `traceparent`, which a stage pod goes on with (OBS-4); None outside a sampled trace."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return None
    return f"00-{trace.format_trace_id(context.trace_id)}-{trace.format_span_id(context.span_id)}-01"


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

    def __init__(
        self,
        controller: Controller,
        executor: Executor,
        retention: JobRetention,
        stores: Stores,
        metrics: DomainMetrics,
        reader: Lister,
    ) -> None:
        self._controller = controller
        self._executor = executor
        self._retention = retention
        self._stores = stores
        self._metrics = metrics
        self._reader = reader

    async def run(self) -> None:
        """Plan and write until cancelled; then write the statuses that wait, if the lease still allows it."""
        await catch_up(self._reader, self._stores)
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
            self._metrics.forget_all()


class _Settled:
    """Once the caches are full: what lives now will live long."""

    async def run(self) -> None:
        """Take it out of the garbage collector's sight."""
        settle_garbage_collector()
