"""The parts of objects that controllers look at, decoded straight from the bytes of watches, and the resources they live under.

Frozen and shared: `Controllers` runs one informer per resource and hands its store to every controller that needs it.
"""

import msgspec

from controller_runtime.cache import ObjectMeta, OwnerReference
from controller_runtime.transport import Resource

POD = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)
NODE = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False)
LEASE = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", namespaced=True)
JOB = Resource(group="batch", version="v1", plural="jobs", kind="Job", namespaced=True)
BUDGET = Resource(
    group="policy", version="v1", plural="poddisruptionbudgets", kind="PodDisruptionBudget", namespaced=True
)

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer that keeps a Job's pod until it has been counted."""


class Owner(OwnerReference, frozen=True, gc=False, rename="camel"):
    """An owner reference with what garbage collection and rewriting need of it."""

    block_owner_deletion: bool | None = None


class Meta(ObjectMeta, frozen=True, gc=False, rename="camel"):
    """Metadata with whole owner references."""

    owner_references: tuple[Owner, ...] = ()
    deletion_grace_period_seconds: int | None = None


class Anything(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Any object, of which only the metadata matters."""

    metadata: Meta


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A condition of any object."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    last_heartbeat_time: str | None = None
    observed_generation: int | None = None


# --- pods


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Only an ended one matters."""

    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the kubelet says of a container."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A pod's status."""

    phase: str = "Pending"
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A toleration of a pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a pod is and what it bears."""

    node_name: str = ""
    tolerations: tuple[Toleration, ...] = ()


class Pod(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether its phase is terminal."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        """Being deleted and not over yet."""
        return self.metadata.deletion_timestamp is not None and not self.finished

    @property
    def active(self) -> bool:
        """Neither over nor being deleted."""
        return self.metadata.deletion_timestamp is None and not self.finished

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        condition = find(self.status.conditions, "Ready")
        return condition is not None and condition.status == "True"

    @property
    def tracked(self) -> bool:
        """Whether a Job still has to count it."""
        return TRACKING in self.metadata.finalizers


# --- jobs


class OnExitCodes(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A rule's requirement of exit codes."""

    operator: str = "In"
    values: tuple[int, ...] = ()
    container_name: str | None = None


class OnPodCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A rule's requirement of one pod condition."""

    type: str = ""
    status: str = "True"


class FailureRule(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One rule of a pod failure policy."""

    action: str = "Count"
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class FailurePolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What failed pods mean to a Job; the first rule that matches decides."""

    rules: tuple[FailureRule, ...] = ()


class _TemplateSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    restart_policy: str = ""


class _Template(msgspec.Struct, frozen=True, gc=False):
    spec: _TemplateSpec = _TemplateSpec()


_template = msgspec.json.Decoder(_Template)


class JobSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a Job asks for. `template` is passed on as it is, and stays text until a pod is made of it."""

    template: msgspec.Raw = msgspec.Raw(b"{}")
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    pod_failure_policy: FailurePolicy | None = None
    pod_replacement_policy: str = ""
    managed_by: str | None = None

    @property
    def restart_policy(self) -> str:
        """The pods' restart policy."""
        return _template.decode(self.template).spec.restart_policy


class Uncounted(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """UIDs of pods that ended and are not yet in the Job's counters."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A Job's status; `None` stands for a field that is not there."""

    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    uncounted_terminated_pods: Uncounted | None = None
    conditions: tuple[Condition, ...] = ()


class Job(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A Job."""

    metadata: Meta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def finished(self) -> Condition | None:
        """The condition that says so, if it is Complete or Failed."""
        for condition in self.status.conditions:
            if condition.type in ("Complete", "Failed") and condition.status == "True":
                return condition
        return None

    @property
    def replaces_only_failed(self) -> bool:
        """Whether a pod that is being deleted is replaced, and counted, only when it is over."""
        return self.spec.pod_replacement_policy == "Failed" or self.spec.pod_failure_policy is not None


# --- nodes


class Taint(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What is wanted of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What its kubelet says."""

    conditions: tuple[Condition, ...] = ()


class Node(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LeaseSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """When it was renewed last."""

    renew_time: str | None = None


class Lease(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A node's heartbeat."""

    metadata: Meta
    spec: LeaseSpec = LeaseSpec()


# --- budgets


class Requirement(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One `matchExpressions` entry."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which pods; an empty one selects all."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class BudgetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """At most one of the two bounds is set; numbers, or percentages as text."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class BudgetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What evictions obey."""

    observed_generation: int = 0
    disrupted_pods: dict[str, str] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class Budget(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A PodDisruptionBudget."""

    metadata: Meta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


def find(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    """The condition of that type."""
    return next((one for one in conditions if one.type == type_), None)


def controller_of(meta: Meta) -> Owner | None:
    """The owner that is the controller."""
    return next((one for one in meta.owner_references if one.controller), None)
