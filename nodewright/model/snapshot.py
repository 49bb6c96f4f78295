"""What one pass reads: references into the store, no copies, no API calls.

The operator's shell makes a `Snapshot` per pass; the engine turns it into a `Plan`. Tuples of Jobs and pods keep
their identity until something in
them changed, and so do nodes and CRs: the engine memoises per-node results on that.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodewright.api.nodewright import NodeWrightSpec
from nodewright.api.shape import Fault
from nodewright.model.objects import ConfigMap, Job, Node, ObjectMeta, Pod
from nodewright.model.pick import Pick


@dataclass(frozen=True, slots=True, eq=False)
class CR:
    """One NodeWright: `spec` is None when not even its shape could be read; `faults` is what admission would have rejected.

    `published` is its status as stored (LIF-1: batch state, rollout, order offset, boot IDs and conditions are read back, nothing else).
    """

    meta: ObjectMeta
    spec: NodeWrightSpec | None
    faults: tuple[Fault, ...] = ()
    published: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The CR's name."""
        return self.meta.name


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """One DeploymentPolicy, parsed; `spec` None when it could not be read."""

    name: str
    spec: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a refused write answered, kept by object: `text` is the API server's message, `at` seconds since the epoch, `count` in a row."""

    text: str
    at: float
    count: int = 1
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The operator settings that decisions depend on (CON-26). Durations in seconds; a stage timeout of None means none."""

    agent_image: str
    namespace: str = "nodewright"
    copy_dir_root: str = "/var/lib/skyhook"
    agent_log_root: str = "/var/log/skyhook"
    image_pull_secret: str = ""
    taint_key: str = "nodewright.nvidia.com"
    taint_value: str = "runtime-required"
    taint_effect: str = "NoSchedule"
    stage_timeout: float | None = 3600.0
    backoff_limit: int = 3
    ttl_succeeded: int = 3600
    ttl_failed: int = 86400
    reapply_on_reboot: bool = False
    version: str = "0.0.0"
    traceparent: Callable[[], str | None] = lambda: None


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The cluster as one pass of `cr` sees it.

    `crs` holds every NodeWright, the CR itself included. `jobs_on(cr, node)` and `pods_on(cr, node)` give the objects
    labelled for that CR name and node label value (CON-14), whoever owns them; `jobs_of(cr)` all of a CR name. `busy`
    names nodes whose writes of an earlier pass are still under way, with the pick they will have: they are not
    planned and hold their slot. `refused` maps `"<kind>/<name>"` (`Job/x`, `ConfigMap/x`, `Node/x`) to the last
    refusal of a write; `unproven` maps a Job's name to how often in a row it failed without proof (JOB-6). `given`
    maps a rollout to the lowest number that none of the picks written in it had: a node that was deleted before the
    status landed has taken its number with it (ROL-14).
    """

    cr: CR
    crs: Collection[CR]
    nodes: Collection[Node]
    policies: Mapping[str, Policy] = field(default_factory=dict)
    jobs_on: Callable[[str, str], tuple[Job, ...]] = lambda _cr, _node: ()
    pods_on: Callable[[str, str], tuple[Pod, ...]] = lambda _cr, _node: ()
    jobs_of: Callable[[str], tuple[Job, ...]] = lambda _cr: ()
    configmaps_of: Callable[[str], tuple[ConfigMap, ...]] = lambda _cr: ()
    metadata_of: Callable[[str], tuple[ConfigMap, ...]] = lambda _cr: ()
    configmap: Callable[[str], ConfigMap | None] = lambda _name: None
    busy: Mapping[str, Pick | None] = field(default_factory=dict)
    refused: Mapping[str, Answer] = field(default_factory=dict)
    unproven: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[int, int] = field(default_factory=dict)
