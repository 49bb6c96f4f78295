"""The Node object of a simulated node: what its kubelet registers, and the patches it sends afterwards. Pure."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nodewright.simulator.kubelets.container_run import timestamp

_encode = msgspec.json.Encoder().encode

READY = ("KubeletReady", "kubelet is posting ready status")
NOT_READY = ("KubeletNotReady", "container runtime is down")
UNKNOWN = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTemplate:
    """What a node is like. Labels and taints may be changed by anybody later: the kubelet sets them only when it registers."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    capacity: Mapping[str, str] = field(
        default_factory=lambda: {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    )
    kubelet_version: str = "v1.36.3"


def new_boot_id() -> str:
    """A fresh boot ID."""
    return str(uuid.uuid4())


def address_of(index: int) -> str:
    """An IP address for the node of that number, out of 10.64.0.0/10."""
    number = index + 1
    return f"10.{64 + (number >> 16) % 64}.{(number >> 8) & 255}.{number & 255}"


def registration(name: str, template: NodeTemplate, *, boot_id: str, address: str, now: float) -> dict[str, Any]:
    """The body of the kubelet's POST; `now` is Unix time."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **template.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": dict(template.annotations)},
        "spec": {"taints": [dict(taint) for taint in template.taints]},
        "status": {
            "capacity": dict(template.capacity),
            "allocatable": dict(template.capacity),
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": boot_id,
                "containerRuntimeVersion": "containerd://2.0.0",
                "kernelVersion": "6.8.0",
                "kubeProxyVersion": "",
                "kubeletVersion": template.kubelet_version,
                "machineID": uuid.uuid5(uuid.NAMESPACE_DNS, name).hex,
                "operatingSystem": "linux",
                "osImage": "Simulated",
                "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
            },
            "conditions": [
                *_pressures(timestamp(now), first=True),
                ready_condition("True", READY, now=now, changed=True),
            ],
        },
    }


def ready_condition(status: str, why: tuple[str, str], *, now: float, changed: bool) -> dict[str, Any]:
    """The Ready condition; `changed` sets its transition time too."""
    stamp = timestamp(now)
    body = {"type": "Ready", "status": status, "lastHeartbeatTime": stamp, "reason": why[0], "message": why[1]}
    if changed:
        body["lastTransitionTime"] = stamp
    return body


def heartbeat(now: float) -> bytes:
    """The strategic merge patch of a status whose only news is that the kubelet lives; the same for all nodes in one second."""
    stamp = timestamp(now)
    types = [*(name for name, _, _ in PRESSURES), "Ready"]
    return _encode({"status": {"conditions": [{"type": name, "lastHeartbeatTime": stamp} for name in types]}})


def status_patch(status: str, why: tuple[str, str], *, now: float, boot_id: str | None = None) -> bytes:
    """The strategic merge patch of a kubelet that changes its readiness, or tells of a new boot."""
    body: dict[str, Any] = {"conditions": [ready_condition(status, why, now=now, changed=True)]}
    if boot_id is not None:
        body["nodeInfo"] = {"bootID": boot_id}
    return _encode({"status": body})


def _pressures(stamp: str, *, first: bool) -> list[dict[str, Any]]:
    times = {"lastHeartbeatTime": stamp, **({"lastTransitionTime": stamp} if first else {})}
    return [{"type": name, "status": "False", "reason": why, "message": text, **times} for name, why, text in PRESSURES]
