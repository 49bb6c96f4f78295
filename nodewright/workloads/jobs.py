"""The Job of a package stage, as a body to create (CON-13 to CON-25, JOB-1).

What does not depend on the node is built once per package and stage and shared by all bodies, since a rollout creates
thousands: a body is read only. Relies on `claims`, `inputs`, `tolerations` and the names in `keys`; the engine relies
on it.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec, Package, Resources
from nodewright.model.node_state import Entry, Stage
from nodewright.model.objects import Node
from nodewright.model.snapshot import CR, PlanSettings
from nodewright.workloads.claims import node_label, owner_reference, package_label
from nodewright.workloads.identity import Same
from nodewright.workloads.inputs import dump, inputs_of
from nodewright.workloads.tolerations import pod_tolerations

MAX_SECONDS: Final = 2147483647
"""Longest deadline Kubernetes takes (JOB-2)."""

HOST_ROOT: Final = "/root"
PACKAGE_DIR: Final = "/skyhook-package"
CONFIGMAP_DIR: Final = f"{PACKAGE_DIR}/configmaps"
NODE_METADATA_DIR: Final = f"{PACKAGE_DIR}/node-metadata"

_MAX_NAME_IN_CONTAINER: Final = 43
_CACHED_TEMPLATES: Final = 256

# Forced: without -f busybox refuses the links that an earlier attempt left, and a script still executed stays locked.
_COPY: Final = f'mkdir -p "{HOST_ROOT}/$SKYHOOK_DIR" && cp -rf {PACKAGE_DIR}/* "{HOST_ROOT}/$SKYHOOK_DIR"'

_HOST_VOLUME: Final[Mapping[str, Any]] = {"name": "root-mount", "hostPath": {"path": "/"}}
_HOST_MOUNT: Final[Mapping[str, Any]] = {
    "name": "root-mount",
    "mountPath": HOST_ROOT,
    "mountPropagation": "HostToContainer",
}
_NODE_METADATA_MOUNT: Final[Mapping[str, Any]] = {"name": "node-metadata", "mountPath": NODE_METADATA_DIR}
_IGNORE_DISRUPTIONS: Final = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}


def stage_job(
    *,
    cr: CR,
    package_name: str,
    package: Package,
    entry: Entry,
    node: Node,
    order: int,
    settings: PlanSettings,
    unproven: int = 0,
    traceparent: str | None = None,
) -> dict[str, Any]:
    """The Job that runs the entry's stage on the node; not for interrupt stages.

    The version is the entry's, which an uninstall keeps when the spec's has moved on, and so is the generation in the
    copy directory and the resource ID (CON-20); labels carry the CR's. `order` is the node's place in the rollout,
    `unproven` how often in a row the stage failed without being the package's fault (JOB-6), `traceparent` the trace
    to join, None while tracing is off.
    """
    template = _template(
        Same(package), Same(cr.spec), cr.name, cr.meta.uid, package_name, entry.version, entry.stage, entry.generation, settings
    )  # fmt: skip
    labels = {
        keys.LABEL_NAME: keys.label_value(cr.name),
        keys.LABEL_PACKAGE: template.package_label,
        keys.LABEL_STAGE: entry.stage.value,
        keys.LABEL_NODE: node_label(node.name),
        keys.LABEL_GENERATION: str(cr.meta.generation),
    }
    shared_annotations = {keys.ANNOTATION_PACKAGE: template.package_annotation, keys.RUN: entry.run}
    annotations = {
        keys.ANNOTATION_RESOURCE_ID: f"{cr.meta.uid}-{cr.meta.generation}",
        **shared_annotations,
        keys.INPUTS: dump(inputs_of(package, settings)),
        keys.NODE_UID: node.metadata.uid,
    }
    if unproven > 0:
        annotations[keys.UNPROVEN_FAILURES] = str(unproven)
    env = [*template.agent_env, {"name": "SKYHOOK_NODE_ORDER", "value": str(order)}]
    if traceparent:
        annotations[keys.TRACEPARENT] = traceparent
        env.append({"name": "TRACEPARENT", "value": traceparent})
    metadata_configmap = keys.node_metadata_configmap_name(cr=cr.name, node=node.name)
    pod = {
        **template.pod,
        "nodeName": node.name,
        "initContainers": [
            template.init_container,
            {**template.stage_container, "env": env},
            {**template.check_container, "env": env},
        ],
        "volumes": [*template.volumes, {"name": "node-metadata", "configMap": {"name": metadata_configmap}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": keys.job_name(
                cr=cr.name, package=package_name, version=entry.version, stage=entry.stage.value, node=node.name
            ),
            "namespace": settings.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(cr)],
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "podReplacementPolicy": "Failed",
            "backoffLimit": settings.backoff_limit,
            "podFailurePolicy": _IGNORE_DISRUPTIONS,
            "template": {"metadata": {"labels": labels, "annotations": shared_annotations}, "spec": pod},
        },
    }


def copy_dir(*, cr: str, uid: str, package: str, version: str, generation: int, settings: PlanSettings) -> str:
    """Where on the host the package's files are; `generation` is the entry's (CON-20)."""
    return f"{settings.copy_dir_root}/{cr}/{package}-{version}-{uid}-{generation}"


def stage_timeout(package: Package, settings: PlanSettings) -> int | None:
    """Whole seconds a stage gets, None without a bound (JOB-2)."""
    own = package.stage_timeout_seconds
    return _whole_seconds(settings.stage_timeout if own is None else own) or None


class _Template(msgspec.Struct, frozen=True, kw_only=True):
    """What the Jobs of one package and stage have in common."""

    package_label: str
    package_annotation: str
    agent_env: tuple[Mapping[str, Any], ...]
    pod: Mapping[str, Any]
    init_container: Mapping[str, Any]
    stage_container: Mapping[str, Any]
    check_container: Mapping[str, Any]
    volumes: tuple[Mapping[str, Any], ...]


@lru_cache(maxsize=_CACHED_TEMPLATES)
def _template(
    same_package: Same[Package],
    same_spec: Same[NodeWrightSpec | None],
    cr: str,
    uid: str,
    name: str,
    version: str,
    stage: Stage,
    generation: int,
    settings: PlanSettings,
) -> _Template:
    package, spec = same_package.value, same_spec.value
    directory = copy_dir(cr=cr, uid=uid, package=name, version=version, generation=generation, settings=settings)
    image = package.image_reference if version == package.version else f"{package.image}:{version}"
    short = name[:_MAX_NAME_IN_CONTAINER]
    mounts, volumes = [_HOST_MOUNT, _NODE_METADATA_MOUNT], [_HOST_VOLUME]
    if package.config_map:
        mounts += [
            {"name": "configmap", "mountPath": f"{CONFIGMAP_DIR}/{key}", "subPath": key, "readOnly": True}
            for key in sorted(package.config_map)
        ]
        configmap = keys.package_configmap_name(cr=cr, package=name, version=version)
        volumes.append({"name": "configmap", "configMap": {"name": configmap}})
    step: dict[str, Any] = {
        "imagePullPolicy": "Always",
        "securityContext": {"privileged": True},
        "volumeMounts": mounts,
    }
    if package.resources is not None and package.resources.is_set and not stage.is_uninstall:
        step["resources"] = _resources(package.resources)
    agent = {"image": package.agent_image_override or settings.agent_image, **step}
    return _Template(
        package_label=package_label(name, version),
        package_annotation=_package_annotation(cr, name, package, version, stage),
        agent_env=(
            *package.env,
            {"name": "SKYHOOK_LOG_DIR", "value": f"{settings.agent_log_root}/{cr}"},
            {"name": "SKYHOOK_ROOT_DIR", "value": f"{settings.copy_dir_root}/{cr}"},
            {"name": "COPY_RESOLV", "value": "false"},
            {"name": "SKYHOOK_RESOURCE_ID", "value": f"{uid}-{generation}_{name}_{version}"},
        ),
        pod=_pod(package, spec, image, settings),
        init_container={
            "name": f"{short}-init",
            "image": image,
            "command": ["/bin/sh", "-c", _COPY],
            "env": [{"name": "SKYHOOK_DIR", "value": directory}],
            **step,
        },
        stage_container={"name": f"{short}-{stage.value}", "args": [stage.value, HOST_ROOT, directory], **agent},
        check_container={
            "name": f"{short}-{stage.value}check",
            "args": [f"{stage.value}-check", HOST_ROOT, directory],
            **agent,
        },
        volumes=tuple(volumes),
    )


def _pod(package: Package, spec: NodeWrightSpec | None, image: str, settings: PlanSettings) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "hostPID": True,
        "hostNetwork": True,
        "restartPolicy": "Never",
        "tolerations": pod_tolerations(spec.additional_tolerations if spec else (), settings),
        "containers": [
            {"name": "done", "image": image, "imagePullPolicy": "Always", "command": ["/bin/sh", "-c", "exit 0"]}
        ],
    }
    deadline = stage_timeout(package, settings)
    if deadline is not None:
        pod["activeDeadlineSeconds"] = deadline
    grace = package.graceful_shutdown_seconds
    if grace is not None:
        pod["terminationGracePeriodSeconds"] = _whole_seconds(grace)
    if settings.image_pull_secret:
        pod["imagePullSecrets"] = [{"name": settings.image_pull_secret}]
    return pod


def _package_annotation(cr: str, name: str, package: Package, version: str, stage: Stage) -> str:
    described = {"name": name, "version": version, "skyhook": cr, "stage": stage.value, "image": package.image}
    if package.container_sha and version == package.version:
        described["containerSHA"] = package.container_sha
    return msgspec.json.encode(described).decode()


def _resources(resources: Resources) -> dict[str, Any]:
    return {
        "requests": {"cpu": resources.cpu_request, "memory": resources.memory_request},
        "limits": {"cpu": resources.cpu_limit, "memory": resources.memory_limit},
    }


def _whole_seconds(seconds: float | None) -> int:
    return min(math.ceil(max(seconds or 0.0, 0.0)), MAX_SECONDS)
