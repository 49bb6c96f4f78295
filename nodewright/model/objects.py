"""Lean, frozen views of the Kubernetes objects that NodeWright reads, decoded straight from the API server's bytes.

Only fields that some decision uses are named: everything else (managedFields, images, volumes, heartbeat times) never enters memory, and
two versions of an object that differ only in such fields are equal. Relied on by the engine, the workloads and the operator's informers.
"""

from typing import Any

import msgspec


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The reference that makes garbage collection and claims (CON-13) work."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata every object has. Times are RFC 3339 text, as the API server wrote them."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Condition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A status condition of a Node, Job or Pod; heartbeat times are left out on purpose (they would make every heartbeat a change)."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Taint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A node taint; `value` may be empty."""

    key: str = ""
    effect: str = ""
    value: str = ""


class NodeSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The scheduling side of a Node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeInfo(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The kubelet's facts; only the boot ID matters (RTR-5)."""

    boot_id: str = msgspec.field(name="bootID", default="")


class NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The reported side of a Node."""

    conditions: tuple[Condition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(msgspec.Struct, frozen=True, rename="camel"):
    """A Node: labels, annotations, taints, conditions, boot ID."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.metadata.name


class ContainerWaiting(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerRunning(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A container runs since then."""

    started_at: str | None = None


class ContainerTerminated(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Exactly one of the three is set."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One container of a pod as the kubelet reports it."""

    name: str = ""
    image: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Where a pod runs and how long it may."""

    node_name: str = ""
    active_deadline_seconds: int | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A pod as the kubelet reports it; a pod it never acknowledged has no start time."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of one of our Jobs."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class JobSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What of a Job's spec changes after creation."""

    suspend: bool = False
    ttl_seconds_after_finished: int | None = None


class JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A Job as the Job controller reports it."""

    active: int = 0
    failed: int = 0
    succeeded: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(msgspec.Struct, frozen=True, rename="camel"):
    """A stage of a package on a node (JOB-1)."""

    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type if its status is True."""
        return next((c for c in self.status.conditions if c.type == type_ and c.status == "True"), None)

    @property
    def finished(self) -> bool:
        """Complete or Failed (JOB-12); `FailureTarget` alone is not the end yet."""
        # Asked of every Job in every pass: a generator is three times as dear.
        for condition in self.status.conditions:  # noqa: SIM110
            if condition.status == "True" and condition.type in ("Complete", "Failed"):
                return True
        return False


class ConfigMap(msgspec.Struct, frozen=True, rename="camel"):
    """A package's or a node's ConfigMap (CON-16)."""

    metadata: ObjectMeta
    data: dict[str, str] = {}


class NodeWrightObject(msgspec.Struct, frozen=True, rename="camel"):
    """A NodeWright as stored: `spec` and `status` stay bytes until somebody needs them."""

    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class DeploymentPolicyObject(msgspec.Struct, frozen=True, rename="camel"):
    """A DeploymentPolicy as stored."""

    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def owner_uid(metadata: ObjectMeta) -> str:
    """The UID of the controlling owner, or the empty string."""
    return next((o.uid for o in metadata.owner_references if o.controller), "")


def to_builtins(value: Any) -> Any:
    """The object as plain dicts and lists, for messages and tests."""
    return msgspec.to_builtins(value)
