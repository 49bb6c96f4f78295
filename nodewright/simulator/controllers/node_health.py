"""What a node's conditions mean for its taints, and when silence makes them Unknown. Pure; `nodes` writes it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from nodewright.simulator.controllers.times import stamp
from nodewright.simulator.controllers.views import Node, Taint, find

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"

_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_OWN = frozenset([*_TAINTS.values(), UNSCHEDULABLE])
_FROM_KUBELET = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class ZoneState(Enum):
    """How much of a zone is well."""

    NORMAL = auto()
    PARTIAL = auto()
    FULL = auto()
    """No node is ready."""


@dataclass(slots=True)
class Pulse:
    """When a node was last heard of, by the controller's own clock."""

    heartbeat: str | None
    renewal: str | None
    heard: datetime

    def hear(self, heartbeat: str | None, renewal: str | None, now: datetime) -> None:
        """Take in what node and lease say now."""
        if heartbeat != self.heartbeat or (renewal is not None and renewal != self.renewal):
            self.heard = now
        self.heartbeat, self.renewal = heartbeat, renewal


def ready_status(node: Node) -> str | None:
    """The status of its Ready condition; None without one."""
    condition = find(node.status.conditions, "Ready")
    return None if condition is None else condition.status


def unknown_conditions(node: Node, now: datetime) -> list[dict[str, str | None]]:
    """The conditions to write for a node that fell silent; empty when they say so already."""
    bodies: list[dict[str, str | None]] = []
    for type_ in _FROM_KUBELET:
        old = find(node.status.conditions, type_)
        if old is not None and old.status == "Unknown":
            continue
        body = {"type": type_, "status": "Unknown", "lastTransitionTime": stamp(now)}
        if old is None:
            never = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            bodies.append({**body, **never, "lastHeartbeatTime": node.metadata.creation_timestamp})
        else:
            stopped = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            bodies.append({**body, **stopped})
    return bodies


def no_schedule_taints(node: Node, now: datetime) -> tuple[Taint, ...] | None:
    """All taints as they should be, by conditions and cordon; None when they are. Others' taints stay."""
    wanted = {_TAINTS[key]: None for one in node.status.conditions if (key := (one.type, one.status)) in _TAINTS}
    if node.spec.unschedulable:
        wanted[UNSCHEDULABLE] = None
    has = {one.key for one in node.spec.taints if one.effect == NO_SCHEDULE and one.key in _OWN}
    if has == wanted.keys():
        return None
    keep = [one for one in node.spec.taints if one.effect != NO_SCHEDULE or one.key not in _OWN or one.key in wanted]
    new = [Taint(key=key, effect=NO_SCHEDULE, time_added=stamp(now)) for key in wanted if key not in has]
    return (*keep, *new)


def no_execute_key(node: Node) -> str | None:
    """The key of the NoExecute taint its readiness asks for; `not-ready` and `unreachable` exclude each other."""
    return _TAINTS.get(("Ready", ready_status(node) or ""))


def has_no_execute(node: Node, keys: Iterable[str] = (NOT_READY, UNREACHABLE)) -> bool:
    """Whether it has one of these NoExecute taints."""
    wanted = set(keys)
    return any(one.effect == NO_EXECUTE and one.key in wanted for one in node.spec.taints)


def with_no_execute(node: Node, key: str | None, now: datetime) -> tuple[Taint, ...]:
    """All taints, with exactly this one of the two NoExecute taints, or none."""
    keep = [
        one
        for one in node.spec.taints
        if one.effect != NO_EXECUTE or one.key not in (NOT_READY, UNREACHABLE) or one.key == key
    ]
    if key is None or any(one.key == key and one.effect == NO_EXECUTE for one in keep):
        return tuple(keep)
    return (*keep, Taint(key=key, effect=NO_EXECUTE, time_added=stamp(now)))


def zone_of(node: Node) -> str:
    """The failure domain it is in; empty for none."""
    labels = node.metadata.labels
    zone = (labels.get(f"topology.kubernetes.io/{key}", "") for key in ("region", "zone"))
    return ":".join(zone).strip(":")


def zone_state(*, ready: int, not_ready: int, unhealthy_share: float) -> ZoneState:
    """How a zone is; up to two nodes that are not ready are never a disruption unless they are all."""
    if ready == 0 and not_ready > 0:
        return ZoneState.FULL
    if not_ready > 2 and not_ready / (ready + not_ready) >= unhealthy_share:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL
