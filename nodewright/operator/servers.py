"""What the operator tells about itself over HTTP: metrics and probes (OBS-1 to OBS-3), and which numbers a status makes.

Relied on by the wiring. Everything here also runs on a standby: it is ready as soon as its caches are (OBS-3).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from controller_runtime.cache import Informer, Store
from controller_runtime.clock import Clock
from controller_runtime.manager import Manager, Stage
from controller_runtime.observability.authorization import ApiServerAuthorizer
from controller_runtime.observability.health import Health
from controller_runtime.observability.http import HttpServer, metrics_route
from controller_runtime.observability.metrics import RuntimeMetrics
from controller_runtime.transport import Client
from nodewright.model.snapshot import CR, Policy
from nodewright.operator.informers import Informers
from nodewright.operator.metrics import DomainMetrics
from nodewright.operator.settings import Settings
from nodewright.operator.snapshots import Catalog


@dataclass(frozen=True, slots=True)
class _NamedCache:
    """An informer under the operator's name for it: two of them watch ConfigMaps."""

    resource: str
    informer: Informer[Any]

    @property
    def counts(self) -> Mapping[str, int]:
        return self.informer.counts

    @property
    def store(self) -> Store[Any]:
        return self.informer.store

    @property
    def last_progress(self) -> float:
        return self.informer.last_progress


def add_servers(
    manager: Manager, settings: Settings, metrics: RuntimeMetrics, informers: Informers, reader: Client, clock: Clock
) -> None:
    """Serve what the settings ask for."""
    for name, informer in informers.by_name.items():
        metrics.watch_cache(_NamedCache(name, informer))
    if settings.probe_address is not None:
        probes = _health(manager, informers).routes()
        address = settings.probe_address
        manager.add(HttpServer("probes", address.host, address.port, probes), Stage.HTTP, name="probes")
    if settings.metrics_address is not None:
        manager.add(_metrics_server(settings, metrics, reader, clock), Stage.HTTP, name="metrics")


def _metrics_server(settings: Settings, metrics: RuntimeMetrics, reader: Client, clock: Clock) -> HttpServer:
    address = settings.metrics_address
    assert address is not None
    if not settings.metrics_secure:
        return HttpServer("metrics", address.host, address.port, [metrics_route(metrics.render)])
    from controller_runtime.observability.tls import self_signed_context  # 16 MiB that only HTTPS pays for

    route = metrics_route(metrics.render, authorizer=ApiServerAuthorizer(reader, clock=clock))
    tls = self_signed_context(f"nodewright-operator-metrics.{settings.namespace}.svc")
    return HttpServer("metrics", address.host, address.port, [route], tls=tls)


def _health(manager: Manager, informers: Informers) -> Health:
    health = Health()
    health.add_readiness("stopping", lambda: "the process is stopping" if manager.is_stopping else None)
    for name, informer in informers.by_name.items():
        health.add_readiness(f"watch-{name}".replace(" ", "-"), partial(_listed, informer.store))
    # Liveness is that the loop answers: an API server that is away is no reason for a restart (CON-26).
    return health


def _listed(store: Store[Any]) -> str | None:
    return None if store.synced else "not listed yet"


def publisher(metrics: DomainMetrics, catalog: Catalog) -> Callable[[str, Mapping[str, Any]], None]:
    """What turns a built status into numbers, with the names that only the CR and its policy know."""

    def publish(name: str, status: Mapping[str, Any]) -> None:
        cr = catalog.cr(name)
        policy = _policy_of(cr, catalog)
        metrics.publish(
            name, status, policy_name=policy.name if policy is not None else "", strategies=_strategies(policy)
        )

    return publish


def _policy_of(cr: CR | None, catalog: Catalog) -> Policy | None:
    named = cr.spec.deployment_policy if cr is not None and cr.spec is not None else ""
    return catalog.policies().get(named) if named else None


def _strategies(policy: Policy | None) -> dict[str, str]:
    """Each compartment's kind of strategy."""
    if policy is None or policy.spec is None:
        return {}
    default = policy.spec.default
    own = {each.name: each.strategy for each in policy.spec.compartments}
    fallback = default.strategy if default is not None else None
    named = {name: strategy or fallback for name, strategy in own.items()} | {"__default__": fallback}
    return {
        name: strategy.kind.value
        for name, strategy in named.items()
        if strategy is not None and strategy.kind is not None
    }
