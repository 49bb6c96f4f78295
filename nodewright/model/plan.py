"""What one pass wants done: values that the executor carries out in a fixed order and the engine never touches again.

Order within a node (LIF-12, JOB-3): suspend or resume, what pods mount, the node patch, Jobs, marks, node
conditions, deletions; events last.
Whatever is written first makes the second write come again after a crash.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nodewright.model.objects import ConfigMap, Job, Node, Pod
from nodewright.model.pick import Pick


class EventType(StrEnum):
    """Kubernetes' two kinds of events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """An event on the node (`node` set) or on the CR (OBS-6a)."""

    type: EventType
    reason: str
    action: str
    note: str
    node: str | None = None


@dataclass(frozen=True, slots=True)
class NodePatch:
    """One merged change of our own keys of a node (CON-11).

    `annotations` and `labels` map a key to its new value, None removes it. The executor writes a JSON patch that
    tests the node's UID and the
    value of each key as `node` shows it. `unschedulable` sets the cordon, with a test of its old value; False also tests the
    resourceVersion, since releasing a cordon must not race another CR's.
    """

    annotations: Mapping[str, str | None] = field(default_factory=dict)
    labels: Mapping[str, str | None] = field(default_factory=dict)
    unschedulable: bool | None = None


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A node condition of ours to write; `status` None removes it."""

    type: str
    status: str | None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ConfigMapWrite:
    """Create (`current` None) or bring up to date a ConfigMap; `body` is the whole object to create, its `data`,
    labels and annotations to patch."""

    name: str
    body: Mapping[str, Any]
    current: ConfigMap | None = None
    package: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigMapDelete:
    """Delete a ConfigMap nothing needs any more, by UID."""

    current: ConfigMap


@dataclass(frozen=True, slots=True)
class JobCreate:
    """Create a stage's Job. `package`, `stage` and `run` say for whom, for logs and answers."""

    name: str
    body: Mapping[str, Any]
    package: str
    stage: str
    run: str


@dataclass(frozen=True, slots=True)
class JobMark:
    """Mark a finished Job as recorded and set its TTL, in one write (JOB-3)."""

    job: Job
    ttl_seconds: int


@dataclass(frozen=True, slots=True)
class JobSuspend:
    """Set `spec.suspend` of an unfinished Job (JOB-16)."""

    job: Job
    suspend: bool


@dataclass(frozen=True, slots=True)
class JobDelete:
    """Delete a Job in the foreground, with UID and resourceVersion as preconditions (JOB-8).

    `unproven` is how often in a row the stage failed without being the package's fault, for the next Job (JOB-6).
    """

    job: Job
    why: str
    unproven: int = 0


@dataclass(frozen=True, slots=True)
class PodDelete:
    """Delete a failed pod that is not kept (JOB-7), by UID, never with force."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Everything one pass does for one node, in the order of the fields.

    `pick` is the node's pick as it will be once the patch landed: it holds its slot while the writes are under way.
    `events` are emitted once the patch landed.
    """

    node: Node
    suspends: tuple[JobSuspend, ...] = ()
    metadata: ConfigMapWrite | None = None
    patch: NodePatch | None = None
    creates: tuple[JobCreate, ...] = ()
    marks: tuple[JobMark, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    job_deletes: tuple[JobDelete, ...] = ()
    pod_deletes: tuple[PodDelete, ...] = ()
    events: tuple[Event, ...] = ()
    pick: Pick | None = None

    @property
    def empty(self) -> bool:
        """Nothing to write and nothing to say."""
        return not (
            self.suspends
            or self.metadata
            or self.patch
            or self.creates
            or self.marks
            or self.conditions
            or self.job_deletes
            or self.pod_deletes
            or self.events
        )


@dataclass(frozen=True, slots=True)
class StatusDraft:
    """The CR status of this pass, built only when it may be written.

    `cr_status` is the CR Status (ROL-21); a change of it is written within 1 s whatever the size (CON-6), and so is
    an `urgent` draft: one whose
    batch state must have landed before the next pick (ROL-11, ROL-15). `build()` is pure and costs O(nodes).
    `long_lists()` has the lists that ROL-22's message leaves out for their length: bucket to all its names, sorted;
    to be logged once per change.
    """

    cr_status: str
    build: Callable[[], dict[str, Any]]
    urgent: bool = False
    long_lists: Callable[[], Mapping[str, tuple[str, ...]]] = dict
    whole: Callable[[], Mapping[str, Any]] | None = None
    """The status, conditions aside, before anything was left out for its size (CON-6): what metrics count (OBS-1)."""


class FinalizerChange(StrEnum):
    """What happens to the CR's finalizer (CHG-11)."""

    ADD = "add"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass of one CR does.

    Order: `finalizer` ADD alone first; `configmaps`; `nodes`, in this order, in parallel with a limit; `job_deletes`
    (Jobs without a node) and
    `configmap_deletes`; `status` at its own pace (CON-6); `finalizer` REMOVE last; `events`.
    `status` drafts the status to publish (None = leave as is); the executor writes the difference to what is published.
    `wake_at` is the next known deadline, seconds since the epoch.
    """

    finalizer: FinalizerChange | None = None
    configmaps: tuple[ConfigMapWrite, ...] = ()
    nodes: tuple[NodePlan, ...] = ()
    job_deletes: tuple[JobDelete, ...] = ()
    configmap_deletes: tuple[ConfigMapDelete, ...] = ()
    status: StatusDraft | None = None
    events: tuple[Event, ...] = ()
    wake_at: float | None = None
