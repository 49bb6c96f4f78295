"""Pod garbage collection: pods on nodes that are gone, on nodes out of service, that were never bound, and too many finished ones."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from controller_runtime.clock import Clock
from controller_runtime.transport import NotFound, PatchType
from nodewright.simulator.controllers.node_health import OUT_OF_SERVICE, ready_status
from nodewright.simulator.controllers.picture import Picture
from nodewright.simulator.controllers.requests import LIFE, Requests
from nodewright.simulator.controllers.settings import ControllerSettings
from nodewright.simulator.controllers.times import stamp
from nodewright.simulator.controllers.views import NODE, POD, Pod

_logger = logging.getLogger(__name__)


def surplus(pods: Iterable[Pod], limit: int) -> list[Pod]:
    """The finished pods above the limit: evicted ones first, then the oldest. A limit of 0 is none."""
    finished = [pod for pod in pods if pod.finished]
    if limit <= 0 or len(finished) <= limit:
        return []
    finished.sort(
        key=lambda pod: (pod.status.reason != "Evicted", pod.metadata.creation_timestamp or "", pod.metadata.name)
    )
    return finished[: len(finished) - limit]


class Quarantine:
    """Nodes that pods name and nobody knows, and since when."""

    def __init__(self, seconds: float) -> None:
        self._delay = timedelta(seconds=seconds)
        self._since: dict[str, datetime] = {}

    def over(self, missing: Iterable[str], now: datetime) -> list[str]:
        """Those that have been missing for long enough; one that came back starts afresh."""
        names = set(missing)
        self._since = {name: self._since.get(name, now) for name in sorted(names)}
        return [name for name, since in self._since.items() if now - since >= self._delay]


class PodGarbageCollector:
    """`run` until cancelled, after the picture is synced."""

    def __init__(self, requests: Requests, picture: Picture, *, settings: ControllerSettings, clock: Clock) -> None:
        self._requests = requests
        self._nodes, self._pods = picture.nodes, picture.pods
        self._settings = settings
        self._clock = clock
        self._quarantine = Quarantine(settings.vanished_node_seconds)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            for pod, because in await self._unwanted():
                try:
                    await self._remove(pod, because)
                except LIFE as error:
                    _logger.info("pod %s could not be removed: %s", pod.metadata.key, error)
            await self._clock.sleep(self._settings.pod_garbage_seconds)

    async def _unwanted(self) -> list[tuple[Pod, str]]:
        """Each with the message of its `DisruptionTarget` condition, or none."""
        found = [(pod, "") for pod in surplus(self._pods.values(), self._settings.finished_pods)]
        for pod in self._pods.values():
            if pod.metadata.deletion_timestamp is None:
                continue
            node = self._nodes.get(pod.spec.node_name)
            out = node is not None and any(one.key == OUT_OF_SERVICE for one in node.spec.taints)
            if not pod.spec.node_name or (node is not None and out and ready_status(node) != "True"):
                found.append((pod, ""))
        missing = [name for name in self._pods.index_values("node") if name not in self._nodes]
        for name in self._quarantine.over(missing, self._clock.now()):
            if not await self._exists(name):
                found += [(pod, "PodGC: node no longer exists") for pod in self._pods.by_index("node", name)]
        return found

    async def _exists(self, node: str) -> bool:
        try:
            await self._requests.client.get(NODE, node)
        except NotFound:
            return False
        except LIFE:
            return True
        return True

    async def _remove(self, pod: Pod, because: str) -> None:
        if not pod.finished:
            status: dict[str, object] = {"phase": "Failed"}
            if because:
                condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
                time = stamp(self._clock.now())
                status["conditions"] = [{**condition, "message": because, "lastTransitionTime": time}]
            body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
            await self._requests.patch(POD, self._pods, pod.metadata, body, PatchType.STRATEGIC, subresource="status")
        await self._requests.delete(POD, self._pods, pod.metadata, grace_period_seconds=0)
