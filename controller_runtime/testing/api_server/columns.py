"""The columns of Kubernetes' own kinds, as its printers have them. Relies on nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controller_runtime.testing.api_server.values import Object

Reader = Callable[[Object, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; those of priority 1 are shown with `-o wide` only."""

    title: str
    read: Reader
    type: str = "string"
    priority: int = 0
    description: str = ""


def human_duration(since: str | None, now: datetime) -> str:
    """The time since then, as Kubernetes rounds it: `42s`, `5m12s`, `3h`, `12d`."""
    if not since:
        return "<unknown>"
    return _human((now - datetime.fromisoformat(since)).total_seconds())


def _human(passed: float) -> str:
    seconds = int(passed)
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    return f"{years}y{days % 365}d" if days < 365 * 8 and days % 365 else f"{years}y"


def _at(*path: str, default: Any = "") -> Reader:
    def read(item: Object, now: datetime) -> Any:
        found: Any = item
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        return default if found is None else found

    return read


def _count(*path: str) -> Reader:
    read = _at(*path)
    return lambda item, now: len(read(item, now) or ())


def _since(*path: str) -> Reader:
    read = _at(*path)
    return lambda item, now: human_duration(read(item, now) or None, now)


def _ratio(done: Reader, of: Reader) -> Reader:
    return lambda item, now: f"{done(item, now)}/{of(item, now)}"


def _wide(title: str, read: Reader) -> Column:
    return Column(title, read, priority=1)


def _conditions(item: Object) -> Mapping[str, str]:
    return {entry["type"]: entry["status"] for entry in item.get("status", {}).get("conditions") or ()}


# --- pods -----------------------------------------------------------------------------------------------------------


def _pod_ready(item: Object, now: datetime) -> str:
    statuses = item.get("status", {}).get("containerStatuses") or ()
    ready = sum(1 for entry in statuses if entry.get("ready"))
    return f"{ready}/{len(item['spec'].get('containers') or ())}"


def _pod_status(item: Object, now: datetime) -> str:
    status = item.get("status", {})
    reason = str(status.get("reason") or status.get("phase") or "Unknown")
    for entry in status.get("containerStatuses") or ():
        state = entry.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = str(waiting["reason"])
        elif terminated is not None:
            reason = str(terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}")
    if item["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _pod_restarts(item: Object, now: datetime) -> str:
    statuses = item.get("status", {}).get("containerStatuses") or ()
    return str(sum(int(entry.get("restartCount") or 0) for entry in statuses))


# --- nodes ----------------------------------------------------------------------------------------------------------


def _node_status(item: Object, now: datetime) -> str:
    ready = _conditions(item).get("Ready")
    said = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{said},SchedulingDisabled" if item.get("spec", {}).get("unschedulable") else said


def _node_roles(item: Object, now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = item["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix)
    return ",".join(roles) or "<none>"


# --- jobs -----------------------------------------------------------------------------------------------------------


def _job_status(item: Object, now: datetime) -> str:
    conditions = _conditions(item)
    for kind in ("Complete", "Failed"):
        if conditions.get(kind) == "True":
            return kind
    if item["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if conditions.get(kind) == "True":
            return kind
    return "Running"


def _job_completions(item: Object, now: datetime) -> str:
    done, wanted = item.get("status", {}).get("succeeded") or 0, item["spec"].get("completions")
    return f"{done}/{wanted if wanted is not None else '1'}"


def _job_duration(item: Object, now: datetime) -> str:
    status = item.get("status", {})
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    return human_duration(status["startTime"], datetime.fromisoformat(end) if end else now.astimezone(UTC))


# --- events and others ----------------------------------------------------------------------------------------------


def _about(item: Object, now: datetime) -> str:
    about = item.get("involvedObject") or item.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _last_seen(item: Object, now: datetime) -> str:
    series = item.get("series") or {}
    for moment in (series.get("lastObservedTime"), item.get("lastTimestamp"), item.get("eventTime")):
        if moment:
            return human_duration(moment, now)
    return human_duration(item.get("deprecatedLastTimestamp"), now)


def _role(item: Object, now: datetime) -> str:
    reference = item.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


name = Column("Name", _at("metadata", "name"))
age = Column("Age", _since("metadata", "creationTimestamp"))
age_of_custom = Column("Age", age.read, type="date")
_created = Column("Created At", _at("metadata", "creationTimestamp"), type="date")
_replicas = _at("spec", "replicas", default=1)
_ready = _at("status", "readyReplicas", default=0)
_none = "<none>"

COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "ConfigMap": (name, Column("Data", _count("data"), type="integer"), age),
    "Secret": (name, Column("Type", _at("type")), Column("Data", _count("data"), type="integer"), age),
    "Namespace": (name, Column("Status", _at("status", "phase")), age),
    "ServiceAccount": (name, Column("Secrets", _count("secrets"), type="integer"), age),
    "Pod": (
        name,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        age,
        _wide("IP", _at("status", "podIP", default=_none)),
        _wide("Node", _at("spec", "nodeName", default=_none)),
        _wide("Nominated Node", _at("status", "nominatedNodeName", default=_none)),
        _wide("Readiness Gates", lambda item, now: _none),
    ),
    "Node": (
        name,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        age,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion")),
        _wide("OS-Image", _at("status", "nodeInfo", "osImage", default="<unknown>")),
        _wide("Kernel-Version", _at("status", "nodeInfo", "kernelVersion", default="<unknown>")),
        _wide("Container-Runtime", _at("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>")),
    ),
    "Job": (
        name,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        age,
    ),
    "PodDisruptionBudget": (
        name,
        Column("Min Available", _at("spec", "minAvailable", default="N/A")),
        Column("Max Unavailable", _at("spec", "maxUnavailable", default="N/A")),
        Column("Allowed Disruptions", _at("status", "disruptionsAllowed", default=0), type="integer"),
        age,
    ),
    "Deployment": (
        name,
        Column("Ready", _ratio(_ready, _replicas)),
        Column("Up-to-date", _at("status", "updatedReplicas", default=0), type="integer"),
        Column("Available", _at("status", "availableReplicas", default=0), type="integer"),
        age,
    ),
    "StatefulSet": (name, Column("Ready", _ratio(_ready, _replicas)), age),
    "ReplicaSet": (
        name,
        Column("Desired", _replicas, type="integer"),
        Column("Current", _at("status", "replicas", default=0), type="integer"),
        Column("Ready", _ready, type="integer"),
        age,
    ),
    "DaemonSet": (
        name,
        Column("Desired", _at("status", "desiredNumberScheduled", default=0), type="integer"),
        Column("Current", _at("status", "currentNumberScheduled", default=0), type="integer"),
        Column("Ready", _at("status", "numberReady", default=0), type="integer"),
        age,
    ),
    "Event": (
        Column("Last Seen", _last_seen),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _about),
        Column("Message", lambda item, now: str(item.get("message") or item.get("note") or "").strip()),
        Column("Name", _at("metadata", "name"), priority=1),
    ),
    "Lease": (name, Column("Holder", _at("spec", "holderIdentity")), age),
    "CustomResourceDefinition": (name, _created),
    "Role": (name, _created),
    "ClusterRole": (name, _created),
    "RoleBinding": (name, Column("Role", _role), age),
    "ClusterRoleBinding": (name, Column("Role", _role), age),
}
