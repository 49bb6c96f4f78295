"""The kind NodeWright: its spec with all defaults (CON-4a, ADM-23).

Parsing checks shape only: whatever passed the CRD schema parses, and what admission would reject is said by
`validation`, so that the engine can show `InvalidSpec` instead of failing. What the user wrote (quantities, durations,
env) is kept as written; the properties give it as values. Relies on `shape`; nearly everything relies on this.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import msgspec
from pydantic import ConfigDict, Field

from nodewright.api.durations import DURATION_PATTERN, DurationError, duration_seconds
from nodewright.api.quantities import Quantity
from nodewright.api.selectors import LabelSelector, Matcher
from nodewright.api.shape import Fault, Model, parse
from nodewright.api.tolerations import Toleration
from nodewright.api.versions import VERSION_PATTERN

# What OpenAPI can say of ADM-10 and ADM-11; `validation` says the same in words.
IMAGE_PATTERN: Final = r"^([^\s@]*/)?[^\s@:/]*$"
CONTAINER_SHA_PATTERN: Final = "^(sha256:[0-9a-f]{64})?$"


class Sequencing(StrEnum):
    """Whether successors wait per node or for all nodes (ROL-17)."""

    NODE = "node"
    ALL = "all"


class InterruptType(StrEnum):
    """What an interrupt does to the host, as spelled in the spec."""

    SERVICE = "service"
    REBOOT = "reboot"
    NOOP = "noop"
    RESTART_ALL_SERVICES = "restartAllServices"


class InterruptionBudget(Model):
    """How many selected nodes may be worked on at once (ROL-5); with neither field set it counts as absent."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["percent", "count"]}})

    percent: int | None = Field(
        default=None,
        json_schema_extra={"minimum": 0, "maximum": 100},
        description="Share of the selected nodes, rounded down, at least one.",
    )
    count: int | None = Field(
        default=None, json_schema_extra={"minimum": 0}, description="Number of nodes; 0 admits none."
    )

    @property
    def is_set(self) -> bool:
        """Whether the budget says anything."""
        return self.percent is not None or self.count is not None


class DeploymentPolicyOptions(Model):
    """What this NodeWright overrides of its policy."""

    reset_batch_state_on_completion: bool | None = Field(
        default=None,
        description="Wins over the policy's own setting for this NodeWright (ROL-15). Unset leaves it to the policy.",
    )


class DrainConfig(Model):
    """How a node is drained before an interrupt (INT-5, INT-6, INT-9)."""

    disable_eviction: bool = Field(
        default=False, description="Delete pods instead of evicting them; bypasses PodDisruptionBudgets."
    )
    delete_empty_dir_data: bool = Field(
        default=True, description="When false, pods with emptyDir volumes block the drain."
    )
    force: bool = Field(default=True, description="When false, pods without a controller block the drain.")
    ignore_daemon_sets: bool = Field(default=True, description="Leave pods of DaemonSets alone.")
    timeout: str | None = Field(
        default=None,
        description="Bounds the whole drain; unset or 0 means no timeout.",
        json_schema_extra={"pattern": DURATION_PATTERN},
    )
    grace_period: str | None = Field(
        default=None,
        description="Overrides the pods' own termination grace period.",
        json_schema_extra={"pattern": DURATION_PATTERN},
    )

    @property
    def timeout_seconds(self) -> float | None:
        """Seconds the whole drain may take; None and 0 mean no bound."""
        return _seconds(self.timeout)

    @property
    def grace_period_seconds(self) -> float | None:
        """Seconds of grace for each pod; None leaves it to the pod, 0 means at once."""
        return _seconds(self.grace_period)


class Interrupt(Model):
    """What has to happen to the node for a package or a config change to take effect."""

    type: InterruptType = Field(description="What runs on the host.")
    services: tuple[str, ...] = Field(default=(), description="Units to restart; only for type service.")


