"""The shell around the pure pod machine: one pod watch, one heap of timers and a few writers for all nodes.

A change of a pod or of time runs `PodRun.advance`, synchronously; when that produced news, the pod's key goes into the write queue, where
changes that come while an earlier write is under way are folded into one, as a kubelet's status manager does. Relies on
`controller_runtime`'s client, informers and work queue. Tests, the playground and the benchmark rely on it.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime

from controller_runtime.cache import Change, Informer
from controller_runtime.clock import Clock, SystemClock
from controller_runtime.queue import Backoff, WorkQueue
from controller_runtime.transport import (
    ApiError,
    Client,
    InternalError,
    ServerTimeout,
    TooManyRequests,
    TransportError,
)
from nodewright.simulator.kubelets.container_run import ContainerRun
from nodewright.simulator.kubelets.node_body import NOT_READY, READY, UNKNOWN, NodeTemplate
from nodewright.simulator.kubelets.nodes import Nodes, SimulatedNode
from nodewright.simulator.kubelets.pod_requests import PodRequests
from nodewright.simulator.kubelets.pod_run import PodRun
from nodewright.simulator.kubelets.pod_status import StatusReport
from nodewright.simulator.kubelets.pod_view import (
    CONFIG_MAP,
    POD,
    ConfigMap,
    Pod,
    labels_of,
    marked_not_ready,
    needed_config_maps,
)
from nodewright.simulator.kubelets.timers import Timers
from nodewright.simulator.kubelets.timing import Cause, Timing
from nodewright.simulator.ledger import Entry, Event, Ledger
from nodewright.simulator.rules import Rule, RuleSet

WRITERS = 16
REGISTRARS = 16
_logger = logging.getLogger(__name__)


class Kubelets:
    """Simulated nodes against any API server.

    `await run()` until cancelled; `await wait_ready()` returns when all first nodes exist. All methods belong to the loop of `run`.
    """

    def __init__(
        self,
        client: Client,
        *,
        nodes: Sequence[str] = (),
        template: NodeTemplate | None = None,
        namespace: str | None = None,
        rules: Iterable[Rule] = (),
        ledger: Ledger | None = None,
        timing: Timing | None = None,
        heartbeat_seconds: float = 10.0,
        lease_seconds: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        """`namespace` None serves the pods of all namespaces. Must be made while the loop runs. Heartbeats of 0 s are off."""
        clock = clock or SystemClock()
        self._first_nodes = tuple(nodes)
        self._template = template or NodeTemplate()
        self._timing = timing or Timing()
        self._rules = RuleSet(tuple(rules))
        self.ledger = ledger or Ledger()
        self._loop = asyncio.get_running_loop()
        self._offset = clock.now().timestamp() - self._loop.time()
        self._nodes = Nodes(
            client, heartbeat_seconds=heartbeat_seconds, lease_seconds=lease_seconds, offset=self._offset
        )
        self._pods = Informer(client, POD, Pod, namespace=namespace, clock=clock)
        self._config_maps = Informer(client, CONFIG_MAP, ConfigMap, namespace=namespace, clock=clock)
        self._pods.store.add_index("node", lambda pod: (pod.spec.node_name,))
        self._pods.store.subscribe(self._pod_changed)
        self._runs: dict[str, PodRun] = {}
        self._reports: dict[str, StatusReport] = {}
        self._finished: set[str] = set()
        self._leftovers: dict[str, Pod] = {}
        """Pods to read live (an earlier kubelet's), or finished ones to delete; by UID."""
        self._attempts: dict[str, int] = {}
        self._timers = Timers(self._fire)
        self._writes = WorkQueue("kubelets", backoff=Backoff(base=0.1, cap=10.0))
        self._ready = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._requests = PodRequests(client)

    # --- control ------------------------------------------------------------------------------------------

    @property
    def patches(self) -> int:
        """Pod status patches sent so far."""
        return self._requests.patches

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules in force; see `set_rules`."""
        return self._rules.rules

    def never_applied(self) -> list[Rule]:
        """The rules in force that concerned nothing so far."""
        return self._rules.never_applied()

    def set_rules(self, rules: Iterable[Rule]) -> None:
        """Other rules for whatever starts from now on; a container that hangs goes on hanging."""
        self._rules.replace(rules)

    async def run(self) -> None:
        """Serve until cancelled. Nothing is deleted at the end: the nodes then look like nodes whose kubelets stopped."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._config_maps.run(), name="configmaps")
                await self._config_maps.wait_synced()
                group.create_task(self._pods.run(), name="pods")
                await self._pods.wait_synced()
                for number in range(WRITERS):
                    group.create_task(self._write(), name=f"pod-status-{number}")
                await self._register_all()
                group.create_task(self._nodes.beat(), name="heartbeats")
                self._ready.set()
        finally:
            self._group = None
            self._timers.close()
            self._writes.shut_down()

    async def wait_ready(self) -> None:
        """Return when the nodes given at the start exist."""
        await self._ready.wait()

    async def add_node(self, name: str, template: NodeTemplate | None = None) -> None:
        """Register another node and take over the pods that are bound to it."""
        node = await self._nodes.register(name, template or self._template)
        for pod in self._pods.store.by_index("node", name):
            self._admit(node, pod)

    async def delete_node(self, name: str) -> None:
        """Delete the Node object; its containers are gone, its pods stay until the cluster collects them."""
        node = await self._nodes.delete(name)
        for uid in list(node.pods):
            self._drop(uid, vanish=True)

    async def down(self, name: str, *, mark_unknown: bool = False) -> None:
        """The kubelet stops: no heartbeats, no pod status, nothing new starts. `mark_unknown` writes what the node controller would."""
        node = self._node(name)
        node.up = False
        if mark_unknown:
            await self._nodes.patch_ready(node, "Unknown", UNKNOWN)

    async def up(self, name: str) -> None:
        """The kubelet runs again on the same boot: containers that ended meanwhile are reported, the next ones start."""
        node = self._node(name)
        await self._nodes.patch_ready(node, "True", READY)
        self._wake(node)

    async def restart_kubelet(self, name: str) -> None:
        """The kubelet process is replaced: Ready goes False and True again, containers run on, the boot ID stays."""
        node = self._node(name)
        node.up = False
        await self._nodes.patch_ready(node, "False", NOT_READY)
        await self.up(name)

    async def reboot(self, name: str, *, seconds: float | None = None) -> None:
        """Containers die at once; after `seconds` (default `Timing.boot_seconds`) the node is back with a new boot ID."""
        node = self._node(name)
        node.up = False
        now = self._loop.time()
        self.ledger.record(Entry(time=now + self._offset, event=Event.REBOOT, node=name))
        for uid in node.pods:
            self._runs[uid].lose_containers(now)
        await asyncio.sleep(self._timing.boot_seconds / self._timing.speed if seconds is None else seconds)
        if self._nodes.get(name) is not node:
            return  # it was deleted while it was away: a machine that is gone does not come back
        await self._persist(lambda: self._nodes.boot(node), f"the boot of {name}")
        self._wake(node)

    # --- pods: events and time ------------------------------------------------------------------------------

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None:
            assert change.old is not None
            self._finished.discard(change.old.metadata.uid)
            self._drop(change.old.metadata.uid, vanish=True)
            return
        node = self._nodes.get(pod.spec.node_name)
        if node is not None:
            self._admit(node, pod)

    def _admit(self, node: SimulatedNode, pod: Pod) -> None:
        uid = pod.metadata.uid
        run = self._runs.get(uid)
        if run is not None:
            if pod.metadata.deletion_timestamp is not None:
                self._stop(run, pod)
            elif marked_not_ready(pod):
                self._reports[uid].repeat_conditions()
                self._writes.add(uid)
        elif uid in self._finished:
            if pod.metadata.deletion_timestamp is not None:
                self._leave(uid, pod)
        elif pod.status.phase in ("Succeeded", "Failed"):
            self._finished.add(uid)
        elif pod.status.start_time is not None:
            self._leave(uid, pod)
        else:
            self._go_on(self._begin(node, pod))

    def _go_on(self, run: PodRun) -> None:
        if run.pod.metadata.deletion_timestamp is not None:
            self._stop(run, run.pod)
        else:
            self._fire(run.uid)

    def _begin(self, node: SimulatedNode, pod: Pod) -> PodRun:
        uid = pod.metadata.uid
        job = labels_of(pod).job
        key = f"{pod.metadata.namespace}/{job}" if job else uid
        earlier = self._attempts.get(key, 0)
        run = PodRun(
            pod,
            decide=self._rules.decide,
            record=self._record,
            timing=self._timing,
            earlier_attempts=earlier,
            offset=self._offset,
        )
        if job:
            self._attempts[key] = earlier + 1
        run.volumes_missing = bool(self._absent(pod))
        self._runs[uid] = run
        self._reports[uid] = StatusReport(run, host_ip=node.address)
        node.pods.add(uid)
        return run

    def _stop(self, run: PodRun, pod: Pod) -> None:
        assert pod.metadata.deletion_timestamp is not None
        now = self._loop.time()
        grace = datetime.fromisoformat(pod.metadata.deletion_timestamp).timestamp() - self._offset - now
        run.deletion_wanted = True
        run.stop(now, Cause.DELETED, grace=max(grace, 0.0))
        self._fire(run.uid)
        if run.ended:
            self._writes.add(run.uid)

    def _leave(self, uid: str, pod: Pod) -> None:
        self._leftovers[uid] = pod
        self._writes.add(uid)

    def _fire(self, uid: str) -> None:
        run = self._runs.get(uid)
        node = None if run is None else self._nodes.get(run.pod.spec.node_name)
        if run is None or node is None or not node.up:
            return
        before = run.revision
        run.advance(self._loop.time())
        if run.revision != before:
            self._writes.add(uid)
        self._timers.set(uid, run.wake_at)
        if run.reboot_wanted:
            run.reboot_wanted = False
            if self._group is not None:
                self._group.create_task(self.reboot(node.name), name=f"reboot-{node.name}")

    def _wake(self, node: SimulatedNode) -> None:
        if self._nodes.get(node.name) is not node:
            return  # deleted meanwhile
        node.up = True
        for pod in self._pods.store.by_index("node", node.name):
            self._admit(node, pod)
        for uid in list(node.pods):
            self._writes.add(uid)
            self._fire(uid)

    def _drop(self, uid: str, *, vanish: bool = False) -> None:
        run = self._runs.pop(uid, None)
        self._leftovers.pop(uid, None)
        if run is None:
            return
        if vanish and not run.ended:
            run.vanish(self._loop.time())
        del self._reports[uid]
        self._timers.drop(uid)
        node = self._nodes.get(run.pod.spec.node_name)
        if node is not None:
            node.pods.discard(uid)
        if run.labels.job:
            key = f"{run.pod.metadata.namespace}/{run.labels.job}"
            self._attempts[key] = max(self._attempts.get(key, 0), run.earlier_attempts + run.attempts)

    # --- pods: writes ------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            uid = (await self._writes.get()).key
            try:
                await self._sync(uid)
                self._writes.forget(uid)
            except (ApiError, TransportError) as error:
                _logger.warning("pod %s: %s", uid, error)
                self._writes.add_rate_limited(uid)
            finally:
                self._writes.done(uid)

    async def _sync(self, uid: str) -> None:
        leftover = self._leftovers.get(uid)
        if leftover is not None:
            await (self._requests.delete(leftover) if uid in self._finished else self._resume(leftover))
            self._leftovers.pop(uid, None)
            return
        run = self._runs.get(uid)
        node = None if run is None else self._nodes.get(run.pod.spec.node_name)
        if run is None or node is None or not node.up:
            return
        revision = run.revision
        if not await self._requests.report(run, self._reports[uid], self._loop.time()) or run.revision != revision:
            return  # gone, or changed meanwhile and therefore in the queue again
        if run.ended:
            if run.deletion_wanted:
                await self._requests.delete(run.pod)
            self._finished.add(uid)
            self._drop(uid)
        elif run.volumes_missing:
            await self._look_for_volumes(run)

    async def _resume(self, pod: Pod) -> None:
        """Go on with a pod of an earlier kubelet process."""
        meta, node = pod.metadata, self._nodes.get(pod.spec.node_name)
        if node is None or not node.up:
            return  # looked at again when the node is up
        live = await self._requests.live(pod)
        if live is None or live.status.start_time is None or meta.uid in self._runs:
            return
        started = datetime.fromisoformat(live.status.start_time).timestamp() - self._offset
        newest = self._pods.store.get(meta.key)  # its deletion may have been told while it was read
        run = self._begin(node, newest if newest is not None and newest.metadata.uid == meta.uid else pod)
        run.resume(live, now=self._loop.time(), acknowledged_at=started)
        self._go_on(run)

    def _absent(self, pod: Pod) -> list[str]:
        namespace, store = pod.metadata.namespace, self._config_maps.store
        return [name for name in needed_config_maps(pod) if f"{namespace}/{name}" not in store]

    async def _look_for_volumes(self, run: PodRun) -> None:
        """The watch may lag: what it does not have is read live before it counts as missing."""
        if await self._requests.any_missing(run.pod.metadata.namespace, self._absent(run.pod)):
            self._writes.add(run.uid, after=self._timing.mount_retry_seconds / self._timing.speed)
            return
        run.volumes_missing = False
        self._fire(run.uid)

    # --- parts -------------------------------------------------------------------------------------------------

    async def _register_all(self) -> None:
        names = iter(self._first_nodes)

        async def register_some() -> None:
            for name in names:
                await self._persist(functools.partial(self.add_node, name), f"registering {name}")

        async with asyncio.TaskGroup() as group:
            for number in range(REGISTRARS):
                group.create_task(register_some(), name=f"register-{number}")

    async def _persist(self, act: Callable[[], Awaitable[None]], what: str) -> None:
        """Try again, each second for a minute, while the server does not answer or fails; then raise."""
        for _ in range(60):
            try:
                await act()
            except (InternalError, ServerTimeout, TooManyRequests, TransportError) as error:
                _logger.warning("%s: %s", what, error)
                await asyncio.sleep(1.0)
            else:
                return
        await act()

    def _node(self, name: str) -> SimulatedNode:
        node = self._nodes.get(name)
        if node is None:
            raise ValueError(f"node {name} is not simulated here")
        return node

    def _record(self, run: PodRun, event: Event, container: ContainerRun | None, outcome: str, at: float) -> None:
        labels, pod = run.labels, run.pod
        self.ledger.record(
            Entry(
                time=at + self._offset,
                event=event,
                node=pod.spec.node_name,
                pod_uid=run.uid,
                pod=pod.metadata.name,
                job=labels.job,
                cr=labels.cr,
                package=labels.package,
                version=labels.version,
                stage=labels.stage,
                run=labels.run,
                container="" if container is None else container.spec.name,
                attempt=run.earlier_attempts + 1 if container is None else container.attempt,
                outcome=outcome,
            )
        )
