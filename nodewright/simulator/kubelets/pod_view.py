"""The parts of a Pod and a ConfigMap that a simulated kubelet looks at, decoded straight from the watch's bytes.

Container statuses are left out on purpose: the kubelet is their author. Only a kubelet that was restarted reads them back, with a live
GET (`LivePod`).
"""

import base64
import binascii
from dataclasses import dataclass

import msgspec

from controller_runtime.cache import ObjectMeta
from controller_runtime.transport import Resource

POD = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)
NODE = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False)
CONFIG_MAP = Resource(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)

PREFIX = "nodewright.nvidia.com/"


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container of the spec."""

    name: str
    image: str = ""
    args: tuple[str, ...] = ()


class ConfigMapVolume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume's reference to a ConfigMap."""

    name: str = ""
    optional: bool = False


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume; other sources than ConfigMaps are always there."""

    config_map: ConfigMapVolume | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the kubelet obeys."""

    node_name: str = ""
    restart_policy: str = "Always"
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int = 30
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition, whoever wrote it."""

    type: str
    status: str = ""
    reason: str | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What tells a new pod from one that some kubelet acknowledged before."""

    phase: str = "Pending"
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] = ()


class Pod(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A pod as the kubelet sees it in its watch."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ConfigMap(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """That it exists."""

    metadata: ObjectMeta


class Running(msgspec.Struct, frozen=True, rename="camel"):
    """A running state."""

    started_at: str | None = None


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """A terminated state."""

    exit_code: int = 0
    reason: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class State(msgspec.Struct, frozen=True, rename="camel"):
    """At most one of them; neither is waiting."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A container's status as an earlier kubelet wrote it."""

    name: str
    restart_count: int = 0
    state: State = State()


class LiveStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status that a restarted kubelet goes on from."""

    phase: str = "Pending"
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class LivePod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod read live."""

    metadata: ObjectMeta
    status: LiveStatus = LiveStatus()


class _PackageAnnotation(msgspec.Struct, frozen=True):
    name: str = ""
    version: str = ""


class _Interrupt(msgspec.Struct, frozen=True):
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What a stage pod says of itself (CON-14, CON-15); of other pods only `job` or nothing."""

    job: str = ""
    cr: str = ""
    package: str = ""
    version: str = ""
    stage: str = ""
    run: str = ""


_package_decoder = msgspec.json.Decoder(_PackageAnnotation)


def labels_of(pod: Pod) -> Labels:
    """Read labels and annotations; a malformed package annotation reads as an empty package."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    try:
        package = _package_decoder.decode(annotations.get(PREFIX + "package", "{}"))
    except msgspec.MsgspecError:
        package = _PackageAnnotation()
    return Labels(
        job=labels.get("batch.kubernetes.io/job-name", ""),
        cr=labels.get(PREFIX + "name", ""),
        package=package.name,
        version=package.version,
        stage=labels.get(PREFIX + "stage", ""),
        run=annotations.get(PREFIX + "run", ""),
    )


def marked_not_ready(pod: Pod) -> bool:
    """Whether the node controller took the pod's readiness while the node was silent: it gives no reason, and a kubelet always does."""
    return any(one.type == "Ready" and one.status == "False" and not one.reason for one in pod.status.conditions)


def asks_for_reboot(args: tuple[str, ...]) -> bool:
    """Whether an interrupt container's last argument (base64 JSON, CON-19) is a `node_restart`."""
    try:
        return bool(args) and msgspec.json.decode(base64.b64decode(args[-1]), type=_Interrupt).type == "node_restart"
    except (binascii.Error, ValueError):  # msgspec's errors are ValueErrors
        return False


def needed_config_maps(pod: Pod) -> list[str]:
    """Names of the ConfigMaps without which the pod's volumes cannot be mounted."""
    references = (volume.config_map for volume in pod.spec.volumes)
    return [reference.name for reference in references if reference is not None and not reference.optional]