class Resources(Model):
    """Requests and limits of a package's containers; all four or none (ADM-15)."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": ["cpuRequest", "cpuLimit", "memoryRequest", "memoryLimit"]}, {"maxProperties": 0}]
        }
    )

    cpu_request: Quantity | None = Field(default=None, description="CPU request.")
    cpu_limit: Quantity | None = Field(default=None, description="CPU limit, at least the request.")
    memory_request: Quantity | None = Field(default=None, description="Memory request.")
    memory_limit: Quantity | None = Field(default=None, description="Memory limit, at least the request.")

    @property
    def is_set(self) -> bool:
        """Whether all four fields are there, so that they apply (CON-23)."""
        return None not in (self.cpu_request, self.cpu_limit, self.memory_request, self.memory_limit)


class Uninstall(Model):
    """Whether the package can be undone, and whether it shall be (CHG-7 to CHG-10)."""

    enabled: bool = Field(default=False, description="The package can uninstall what it did.")
    apply: bool = Field(default=False, description="Uninstall it from every node.")


class Package(Model):
    """One unit of work: an image whose scripts run on the host."""

    name: str | None = Field(default=None, description="Must not be set: the key of the map is the name.")
    version: str = Field(
        default="",
        description="Semver without a leading v; the image tag and the ordering key.",
        json_schema_extra={"required": True, "pattern": VERSION_PATTERN},
    )
    image: str = Field(
        default="",
        description="Registry and repository, without tag and digest.",
        json_schema_extra={"required": True, "minLength": 1, "pattern": IMAGE_PATTERN},
    )
    container_sha: str | None = Field(
        default=None,
        alias="containerSHA",
        description="sha256 digest that pins the image's bytes.",
        json_schema_extra={"pattern": CONTAINER_SHA_PATTERN},
    )
    interrupt: Interrupt | None = Field(default=None, description="Interrupt to run after the package was applied.")
    depends_on: dict[str, str] = Field(
        default_factory=dict, description="Packages that must be complete first: name to version."
    )
    config_map: dict[str, str] = Field(
        default_factory=dict, description="Configuration files for the package: name to content."
    )
    config_interrupts: dict[str, Interrupt] = Field(
        default_factory=dict,
        description="Interrupt to run when a key of configMap changes; the key may contain * as a wildcard.",
    )
    env: tuple[dict[str, Any], ...] = Field(
        default=(), description="Environment of the package's containers, as in a pod."
    )
    agent_image_override: str | None = Field(default=None, description="Agent image with tag, for this package only.")
    resources: Resources | None = Field(
        default=None, description="CPU and memory of the package's containers; all four or none."
    )
    graceful_shutdown: str | None = Field(
        default=None,
        description="Termination grace period of the package's pods.",
        json_schema_extra={"pattern": DURATION_PATTERN},
    )
    stage_timeout: str | None = Field(
        default=None,
        description="Bounds one attempt at each stage, for an interrupt the whole stage; 0 means no bound.",
        json_schema_extra={"pattern": DURATION_PATTERN},
    )
    uninstall: Uninstall = Field(default_factory=Uninstall, description="Explicit uninstall.")

    @property
    def image_reference(self) -> str:
        """What the kubelet pulls: by digest if pinned, else by version (CON-22)."""
        return f"{self.image}@{self.container_sha}" if self.container_sha else f"{self.image}:{self.version}"

    @property
    def stage_timeout_seconds(self) -> float | None:
        """Seconds one attempt may take; 0 means no bound, None leaves it to the operator's setting."""
        return _seconds(self.stage_timeout)

    @property
    def graceful_shutdown_seconds(self) -> float | None:
        """Seconds a package pod gets to end; None leaves it to Kubernetes."""
        return _seconds(self.graceful_shutdown)


