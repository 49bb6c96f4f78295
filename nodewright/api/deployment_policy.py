"""The kind DeploymentPolicy: compartments, budgets and strategies with all defaults (CON-4b, ROL-9).

As `nodewright`: parsing checks shape only. The rollout of the engine relies on it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
from pydantic import ConfigDict, Field

from nodewright.api.nodewright import Metadata
from nodewright.api.selectors import LabelSelector
from nodewright.api.shape import Fault, Model, parse


class StrategyKind(StrEnum):
    """How batch sizes develop (ROL-8), the safest first (ROL-6)."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class Budget(Model):
    """Ceiling of a compartment: exactly one of both (ROL-7)."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["percent"]}, {"required": ["count"]}]})

    percent: int | None = Field(
        default=None,
        json_schema_extra={"minimum": 1, "maximum": 100},
        description="Share of the compartment's nodes, rounded down, at least one.",
    )
    count: int | None = Field(default=None, json_schema_extra={"minimum": 1}, description="Number of nodes.")


class FixedStrategy(Model):
    """Every batch has the same size; also what all strategies have in common."""

    initial_batch: int = Field(default=1, json_schema_extra={"minimum": 1}, description="Size of the first batch.")
    batch_threshold: int = Field(
        default=100,
        json_schema_extra={"minimum": 1, "maximum": 100},
        description="Percent of a batch that must succeed for it to pass.",
    )
    failure_threshold: int | None = Field(
        default=None,
        json_schema_extra={"minimum": 1},
        description="Failed batches in a row that stop the compartment; unset means none does.",
    )
    safety_limit: int = Field(
        default=50,
        json_schema_extra={"minimum": 1, "maximum": 100},
        description="Percent of progress from which failures neither stop the compartment nor shrink batches.",
    )


class LinearStrategy(FixedStrategy):
    """Batches grow and shrink by a number of nodes."""

    delta: int = Field(
        default=1,
        json_schema_extra={"minimum": 1},
        description="Nodes added after a passed batch, taken off after a failed one.",
    )


class ExponentialStrategy(FixedStrategy):
    """Batches grow and shrink by a factor."""

    growth_factor: int = Field(
        default=2,
        json_schema_extra={"minimum": 2},
        description="Factor after a passed batch, divisor after a failed one.",
    )


class Strategy(Model):
    """Exactly one of the three (ADM-21)."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["fixed"]}, {"required": ["linear"]}, {"required": ["exponential"]}]}
    )

    fixed: FixedStrategy | None = Field(default=None, description="Batches of one size.")
    linear: LinearStrategy | None = Field(default=None, description="Batches that grow by a number of nodes.")
    exponential: ExponentialStrategy | None = Field(default=None, description="Batches that grow by a factor.")

    @property
    def kind(self) -> StrategyKind | None:
        """Which one is set, the safest if an invalid policy sets several; None if it sets none."""
        for kind, parameters in zip(StrategyKind, (self.fixed, self.linear, self.exponential), strict=True):
            if parameters is not None:
                return kind
        return None

    @property
    def parameters(self) -> FixedStrategy | LinearStrategy | ExponentialStrategy | None:
        """The parameters of `kind`."""
        return self.fixed or self.linear or self.exponential


class PolicyDefault(Model):
    """Budget and strategy of the nodes that no compartment's selector matches."""

    budget: Budget = Field(
        default_factory=Budget,
        description="How many of these nodes may be worked on at once.",
        json_schema_extra={"required": True},
    )
    strategy: Strategy | None = Field(
        default=None, description="How batch sizes develop; unset means batches of the budget's size."
    )


class Compartment(PolicyDefault):
    """Nodes of one kind, with a budget and strategy of their own."""

    name: str = Field(
        default="", description="Name, unique in the policy.", json_schema_extra={"required": True, "minLength": 1}
    )
    selector: LabelSelector = Field(default_factory=LabelSelector, description="Nodes of the compartment.")


class DeploymentPolicySpec(Model):
    """How a rollout proceeds, compartment by compartment."""

    default: PolicyDefault | None = Field(default=None, description="For nodes that no compartment's selector matches.")
    compartments: tuple[Compartment, ...] = Field(
        default=(), description="Kinds of nodes; a node belongs to the safest that selects it."
    )
    reset_batch_state_on_completion: bool = Field(
        default=True,
        description="Start with the first batch again when a rollout has completed or the packages change.",
    )


class DeploymentPolicy(Model):
    """A DeploymentPolicy."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Field(default_factory=Metadata)
    spec: DeploymentPolicySpec = Field(default_factory=DeploymentPolicySpec)


def parse_policy(raw: bytes | str | Mapping[str, Any]) -> DeploymentPolicy | list[Fault]:
    """The object, or all faults of its shape. Never raises."""
    return parse(DeploymentPolicy, raw, path="")


def parse_policy_spec(raw: bytes | str | Mapping[str, Any] | msgspec.Raw) -> DeploymentPolicySpec | list[Fault]:
    """The spec, or all faults of its shape. Never raises."""
    return parse(DeploymentPolicySpec, raw, path="spec")
