"""Taint eviction: pods that do not bear their node's NoExecute taints go, at once or when their `tolerationSeconds` are over."""

from collections.abc import Sequence

from controller_runtime.cache import Change
from controller_runtime.clock import Clock
from controller_runtime.controller import Controller, Request, Result
from controller_runtime.transport import PatchType
from nodewright.simulator.controllers.node_health import NO_EXECUTE
from nodewright.simulator.controllers.picture import Picture
from nodewright.simulator.controllers.requests import LIFE, Requests, retry_backoff
from nodewright.simulator.controllers.settings import ControllerSettings
from nodewright.simulator.controllers.times import stamp
from nodewright.simulator.controllers.views import POD, Node, Pod, Taint, Toleration


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def borne_for(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> float | None:
    """For how many seconds a pod bears its node's taints; None = for good. The first toleration that covers a taint counts."""
    shortest: float | None = None
    for taint in taints:
        if taint.effect != NO_EXECUTE:
            continue
        found = next((one for one in tolerations if tolerates(one, taint)), None)
        if found is None:
            return 0.0
        if found.toleration_seconds is not None:
            seconds = max(0.0, float(found.toleration_seconds))
            shortest = seconds if shortest is None else min(shortest, seconds)
    return shortest


class TaintEviction:
    """`run` until cancelled, after the picture is synced. A pod is evicted once; its time runs from when it was first to go."""

    def __init__(self, requests: Requests, picture: Picture, *, settings: ControllerSettings, clock: Clock) -> None:
        self._requests = requests
        self._nodes, self._pods = picture.nodes, picture.pods
        self._clock = clock
        self._leaves_at: dict[str, float] = {}
        """By UID of the pod, by the monotonic clock."""
        self._evicted: set[str] = set()
        self._controller = Controller(
            "taint-eviction",
            self._sync,
            concurrency=settings.concurrency,
            backoff=retry_backoff(0.01),
            expected_errors=LIFE,
        )
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _node_changed(self, change: Change[Node]) -> None:
        old, new = _no_execute(change.old), _no_execute(change.new)
        node = change.new or change.old
        if old != new and node is not None:
            for pod in self._pods.by_index("node", node.metadata.name):
                self._controller.queue.add(pod.metadata.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None:
            assert change.old is not None
            self._leaves_at.pop(change.old.metadata.uid, None)
            self._evicted.discard(change.old.metadata.uid)
        elif _no_execute(self._nodes.get(pod.spec.node_name)) and not self._known(change.old, pod):
            self._controller.queue.add(pod.metadata.key)

    def _known(self, old: Pod | None, new: Pod) -> bool:
        return old is not None and old.spec == new.spec and new.metadata.uid in self._leaves_at

    async def _sync(self, request: Request) -> Result:
        pod = self._pods.get(request.key)
        if pod is None:
            return Result()
        uid, now = pod.metadata.uid, self._clock.monotonic()
        borne = borne_for(pod.spec.tolerations, _no_execute(self._nodes.get(pod.spec.node_name)))
        if borne is None:
            self._leaves_at.pop(uid, None)
            self._evicted.discard(uid)
            return Result()
        leaves_at = now if borne == 0 else self._leaves_at.setdefault(uid, now + borne)
        if uid in self._evicted:
            return Result()
        if leaves_at > now:
            return Result(requeue_after=leaves_at - now)
        await self._evict(pod)
        self._evicted.add(uid)
        return Result()

    async def _evict(self, pod: Pod) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": stamp(self._clock.now()),
        }
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        await self._requests.patch(POD, self._pods, pod.metadata, body, PatchType.STRATEGIC, subresource="status")
        await self._requests.delete(POD, self._pods, pod.metadata)


def _no_execute(node: Node | None) -> tuple[Taint, ...]:
    return () if node is None else tuple(one for one in node.spec.taints if one.effect == NO_EXECUTE)
