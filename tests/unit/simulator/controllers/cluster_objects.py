"""Jobs, pods and nodes in a few words, for tests of pure functions."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from nodewright.simulator.controllers.times import stamp
from nodewright.simulator.controllers.views import TRACKING, Budget, Job, Node, Pod

START = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def job(*conditions: str, status: dict[str, Any] | None = None, deleted: bool = False, **spec: Any) -> Job:
    """A Job that began at START; `conditions` are types that are true, for the reason `Because`."""
    told = [{"type": type_, "status": "True", "reason": "Because", "message": "m"} for type_ in conditions]
    meta: dict[str, Any] = {"name": "job", "namespace": "ns", "uid": "job-uid"}
    if deleted:
        meta["deletionTimestamp"] = stamp(START)
    body = {
        "metadata": meta,
        "spec": {"template": {"spec": {"restartPolicy": "Never"}}, "completions": 1, "backoffLimit": 0, **spec},
        "status": {"startTime": stamp(START), "conditions": told, **(status or {})},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Job)


def pod(
    name: str = "p",
    phase: str = "Running",
    *,
    ready: bool = False,
    deleted: bool = False,
    tracked: bool = True,
    exit_code: int | None = None,
    ended: float = 0,
    disrupted: bool = False,
    restarts: int = 0,
    owner: dict[str, Any] | None = None,
    **more: Any,
) -> Pod:
    meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": stamp(START)}
    meta["labels"] = more.pop("labels", {})
    meta["ownerReferences"] = [owner] if owner else []
    if tracked:
        meta["finalizers"] = [TRACKING]
    if deleted:
        meta |= {"deletionTimestamp": stamp(at(ended + 30)), "deletionGracePeriodSeconds": 30}
    state = {}
    if exit_code is not None:
        state = {"terminated": {"exitCode": exit_code, "finishedAt": stamp(at(ended))}}
    conditions = [{"type": "Ready", "status": "True"}] if ready else []
    if disrupted:
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"})
    status = {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": [{"name": "work", "restartCount": restarts, "state": state}],
    }
    body = {"metadata": meta, "spec": {"nodeName": "node", **more.pop("spec", {})}, "status": {**status, **more}}
    return msgspec.convert(body, Pod)


def node(ready: str | None = "True", *, taints: list[tuple[str, str]] | None = None, **spec: Any) -> Node:
    conditions = [{"type": "Ready", "status": ready}] if ready is not None else []
    body = {
        "metadata": {"name": "node", "uid": "node-uid", "creationTimestamp": stamp(START)},
        "spec": {"taints": [{"key": key, "effect": effect} for key, effect in taints or []], **spec},
        "status": {"conditions": conditions},
    }
    return msgspec.convert(body, Node)


def budget(*, status: dict[str, Any] | None = None, **spec: Any) -> Budget:
    body = {
        "metadata": {"name": "pdb", "namespace": "ns", "uid": "pdb-uid", "generation": 3},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec},
        "status": status or {},
    }
    return msgspec.convert(body, Budget)
