"""The node lifecycle controller: silent nodes become Unknown, and taints follow readiness, pressure and cordons.

NoSchedule taints follow each change of a node at once; NoExecute taints are given in the periodic pass, one node of a zone at a time,
fewer in an unhealthy zone, and none (all are even taken back) while no node of the cluster is ready (B145). Relies on `node_health`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from controller_runtime.clock import Clock
from controller_runtime.controller import Controller, Request, Result, object_key
from controller_runtime.transport import PatchType
from nodewright.simulator.controllers import node_health
from nodewright.simulator.controllers.node_health import Pulse, ZoneState
from nodewright.simulator.controllers.picture import Picture
from nodewright.simulator.controllers.requests import LIFE, Requests, retry_backoff
from nodewright.simulator.controllers.settings import ControllerSettings
from nodewright.simulator.controllers.times import stamp
from nodewright.simulator.controllers.views import NODE, POD, Node, Taint, find

LEASES = "kube-node-lease"
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Zone:
    """A failure domain: its state, who waits for a NoExecute taint, and when the next may get it."""

    state: ZoneState | None = None
    interval: float | None = None
    """Seconds between two nodes; None = no node."""
    next_at: datetime | None = None
    waiting: dict[str, None] = field(default_factory=dict)


class NodeController:
    """`run` until cancelled, after the picture is synced."""

    def __init__(self, requests: Requests, picture: Picture, *, settings: ControllerSettings, clock: Clock) -> None:
        self._requests = requests
        self._nodes, self._leases, self._pods = picture.nodes, picture.leases, picture.pods
        self._settings = settings
        self._clock = clock
        self._pulses: dict[str, Pulse] = {}
        """By UID."""
        self._zones: dict[str, _Zone] = {}
        self._controller = Controller(
            "node-taints",
            self._no_schedule,
            concurrency=settings.concurrency,
            backoff=retry_backoff(0.1),
            expected_errors=LIFE,
        )
        self._controller.watches(self._nodes, object_key)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="node-taints")
            group.create_task(self._monitor(), name="node-health")

    async def _no_schedule(self, request: Request) -> Result:
        node = self._nodes.get(request.key)
        taints = None if node is None else node_health.no_schedule_taints(node, self._clock.now())
        if node is not None and taints is not None:
            await self._write_taints(node, taints)
        return Result()

    # --- the periodic pass

    async def _monitor(self) -> None:
        while True:
            await self._clock.sleep(self._settings.node_monitor_seconds)
            await self._pass()

    async def _pass(self) -> None:
        counts: dict[str, Counter[bool]] = {}
        for node in list(self._nodes.values()):
            try:
                ready = await self._check(node)
            except LIFE as error:
                _logger.info("node %s: its health could not be written: %s", node.metadata.name, error)
                ready = node_health.ready_status(node)
            counts.setdefault(node_health.zone_of(node), Counter())[ready == "True"] += 1
        for gone in self._pulses.keys() - {node.metadata.uid for node in self._nodes.values()}:
            del self._pulses[gone]
        await self._rate(counts)
        for zone in self._zones.values():
            await self._next_in(zone)

    async def _check(self, node: Node) -> str | None:
        """Listen for the node's pulse; the status its Ready condition has now."""
        now, name = self._clock.now(), node.metadata.name
        condition = find(node.status.conditions, "Ready")
        lease = self._leases.get(f"{LEASES}/{name}")
        heartbeat = None if condition is None else condition.last_heartbeat_time
        renewal = None if lease is None else lease.spec.renew_time
        pulse = self._pulses.setdefault(node.metadata.uid, Pulse(heartbeat, renewal, now))
        pulse.hear(heartbeat, renewal, now)
        settings = self._settings
        grace = settings.node_startup_grace_seconds if condition is None else settings.node_grace_seconds
        if now - pulse.heard > timedelta(seconds=grace):
            node = await self._declare_silent(node, now) or node
        ready = node_health.ready_status(node)
        if ready == "True":
            self._zone(node).waiting.pop(name, None)
            if node_health.has_no_execute(node):
                await self._write_taints(node, node_health.with_no_execute(node, None, now))
        elif ready is not None:
            await self._want_no_execute(node, now)
        return ready

    async def _declare_silent(self, node: Node, now: datetime) -> Node | None:
        conditions = node_health.unknown_conditions(node, now)
        if not conditions:
            return None
        was_ready = node_health.ready_status(node) == "True"
        body = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": conditions}}
        changed = await self._requests.patch(
            NODE, self._nodes, node.metadata, body, PatchType.STRATEGIC, subresource="status"
        )
        if was_ready:
            for pod in self._pods.by_index("node", node.metadata.name):
                if pod.ready:
                    ready = {"type": "Ready", "status": "False", "lastTransitionTime": stamp(now)}
                    body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [ready]}}
                    await self._requests.patch(
                        POD, self._pods, pod.metadata, body, PatchType.STRATEGIC, subresource="status"
                    )
        return changed

    async def _want_no_execute(self, node: Node, now: datetime) -> None:
        key = node_health.no_execute_key(node)
        if key is None or node_health.has_no_execute(node, (key,)):
            return
        if node_health.has_no_execute(node):  # the other one: exchanged at once
            await self._write_taints(node, node_health.with_no_execute(node, key, now))
        else:
            self._zone(node).waiting[node.metadata.name] = None

    def _zone(self, node: Node) -> _Zone:
        return self._zones.setdefault(
            node_health.zone_of(node), _Zone(interval=self._settings.eviction_interval_seconds)
        )

    async def _rate(self, counts: dict[str, Counter[bool]]) -> None:
        """Set each zone's pace by how much of it is well."""
        share = self._settings.unhealthy_zone_share
        states = {
            name: node_health.zone_state(ready=count[True], not_ready=count[False], unhealthy_share=share)
            for name, count in counts.items()
        }
        for gone in self._zones.keys() - states.keys():
            del self._zones[gone]
        zones = {name: self._zones.setdefault(name, _Zone()) for name in states}
        dark = all(state is ZoneState.FULL for state in states.values())
        was_dark = all(zone.state is ZoneState.FULL for zone in zones.values())
        for name, zone in zones.items():
            zone.interval = self._interval(states[name], counts[name].total(), dark=dark)
            zone.state = states[name]
        now = self._clock.now()
        if dark and not was_dark:
            for node in list(self._nodes.values()):
                self._zone(node).waiting.clear()
                if node_health.has_no_execute(node):
                    await self._write_taints(node, node_health.with_no_execute(node, None, now))
        elif was_dark and not dark:
            for pulse in self._pulses.values():
                pulse.heard = now

    def _interval(self, state: ZoneState, size: int, *, dark: bool) -> float | None:
        usual = self._settings.eviction_interval_seconds
        if dark:
            return None
        if state is ZoneState.PARTIAL:
            return usual * 10 if size > self._settings.large_zone_nodes else None
        return usual

    async def _next_in(self, zone: _Zone) -> None:
        """Taint who waits, as far as the zone's pace allows."""
        now = self._clock.now()
        while zone.interval is not None and zone.waiting and (zone.next_at is None or now >= zone.next_at):
            name = next(iter(zone.waiting))
            node = self._nodes.get(name)
            key = None if node is None else node_health.no_execute_key(node)
            if node is not None and key is not None and not node_health.has_no_execute(node, (key,)):
                try:
                    await self._write_taints(node, node_health.with_no_execute(node, key, now))
                except LIFE as error:
                    _logger.info("node %s: its taint could not be written: %s", name, error)
                    return
                zone.next_at = now + timedelta(seconds=zone.interval)
            del zone.waiting[name]

    async def _write_taints(self, node: Node, taints: Sequence[Taint]) -> None:
        body = {
            "metadata": {
                "uid": node.metadata.uid,
                "resourceVersion": self._nodes.resource_version(node.metadata.key),
            },
            "spec": {"taints": [msgspec.to_builtins(one) for one in taints] or None},
        }
        await self._requests.patch(NODE, self._nodes, node.metadata, body, PatchType.MERGE)
