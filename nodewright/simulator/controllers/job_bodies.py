"""What a Job controller sends: pods, status patches, the removal of a finalizer. Pure; relied on by `jobs`."""

import hashlib
from typing import Any

import msgspec

from nodewright.simulator.controllers.views import JOB, TRACKING, Condition, Job, JobStatus, Pod, Uncounted

Body = dict[str, Any]
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Of which the API server makes the ends of generated names."""
_LONGEST_BASE = 58


def pod_name(job: Job, number: int) -> str:
    """The name of the Job's pod of that number: as `generateName` would make it, but the same in each run."""
    digest = int.from_bytes(hashlib.blake2b(f"{job.metadata.uid}/{number}".encode(), digest_size=8).digest())
    end = ""
    for _ in range(5):
        digest, place = divmod(digest, len(_ALPHABET))
        end += _ALPHABET[place]
    return f"{job.metadata.name}-"[:_LONGEST_BASE] + end


def pod_body(job: Job, name: str) -> Body:
    """A pod of the Job's template, owned by it and held until it is counted."""
    meta, template = job.metadata, msgspec.json.decode(job.spec.template)
    wanted = template.get("metadata") or {}
    ours = {"controller-uid": meta.uid, "job-name": meta.name}
    labels = {**ours, **{f"batch.kubernetes.io/{key}": value for key, value in ours.items()}}
    owner = {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    body: Body = {
        "name": name,
        "generateName": f"{meta.name}-",
        "namespace": meta.namespace,
        "labels": {**(wanted.get("labels") or {}), **labels},
        "finalizers": [*(one for one in wanted.get("finalizers") or () if one != TRACKING), TRACKING],
        "ownerReferences": [owner],
    }
    if wanted.get("annotations"):
        body["annotations"] = wanted["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": body, "spec": template.get("spec") or {}}


def release_patch(pod: Pod) -> Body:
    """The strategic merge patch that lets a counted pod go, if it is still this one."""
    return {"metadata": {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [TRACKING]}}


def status_patch(job: Job, old: JobStatus, new: JobStatus, resource_version: str | None) -> Body | None:
    """The merge patch from one status to the other, if the Job is still of that version; None when nothing changed."""
    before, after = _fields(old), _fields(new)
    changes = {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
    if not changes:
        return None
    if new.uncounted_terminated_pods is not None and "uncountedTerminatedPods" in changes:
        named = {"succeeded": list(new.uncounted_terminated_pods.succeeded) or None}
        named["failed"] = list(new.uncounted_terminated_pods.failed) or None
        changes["uncountedTerminatedPods"] = named
    return {"metadata": {"uid": job.metadata.uid, "resourceVersion": resource_version}, "status": changes}


def condition_body(condition: Condition) -> Body:
    """A condition as the API spells it, without what is empty."""
    body = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
        "lastProbeTime": condition.last_probe_time,
        "lastHeartbeatTime": condition.last_heartbeat_time,
        "observedGeneration": condition.observed_generation,
    }
    return {key: value for key, value in body.items() if value not in ("", None)}


def _fields(status: JobStatus) -> Body:
    """The status as the API shows it: counts that are 0 are left out, but for `ready` and `terminating`."""
    uncounted = status.uncounted_terminated_pods
    fields: Body = {
        "startTime": status.start_time,
        "completionTime": status.completion_time,
        "active": status.active or None,
        "ready": status.ready,
        "succeeded": status.succeeded or None,
        "failed": status.failed or None,
        "terminating": status.terminating,
        "uncountedTerminatedPods": None if uncounted is None else _uncounted(uncounted),
        "conditions": [condition_body(one) for one in status.conditions] or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _uncounted(uncounted: Uncounted) -> Body:
    lists = {"succeeded": list(uncounted.succeeded), "failed": list(uncounted.failed)}
    return {key: value for key, value in lists.items() if value}
