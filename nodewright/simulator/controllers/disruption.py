"""The disruption controller: keeps PodDisruptionBudgets' numbers true, and takes back disruptions that did not come.

Relies on `budgets` for the numbers. A pod's controller and its replicas are read live, since only few budgets need them.
"""

import asyncio
from datetime import datetime

import msgspec

from controller_runtime.cache import Change
from controller_runtime.clock import Clock
from controller_runtime.controller import Controller, Request, Result
from controller_runtime.transport import NotFound, PatchType, Resource
from nodewright.simulator.controllers.budgets import Numbers, failed, needs_scale, numbers, selects
from nodewright.simulator.controllers.job_bodies import condition_body
from nodewright.simulator.controllers.picture import Picture
from nodewright.simulator.controllers.requests import LIFE, Requests, retry_backoff
from nodewright.simulator.controllers.settings import ControllerSettings
from nodewright.simulator.controllers.times import seconds_since, stamp
from nodewright.simulator.controllers.views import BUDGET, POD, Budget, Meta, Owner, Pod, controller_of, find

_SCALED = {
    ("apps", kind): Resource(group="apps", version="v1", plural=plural, kind=kind, namespaced=True)
    for kind, plural in (("ReplicaSet", "replicasets"), ("Deployment", "deployments"), ("StatefulSet", "statefulsets"))
}
_SCALED["", "ReplicationController"] = Resource(
    group="", version="v1", plural="replicationcontrollers", kind="ReplicationController", namespaced=True
)


class _ScaledSpec(msgspec.Struct):
    replicas: int = 1


class _Scaled(msgspec.Struct):
    metadata: Meta
    spec: _ScaledSpec = msgspec.field(default_factory=_ScaledSpec)


class DisruptionController:
    """`run` until cancelled, after the picture is synced."""

    def __init__(self, requests: Requests, picture: Picture, *, settings: ControllerSettings, clock: Clock) -> None:
        self._requests = requests
        self._budgets, self._pods = picture.budgets, picture.pods
        self._clock = clock
        self._stale_seconds = settings.stale_disruption_seconds
        self._controller = Controller(
            "disruption", self._sync, backoff=retry_backoff(0.1), expected_errors=LIFE, concurrency=1
        )
        self._undisturbed = Controller(
            "stale-disruption", self._take_back, backoff=retry_backoff(0.1), expected_errors=LIFE, concurrency=1
        )
        self._budgets.subscribe(self._budget_changed)
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="disruption")
            group.create_task(self._undisturbed.run(), name="stale-disruption")

    def _budget_changed(self, change: Change[Budget]) -> None:
        if change.new is not None:
            self._controller.queue.add(change.new.metadata.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        if change.new is not None and _stale_after(change.new, self._stale_seconds, self._clock.now()) is not None:
            self._undisturbed.queue.add(change.new.metadata.key)
        pod = change.new or change.old
        assert pod is not None
        for budget in self._budgets.by_index("namespace", pod.metadata.namespace):
            if any(
                one is not None and selects(budget.spec.selector, one.metadata.labels)
                for one in (change.old, change.new)
            ):
                self._controller.queue.add(budget.metadata.key)

    async def _sync(self, request: Request) -> Result:
        budget = self._budgets.get(request.key)
        if budget is None:
            return Result()
        pods = [
            pod
            for pod in self._pods.by_index("namespace", budget.metadata.namespace)
            if selects(budget.spec.selector, pod.metadata.labels)
        ]
        version = self._budgets.resource_version(request.key)
        try:
            scale = await self._scale(pods) if needs_scale(budget) else 0
        except LookupError as error:
            wanted = Numbers(status=failed(budget, str(error), self._clock.now()))
        else:
            wanted = numbers(budget, pods, scale, self._clock.now())
        if wanted.status != budget.status:
            status = wanted.status
            gone = {name: None for name in budget.status.disrupted_pods if name not in status.disrupted_pods}
            body = {
                "metadata": {"uid": budget.metadata.uid, "resourceVersion": version},
                "status": {
                    "observedGeneration": status.observed_generation,
                    "disruptedPods": {**gone, **status.disrupted_pods},
                    "disruptionsAllowed": status.disruptions_allowed,
                    "currentHealthy": status.current_healthy,
                    "desiredHealthy": status.desired_healthy,
                    "expectedPods": status.expected_pods,
                    "conditions": [{"message": "", **condition_body(one)} for one in status.conditions],
                },
            }
            await self._requests.patch(
                BUDGET, self._budgets, budget.metadata, body, PatchType.MERGE, subresource="status"
            )
        return Result(requeue_after=wanted.recheck)

    async def _scale(self, pods: list[Pod]) -> int:
        """The replicas of all controllers of these pods together; unmanaged pods do not count."""
        replicas: dict[str, int] = {}
        seen: set[str] = set()
        for pod in pods:
            owner = controller_of(pod.metadata)
            if owner is not None and owner.uid not in seen:
                seen.add(owner.uid)
                found = await self._scaled(owner, pod.metadata.namespace)
                if found is None:
                    raise LookupError(f"found no controllers for pod {pod.metadata.name!r}")
                replicas[found.metadata.uid] = found.spec.replicas
        return sum(replicas.values())

    async def _scaled(self, owner: Owner, namespace: str) -> _Scaled | None:
        resource = _SCALED.get((owner.api_version.rpartition("/")[0], owner.kind))
        if resource is None:
            return None
        try:
            raw = await self._requests.client.get(resource, owner.name, namespace=namespace)
        except NotFound:
            return None
        found = msgspec.json.decode(raw, type=_Scaled)
        if found.metadata.uid != owner.uid:
            return None
        above = controller_of(found.metadata)
        if owner.kind == "ReplicaSet" and above is not None and above.kind == "Deployment":
            return await self._scaled(above, namespace) or found
        return found

    async def _take_back(self, request: Request) -> Result:
        pod = self._pods.get(request.key)
        left = None if pod is None else _stale_after(pod, self._stale_seconds, self._clock.now())
        if pod is None or left is None:
            return Result()
        if left > 0:
            return Result(requeue_after=left)
        time = stamp(self._clock.now())
        condition = {
            "type": "DisruptionTarget",
            "status": "False",
            "lastTransitionTime": time,
            "reason": None,
            "message": None,
        }
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        await self._requests.patch(POD, self._pods, pod.metadata, body, PatchType.STRATEGIC, subresource="status")
        return Result()


def _stale_after(pod: Pod, seconds: float, now: datetime) -> float | None:
    """Until a `DisruptionTarget` that no deletion followed is taken back; None where there is none. A kubelet's own stays."""
    condition = find(pod.status.conditions, "DisruptionTarget")
    if condition is None or condition.status != "True" or not pod.active:
        return None
    if condition.reason == "TerminationByKubelet":
        return None
    return max(0.0, seconds - seconds_since(condition.last_transition_time, now))
