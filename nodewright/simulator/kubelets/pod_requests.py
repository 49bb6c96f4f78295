"""What a kubelet asks of the API server about its pods. Relied on by the shell, which decides when."""

import contextlib
from collections.abc import Iterable

import msgspec

from controller_runtime.transport import ApiError, Client, Conflict, NotFound, PatchType, TransportError
from nodewright.simulator.kubelets.pod_run import PodRun
from nodewright.simulator.kubelets.pod_status import StatusReport
from nodewright.simulator.kubelets.pod_view import CONFIG_MAP, POD, LivePod, Pod


class PodRequests:
    """Status patches, final deletions, live reads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.patches = 0
        """Status patches sent so far."""

    async def report(self, run: PodRun, report: StatusReport, now: float) -> bool:
        """Write the news of a pod, if there are any; False when the pod is gone.

        After an ApiError or TransportError the next report says everything again.
        """
        body = report.patch(now)
        if body is None:
            return True
        meta = run.pod.metadata
        self.patches += 1
        try:
            await self._client.patch(
                POD, meta.name, body, PatchType.STRATEGIC, namespace=meta.namespace, subresource="status"
            )
        except (NotFound, Conflict):  # gone, or another pod of that name: the watch will tell
            return False
        except (ApiError, TransportError):
            report.forget()
            raise
        return True

    async def delete(self, pod: Pod) -> None:
        """The last step of a deletion: nothing of the pod is left on the node."""
        meta = pod.metadata
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(POD, meta.name, namespace=meta.namespace, uid=meta.uid, grace_period_seconds=0)

    async def live(self, pod: Pod) -> LivePod | None:
        """The pod with the status some kubelet wrote; None when it is gone."""
        meta = pod.metadata
        try:
            found = msgspec.json.decode(await self._client.get(POD, meta.name, namespace=meta.namespace), type=LivePod)
        except NotFound:
            return None
        return found if found.metadata.uid == meta.uid else None

    async def any_missing(self, namespace: str, names: Iterable[str]) -> bool:
        """Whether one of these ConfigMaps does not exist."""
        for name in names:
            try:
                await self._client.get(CONFIG_MAP, name, namespace=namespace)
            except NotFound:
                return True
        return False
