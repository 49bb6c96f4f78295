"""Workloads that occupy simulated nodes, for tests of draining: bodies with owners, bound to a node without a scheduler.

Deployments, ReplicaSets and bare pods name the node in their template. A DaemonSet's pods cannot: the controller-manager asks for a node
by affinity, so `create_daemon_set` binds the pod itself.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from controller_runtime.cache import ObjectMeta
from controller_runtime.transport import Client, Resource
from nodewright.simulator.kubelets.pod_view import POD, Pod

Body = dict[str, Any]

RESOURCES = {
    "Pod": POD,
    "ReplicaSet": Resource(group="apps", version="v1", plural="replicasets", kind="ReplicaSet", namespaced=True),
    "Deployment": Resource(group="apps", version="v1", plural="deployments", kind="Deployment", namespaced=True),
    "DaemonSet": Resource(group="apps", version="v1", plural="daemonsets", kind="DaemonSet", namespaced=True),
    "PodDisruptionBudget": Resource(
        group="policy", version="v1", plural="poddisruptionbudgets", kind="PodDisruptionBudget", namespaced=True
    ),
}


class _Items(msgspec.Struct):
    items: list[Pod]


class _Created(msgspec.Struct):
    metadata: ObjectMeta


def bare_pod(name: str, *, namespace: str, node: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Body:
    """A pod that nobody would make again. `spec` is merged over its pod spec (camelCase keys)."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {"app": name})},
        "spec": _pod_spec(node, spec),
    }


def owned_pods(kind: str, name: str, *, namespace: str, node: str, replicas: int = 1, **spec: Any) -> Body:
    """A `Deployment` or `ReplicaSet` (`kind`) whose pods all go to one node; their label is `app: <name>`."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod_spec(node, spec)},
        },
    }


def disruption_budget(name: str, *, namespace: str, labels: Mapping[str, str], min_available: int) -> Body:
    """A PodDisruptionBudget over the pods with these labels."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": dict(labels)}},
    }


async def create(client: Client, *bodies: Body) -> None:
    """Create the objects in this order."""
    for body in bodies:
        await client.create(RESOURCES[body["kind"]], body, namespace=body["metadata"]["namespace"])


async def create_daemon_set(
    client: Client, name: str, *, namespace: str, node: str, timeout_seconds: float = 20.0
) -> str:
    """A DaemonSet for one node, its pod bound there; the pod's name. Raises TimeoutError when no pod comes."""
    labels = {"app": name}
    spec = _pod_spec("", {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [{"operator": "Exists"}]})
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    created = msgspec.json.decode(await client.create(RESOURCES["DaemonSet"], body, namespace=namespace), type=_Created)
    async with asyncio.timeout(timeout_seconds):
        while True:
            raw = await client.list(POD, namespace=namespace, label_selector=f"app={name}")
            for pod in msgspec.json.decode(raw, type=_Items).items:
                if any(owner.uid == created.metadata.uid for owner in pod.metadata.owner_references):
                    target = {"metadata": {"name": pod.metadata.name}, "target": {"kind": "Node", "name": node}}
                    await client.create_subresource(POD, pod.metadata.name, "binding", target, namespace=namespace)
                    return pod.metadata.name
            await asyncio.sleep(0.2)


def _pod_spec(node: str, changes: Mapping[str, Any]) -> Body:
    container = {"name": "app", "image": "registry.example/app:1"}
    return {
        **({"nodeName": node} if node else {}),
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        **changes,
    }
