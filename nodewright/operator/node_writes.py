"""Writes to Nodes: the one merged patch of our own keys (CON-11), and our two conditions (CON-8). Relied on by the executor."""

import logging
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from controller_runtime.clock import Clock
from controller_runtime.transport import BadRequest, InternalError, Invalid, PatchType
from nodewright.api import keys
from nodewright.model.objects import Job, Node
from nodewright.model.plan import NodeCondition, NodePlan
from nodewright.operator import node_patch, resources
from nodewright.operator.cluster import Cluster, Stale, Target
from nodewright.operator.informers import Stores
from nodewright.operator.memory import Tally

_log = logging.getLogger(__name__)


class NodeWrites:
    """Patches nodes and their conditions."""

    def __init__(self, cluster: Cluster, stores: Stores, clock: Clock) -> None:
        self._cluster = cluster
        self._stores = stores
        self._clock = clock

    async def patch(self, plan: NodePlan, tally: Tally) -> bool:
        """Write the node's merged patch if the node's keys are still what the plan saw; whether its conditions went with it.

        The status subresource of a Node takes labels and annotations too (not the spec), so keys and conditions are one request
        where they can be: a node's requests are what a rollout costs.

        Raises:
            Stale: they are not, or the node is gone or another one; the picture was refreshed (trap 35).
            Invalid: the tests hold on the live node, so the patch itself is wrong.
            ApiError, TransportError: anything else.
        """
        if plan.patch is None:
            return False
        target = self._target(plan.node)
        sent = node_patch.operations(plan.node, plan.patch, resource_version=self._version(plan.node))
        if not sent:
            return False
        conditions = self._with_patch(plan)
        tally.writes += 1
        try:
            if conditions:
                await self._cluster.patch(target, [*sent, *conditions], PatchType.JSON, subresource="status")
                return True
            await self._cluster.patch(target, sent, PatchType.JSON)
        except Invalid as error:
            # A failed test and a wrong patch are answered alike: only the live node tells them apart.
            live = await self._cluster.refresh(target)
            if live is None or _operations(live, plan, self._version(live)) != sent or _moved(live, plan):
                raise Stale(str(error)) from error
            if not conditions:
                raise
            # Not the keys, then: the conditions have a way of their own out of a list that no patch is accepted for.
            tally.writes += 1
            await self._cluster.patch(target, sent, PatchType.JSON)
        return False

    def _with_patch(self, plan: NodePlan) -> list[node_patch.Operation]:
        """The conditions as part of the node's patch; none when they cannot be."""
        patch = plan.patch
        if patch is None or patch.unschedulable is not None or not plan.conditions:
            return []
        present = {condition.type: condition for condition in plan.node.status.conditions}
        first = [each for each in plan.conditions if each.type not in present]
        untouched = any(
            key.startswith(keys.STATUS_PREFIX) and key not in plan.node.metadata.annotations
            for key in patch.annotations
        )
        if first and not untouched:
            return []
        entries = [self._entry(condition, present.get(condition.type)) for condition in plan.conditions]
        return node_patch.condition_operations(plan.node, entries) or []

    async def confirm(self, plan: NodePlan) -> None:
        """Read the node live: what is to be deleted for what the node says must not go because of an old picture (LIF-2).

        A patch proves only the keys it changes, and a new leader's picture of a node may be older than that of its Jobs.

        Raises:
            Stale: the node does not read as the plan saw it, or is gone; the picture was refreshed.
            ApiError, TransportError: anything else.
        """
        if await self._cluster.refresh(self._target(plan.node)) is not plan.node:
            raise Stale(f"node {plan.node.name} is not any more as it was planned for")

    async def confirm_gone(self, job: Job) -> None:
        """Read live that the node a Job is labelled for is gone (JOB-11); a label that is no node's name says nothing.

        Raises:
            Stale: the node is there; the picture was refreshed.
            ApiError, TransportError: anything else.
        """
        name = job.metadata.labels.get(keys.LABEL_NODE)
        if name and await self._cluster.refresh(Target(resources.NODE, self._stores.nodes, name)) is not None:
            raise Stale(f"node {name} of Job {job.metadata.name} is there")

    async def conditions(self, plan: NodePlan, tally: Tally) -> None:
        """Write our conditions, one entry per type, by strategic merge patch with the node's UID.

        A node whose own list is in a state that no such patch is accepted for (duplicate types, B146) gets its whole list, as read
        live and without duplicates, under a test of its resourceVersion.
        """
        if not plan.conditions:
            return
        target = self._target(plan.node)
        wanted = {condition.type: condition for condition in plan.conditions}
        present = {condition.type: condition for condition in plan.node.status.conditions}
        entries = [self._entry(condition, present.get(name)) for name, condition in wanted.items()]
        body = {"metadata": {"uid": plan.node.metadata.uid}, "status": {"conditions": entries}}
        tally.writes += 1
        try:
            await self._cluster.patch(target, body, PatchType.STRATEGIC, subresource="status")
        except (Invalid, BadRequest, InternalError) as error:
            _log.warning(
                "conditions of node %s: %s; its list is written as a whole",
                plan.node.name,
                error,
                extra={"node": plan.node.name},
            )
            tally.writes += 1
            await self._rewrite_conditions(target, wanted)

    async def _rewrite_conditions(self, target: Target[Node], wanted: dict[str, NodeCondition]) -> None:
        raw = await self._cluster.client.get(resources.NODE, target.name)
        live: dict[str, Any] = msgspec.json.decode(raw)
        by_type: dict[str, dict[str, Any]] = {}
        for entry in live.get("status", {}).get("conditions") or []:
            by_type[entry["type"]] = entry
        for name, condition in wanted.items():
            if condition.status is None:
                by_type.pop(name, None)
            else:
                by_type[name] = self._entry(condition, None)
        body = [
            {"op": "test", "path": "/metadata/uid", "value": target.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
            {"op": "add", "path": "/status/conditions", "value": list(by_type.values())},
        ]
        await self._cluster.patch(target, body, PatchType.JSON, subresource="status")

    def _entry(self, condition: NodeCondition, present: Any) -> dict[str, Any]:
        if condition.status is None:
            return {"type": condition.type, "$patch": "delete"}
        now = timestamp(self._clock.now())
        same = present is not None and present.status == condition.status and present.last_transition_time
        return {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": present.last_transition_time if same else now,
            "lastHeartbeatTime": now,
        }

    def _target(self, node: Node) -> Target[Node]:
        return Target(resources.NODE, self._stores.nodes, node.metadata.name, node.metadata.uid)

    def _version(self, node: Node) -> str:
        """The newest version at which the node still reads as `node` does: heartbeats raise it without changing what we read."""
        held = self._stores.nodes.get(node.metadata.name)
        newest = self._stores.nodes.resource_version(node.metadata.name) if held is node else None
        return newest or node.metadata.resource_version


def _moved(live: Node, plan: NodePlan) -> bool:
    """Whether the node's list of conditions has other places than the plan saw."""
    return [each.type for each in live.status.conditions] != [each.type for each in plan.node.status.conditions]


def _operations(node: Node, plan: NodePlan, version: str) -> list[node_patch.Operation]:
    assert plan.patch is not None
    return node_patch.operations(node, plan.patch, resource_version=version)


_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"


def timestamp(moment: datetime) -> str:
    """RFC 3339 in whole seconds, as `metav1.Time` has it."""
    return moment.astimezone(UTC).strftime(_FORMAT)
