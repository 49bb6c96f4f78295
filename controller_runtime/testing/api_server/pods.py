"""Pods, and the pod template inside other kinds: defaults, what may change, graceful deletion.

Relies on `strategy`. Only defaults that somebody reads: the scheduler's and kubelet's fields, not those of every
volume.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller_runtime.testing.api_server.refusals import FieldProblem
from controller_runtime.testing.api_server.strategy import Moment, Strategy, flag, render, text
from controller_runtime.testing.api_server.values import Object

_UPDATES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_NOT_READY = (
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
)
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_POLICIES = ("Always", "OnFailure", "Never")
_RESOURCES = ("cpu", "memory")


class PodStrategy(Strategy):
    """Pods: immutable specs, quality of service, and an end with grace."""

    unknown_field = "field label not supported: {0}"

    def __init__(self) -> None:
        super().__init__(
            generation=True,
            status=True,
            answers_deleted=True,
            selectable={
                "spec.nodeName": text("spec", "nodeName"),
                "spec.restartPolicy": text("spec", "restartPolicy"),
                "spec.schedulerName": text("spec", "schedulerName"),
                "spec.serviceAccountName": text("spec", "serviceAccountName"),
                "spec.hostNetwork": flag("spec", "hostNetwork"),
                "status.phase": text("status", "phase"),
                "status.podIP": text("status", "podIP"),
                "status.nominatedNodeName": text("status", "nominatedNodeName"),
            },
        )

    def default(self, item: Object) -> None:
        """Defaults of the spec."""
        super().default(item)
        item["spec"] = {"enableServiceLinks": True, **defaulted_pod_spec(item.get("spec") or {})}

    def prepare_create(self, item: Object, moment: Moment) -> None:
        """What admission adds: service account, priority, the tolerations every pod gets; phase Pending."""
        spec = dict(item["spec"])
        spec.setdefault("serviceAccountName", "default")
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
        item["spec"] = spec
        item["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}

    def prepare_update(self, item: Object, old: Object, subresource: str) -> None:
        """The status is the kubelet's; owners are not changed through the status."""
        super().prepare_update(item, old, subresource)
        if subresource == "status":
            metadata = dict(item["metadata"])
            owners = old["metadata"].get("ownerReferences")
            metadata.pop("ownerReferences", None)
            if owners:
                metadata["ownerReferences"] = owners
            item["metadata"] = metadata
            item["status"] = {"qosClass": old["status"].get("qosClass"), **_full_status(item.get("status") or {})}
        elif "spec" in item and item["spec"] != old["spec"]:
            spec = defaulted_pod_spec(item["spec"])
            item["spec"] = {**spec, "tolerations": _tolerations(spec.get("tolerations") or [])}

    def validate_create(self, item: Object) -> Sequence[FieldProblem]:
        """A pod needs containers with names and images."""
        return pod_spec_problems(item["spec"], "spec")

    def validate_update(self, item: Object, old: Object, subresource: str) -> Sequence[FieldProblem]:
        """Nearly nothing of a spec may change."""
        if subresource or item["spec"] == old["spec"]:
            return ()
        new_spec, old_spec = _frozen_part(item["spec"]), _frozen_part(old["spec"])
        if new_spec != old_spec or not _only_added(item["spec"], old["spec"]):
            return (FieldProblem("spec", "FieldValueForbidden", f"Forbidden: {_UPDATES}\n"),)
        return ()

    def grace_seconds(self, item: Object, asked: int | None) -> int | None:
        """None is owed to a pod that is on no node or has ended."""
        period = item["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked
        if not item["spec"].get("nodeName") or item.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        return int(period) if period >= 0 else 1


def defaulted_pod_spec(given: Object) -> Object:
    """A pod's spec with defaults."""
    spec: Object = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **{name: value for name, value in given.items() if value is not None},
    }
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [_container(entry) for entry in spec[name]]
    if "volumes" in spec:
        spec["volumes"] = [_volume(entry) for entry in spec["volumes"]]
    return spec


def defaulted_template(given: Object) -> Object:
    """A pod template with defaults."""
    metadata = {name: value for name, value in (given.get("metadata") or {}).items() if value is not None}
    return {**given, "metadata": metadata, "spec": defaulted_pod_spec(given.get("spec") or {})}