class NodeWrightSpec(Model):
    """What shall be done, to which nodes, how fast."""

    node_selectors: LabelSelector = Field(
        default_factory=LabelSelector, description="Nodes this applies to; empty selects every node of the cluster."
    )
    interruption_budget: InterruptionBudget | None = Field(
        default=None, description="How many nodes may be worked on at once; unset means all. Excludes deploymentPolicy."
    )
    deployment_policy: str = Field(
        default="", description="Name of the DeploymentPolicy for a rollout by compartments."
    )
    deployment_policy_options: DeploymentPolicyOptions = Field(
        default_factory=DeploymentPolicyOptions, description="Overrides of the policy for this NodeWright."
    )
    priority: int = Field(
        default=200, json_schema_extra={"minimum": 1}, description="Order among NodeWrights; lower runs first."
    )
    sequencing: Sequencing = Field(
        default=Sequencing.NODE, description="Whether later NodeWrights wait per node or for all nodes."
    )
    serial: bool = Field(default=False, description="One package at a time on each node.")
    pod_non_interrupt_labels: LabelSelector = Field(
        default_factory=LabelSelector,
        description="Pods that must have left a node before its drain begins; empty protects none.",
    )
    drain_config: DrainConfig = Field(
        default_factory=DrainConfig,
        description="How nodes are drained before an interrupt.",
        json_schema_extra={"default": {}},
    )
    additional_tolerations: tuple[Toleration, ...] = Field(
        default=(), description="Tolerations added to every package pod."
    )
    runtime_required: bool = Field(
        default=False, description="A node must complete this before workloads may run there."
    )
    auto_taint_new_nodes: bool = Field(
        default=False, description="Put the runtime-required taint on new selected nodes; needs runtimeRequired."
    )
    runtime_required_cordon_after: bool = Field(
        default=False, description="Leave the node cordoned when the runtime-required taint is removed."
    )
    packages: dict[str, Package] = Field(default_factory=dict, description="The work, by package name.")

    @cached_property
    def node_selector_matcher(self) -> Matcher:
        """Labels of a node in, whether it is selected out."""
        return self.node_selectors.matcher

    @cached_property
    def protected_pod_matcher(self) -> Matcher:
        """Labels of a pod in, whether it is protected out; an empty selector protects no pod (INT-4)."""
        return (lambda _: False) if self.pod_non_interrupt_labels.empty else self.pod_non_interrupt_labels.matcher

    @property
    def package_list(self) -> str:
        """The packages as `status.packageList` shows them: `name:version`, by name (CON-3)."""
        return ",".join(f"{name}:{package.version}" for name, package in sorted(self.packages.items()))


class Metadata(Model):
    """The part of an object's metadata that its kind's rules look at."""

    name: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()


class NodeWright(Model):
    """A NodeWright without its status, which `status` models."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Field(default_factory=Metadata)
    spec: NodeWrightSpec = Field(default_factory=NodeWrightSpec, json_schema_extra={"default": {}})


def parse_nodewright(raw: bytes | str | Mapping[str, Any]) -> NodeWright | list[Fault]:
    """The object, or all faults of its shape. Never raises; validity is `validation.validate_nodewright`'s to say."""
    return parse(NodeWright, raw, path="")


def parse_nodewright_spec(raw: bytes | str | Mapping[str, Any] | msgspec.Raw) -> NodeWrightSpec | list[Fault]:
    """The spec, or all faults of its shape. Never raises."""
    return parse(NodeWrightSpec, raw, path="spec")


def config_key_matches(pattern: str, name: str) -> bool:
    """Whether a key of `configInterrupts` covers a key of `configMap` (ADM-13).

    `*` stands for any text, everything else for itself.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    *middle, last = rest
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    position, end = len(first), len(name) - len(last)
    for piece in middle:
        position = name.find(piece, position, end)
        if position < 0:
            return False
        position += len(piece)
    return True


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return duration_seconds(text)
    except DurationError:
        return None  # validation says so; nothing of an invalid package is started
