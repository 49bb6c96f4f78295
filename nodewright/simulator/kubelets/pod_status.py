"""From a pod's run to the status a kubelet writes, and the smallest patch from what it wrote before.

Pure. Conditions are merged by type and container statuses replaced as a list: that is how the API server's strategic merge treats them,
and why a patch names only the conditions that changed.
"""

from typing import Any

import msgspec

from nodewright.simulator.kubelets.container_run import ContainerRun, timestamp
from nodewright.simulator.kubelets.pod_run import PodRun
from nodewright.simulator.kubelets.timing import REASONS, Cause

Status = dict[str, Any]
_ADDRESSES = frozenset({"hostIPs", "podIPs"})
_encode = msgspec.json.Encoder().encode


class StatusReport:
    """What has been written of one pod's status; `patch` gives the next write."""

    def __init__(self, run: PodRun, *, host_ip: str) -> None:
        self._run = run
        self._host_ip = host_ip
        self._written: Status = {}
        self._conditions: dict[str, Status] = {}
        self._overwritten = False

    def patch(self, now: float) -> bytes | None:
        """The strategic merge patch from the last one to the present state; None when there is nothing new. It counts as written."""
        wanted = render(self._run, host_ip=self._host_ip)
        body = {key: value for key, value in wanted.items() if self._written.get(key) != value}
        for key in (
            _ADDRESSES & body.keys()
        ):  # merged by address: a node that came back with another would leave its pods two
            body[key] = [{"$patch": "replace"}, *body[key]]
        conditions = self._changed_conditions(timestamp(now + self._run.offset))
        if conditions:
            body["conditions"] = conditions
        self._written = wanted
        if not body:
            return None
        return _encode({"metadata": {"uid": self._run.uid}, "status": body})

    def forget(self) -> None:
        """The last patch may not have arrived: the next one says everything."""
        self._written = {}
        self._conditions = {}

    def repeat_conditions(self) -> None:
        """Somebody else wrote a condition of ours: the next patch says all of them as they are and were."""
        self._overwritten = True

    def _changed_conditions(self, stamp: str) -> list[Status]:
        overwritten, self._overwritten = self._overwritten, False
        changed = []
        for condition in conditions_of(self._run):
            old = self._conditions.get(condition["type"])
            if old is not None and {**condition, "lastTransitionTime": old["lastTransitionTime"]} == old:
                if overwritten:
                    changed.append(old)
                continue
            same = old is not None and old["status"] == condition["status"]
            condition["lastTransitionTime"] = old["lastTransitionTime"] if old is not None and same else stamp
            self._conditions[condition["type"]] = condition
            gone = {key: None for key in (old or ()) if key not in condition}  # merged by key: what is not null stays
            changed.append({**gone, **condition})
        return changed


def render(run: PodRun, *, host_ip: str) -> Status:
    """The whole status but for its conditions; empty for a pod the kubelet never acknowledged."""
    if run.acknowledged_at is None:
        return {}
    status: Status = {"phase": phase_of(run), "startTime": timestamp(run.acknowledged_at + run.offset)}
    if run.refusal is not None:
        status["reason"], status["message"] = run.refusal
        return status
    if run.ended and run.cause in REASONS:
        status["reason"], status["message"] = REASONS[run.cause]
    status["hostIP"] = host_ip
    status["hostIPs"] = [{"ip": host_ip}]
    if run.sandbox_seen:
        status["podIP"] = host_ip
        status["podIPs"] = [{"ip": host_ip}]
    if run.inits:
        status["initContainerStatuses"] = [container.shown for container in run.inits]
    status["containerStatuses"] = [container.shown for container in run.mains]
    return status


def phase_of(run: PodRun) -> str:
    """The pod's phase as the kubelet computes it; a terminal one only when no container runs any more."""
    if run.refusal is not None:
        return "Failed"
    if run.ended:
        done = run.cause in (None, Cause.DELETED) and all(container.succeeded for container in run.containers)
        return "Succeeded" if done else "Failed"
    if not _initialized(run):
        return "Pending"
    fresh = [
        container
        for container in run.mains
        if "waiting" in container.shown["state"] and not container.shown["lastState"]
    ]
    return "Pending" if fresh else "Running"


def conditions_of(run: PodRun) -> list[Status]:
    """The kubelet's conditions without their transition times."""
    if run.acknowledged_at is None or run.refusal is not None:
        return []
    phase = phase_of(run)
    initialized = _initialized(run)
    ready = phase == "Running" and all(container.shown["ready"] for container in run.mains)
    conditions = [
        _condition("PodReadyToStartContainers", run.sandbox_seen and not run.ended),
        _condition("Initialized", initialized, *_why_not_initialized(run, phase, initialized)),
        _condition("Ready", ready, *_why_not_ready(run, phase, ready)),
        _condition("ContainersReady", ready, *_why_not_ready(run, phase, ready)),
        _condition("PodScheduled", True),
    ]
    if run.disrupted:
        message = "The node was low on resource: memory."
        conditions.append(_condition("DisruptionTarget", True, "TerminationByKubelet", message))
    return conditions


def _initialized(run: PodRun) -> bool:
    return all(_shown_exit_code(container) == 0 for container in run.inits)


def _shown_exit_code(container: ContainerRun) -> int | None:
    terminated = container.shown["state"].get("terminated")
    return None if terminated is None else terminated["exitCode"]


def _why_not_initialized(run: PodRun, phase: str, initialized: bool) -> tuple[str, str]:
    if initialized:
        return ("PodCompleted" if phase == "Succeeded" else "", "")
    names = [container.spec.name for container in run.inits if _shown_exit_code(container) != 0]
    return "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(names)}]"


def _why_not_ready(run: PodRun, phase: str, ready: bool) -> tuple[str, str]:
    if ready:
        return "", ""
    if phase in ("Succeeded", "Failed"):
        return ("PodCompleted" if phase == "Succeeded" else "PodFailed"), ""
    names = [container.spec.name for container in run.mains if not container.shown["ready"]]
    return "ContainersNotReady", f"containers with unready status: [{' '.join(names)}]"


def _condition(type_: str, status: bool, reason: str = "", message: str = "") -> Status:
    body: Status = {"type": type_, "status": "True" if status else "False", "lastProbeTime": None}
    if reason:
        body["reason"] = reason
    if message:
        body["message"] = message
    return body