def pod_spec_problems(spec: Object, path: str) -> list[FieldProblem]:
    """What every pod spec needs."""
    problems = []
    if not spec.get("containers"):
        problems.append(FieldProblem(f"{path}.containers", "FieldValueRequired", "Required value"))
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or []):
            where = f"{path}.{group}[{index}]"
            problems += [
                FieldProblem(f"{where}.{name}", "FieldValueRequired", "Required value")
                for name in ("name", "image")
                if not container.get(name)
            ]
    if spec.get("restartPolicy") not in _POLICIES:
        known = ", ".join(render(word) for word in _POLICIES)
        said = f"Unsupported value: {render(spec.get('restartPolicy'))}: supported values: {known}"
        problems.append(FieldProblem(f"{path}.restartPolicy", "FieldValueNotSupported", said))
    return problems


def quality_of_service(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, by requests and limits of all containers."""
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    resources = [container.get("resources") or {} for container in containers]
    if not any(entry.get("requests") or entry.get("limits") for entry in resources):
        return "BestEffort"
    for entry in resources:
        limits = entry.get("limits") or {}
        requests = {**limits, **(entry.get("requests") or {})}
        if any(name not in limits or requests[name] != limits[name] for name in _RESOURCES):
            return "Burstable"
    return "Guaranteed"


def _container(given: Object) -> Object:
    image = str(given.get("image") or "")
    tag = image.rpartition("/")[2].partition(":")[2]
    pull = "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"
    container = {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": pull,
        **given,
    }
    if container.get("ports"):
        container["ports"] = [{"protocol": "TCP", **entry} for entry in container["ports"]]
    if container.get("env"):
        container["env"] = [_environment(entry) for entry in container["env"]]
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name):
            container[name] = {**_PROBE, **container[name]}
    resources = container["resources"] or {}
    if resources.get("limits"):
        container["resources"] = {**resources, "requests": {**resources["limits"], **(resources.get("requests") or {})}}
    return container


def _full_status(status: Object) -> Object:
    """With what the encoder never leaves out."""
    full = dict(status)
    if full.get("conditions"):
        full["conditions"] = [
            {"lastProbeTime": None, "lastTransitionTime": None, **entry} for entry in full["conditions"]
        ]
    for name in ("containerStatuses", "initContainerStatuses"):
        if full.get(name):
            full[name] = [{"state": {}, "lastState": {}, **entry} for entry in full[name]]
    return full


def _environment(entry: Object) -> Object:
    source = entry.get("valueFrom")
    if not isinstance(source, dict) or "fieldRef" not in source:
        return entry
    return {**entry, "valueFrom": {**source, "fieldRef": {"apiVersion": "v1", **source["fieldRef"]}}}


def _volume(given: Object) -> Object:
    for source, mode in (("configMap", 420), ("secret", 420), ("projected", 420), ("downwardAPI", 420)):
        if isinstance(given.get(source), dict):
            return {**given, source: {"defaultMode": mode, **given[source]}}
    if isinstance(given.get("hostPath"), dict):
        return {**given, "hostPath": {"type": "", **given["hostPath"]}}
    return given


def _tolerations(given: list[Object]) -> list[Object]:
    added = [extra for extra in _NOT_READY if not any(_tolerates(entry, extra["key"]) for entry in given)]
    return [*given, *(dict(extra) for extra in added)]


def _tolerates(toleration: Object, key: Any) -> bool:
    same_key = toleration.get("key") == key or (not toleration.get("key") and toleration.get("operator") == "Exists")
    return same_key and toleration.get("effect") in (None, "", "NoExecute")


def _frozen_part(spec: Object) -> Object:
    frozen = dict(spec)
    for name in ("activeDeadlineSeconds", "tolerations", "nodeName", "priority"):
        frozen.pop(name, None)
    frozen["nodeName"] = spec.get("nodeName", "")
    for name in ("containers", "initContainers"):
        frozen[name] = [{**entry, "image": "", "imagePullPolicy": ""} for entry in spec.get(name) or []]
    return frozen


def _only_added(new: Object, old: Object) -> bool:
    kept = new.get("tolerations") or []
    return all(entry in kept for entry in old.get("tolerations") or [])
