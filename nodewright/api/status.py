"""The status of a NodeWright as other software reads it (CON-5), and the words of node state (CON-10).

Status is published, not obeyed: what is misshapen in it is left out, never an error (LIF-1). Relies on `shape`; the engine
reads batch state and conditions back from it and writes all of it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
from pydantic import Field

from nodewright.api.shape import Model, parse_leniently


class Status(StrEnum):
    """Status of a node for a CR, and of a CR (ROL-20, ROL-21)."""

    COMPLETE = "complete"
    IN_PROGRESS = "in_progress"
    WAITING = "waiting"
    BLOCKED = "blocked"
    ERRORING = "erroring"
    PAUSED = "paused"
    DISABLED = "disabled"
    UNKNOWN = "unknown"


class Stage(StrEnum):
    """Stage of a package on a node (CON-10)."""

    APPLY = "apply"
    CONFIG = "config"
    INTERRUPT = "interrupt"
    POST_INTERRUPT = "post-interrupt"
    UPGRADE = "upgrade"
    UNINSTALL = "uninstall"
    UNINSTALL_INTERRUPT = "uninstall-interrupt"


class State(StrEnum):
    """State of a package at its stage on a node (CON-10)."""

    COMPLETE = "complete"
    IN_PROGRESS = "in_progress"
    SKIPPED = "skipped"
    ERRORING = "erroring"
    UNKNOWN = "unknown"


class Condition(Model):
    """One condition, as Kubernetes has it."""

    type: str = Field(default="", description="Type, unique in the list.", json_schema_extra={"required": True})
    status: str = Field(default="", description="True, False or Unknown.", json_schema_extra={"required": True})
    reason: str = Field(default="", description="One word for programs.", json_schema_extra={"required": True})
    message: str = Field(default="", description="A sentence for people.")
    last_transition_time: str = Field(
        default="",
        description="When the status last changed.",
        json_schema_extra={"required": True, "format": "date-time"},
    )
    observed_generation: int = Field(default=0, description="Generation of the spec it was computed for.")


class BatchState(Model):
    """Where a compartment is in its rollout (ROL-11)."""

    current_batch: int = Field(default=1, description="Number of the batch, from 1.")
    evaluated: bool = Field(default=False, description="Whether the current batch has been evaluated.")
    consecutive_failures: int = Field(default=0, description="Failed batches in a row.")
    completed_nodes: int = Field(default=0, description="Nodes that succeeded since the batch state was last reset.")
    failed_nodes: int = Field(default=0, description="Nodes that failed since the batch state was last reset.")
    should_stop: bool = Field(default=False, description="No new batch is picked until the batch state is reset.")
    last_batch_size: int = Field(default=0, description="Size the strategy gave the last batch.")
    last_batch_failed: bool = Field(default=False, description="Whether the last batch failed.")


class CompartmentStatus(Model):
    """One compartment of the rollout."""

    matched: int = Field(default=0, description="Nodes of the compartment.")
    ceiling: int = Field(default=0, description="Nodes its budget allows at once.")
    in_progress: int = Field(default=0, description="Nodes being worked on.")
    completed: int = Field(default=0, description="Complete nodes.")
    progress_percent: int = Field(default=0, description="Complete and erroring nodes, in percent of all.")
    batch_state: BatchState = Field(default_factory=BatchState, description="Where the rollout is.")


class NodeWrightStatus(Model):
    """The operator's published view; every field may be absent."""

    observed_generation: int = Field(default=0, description="Generation of the spec that has been computed.")
    status: str = Field(default="", description="Status of the whole.")
    node_status: dict[str, str] = Field(default_factory=dict, description="Status of each selected node.")
    node_state: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Each node's entries, by package|version."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="Conditions by type.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    node_boot_ids: dict[str, str] = Field(default_factory=dict, description="Boot ID each node's work was done under.")
    node_priority: dict[str, str] = Field(default_factory=dict, description="When each node was picked.")
    node_order: dict[str, int] = Field(default_factory=dict, description="SKYHOOK_NODE_ORDER of each picked node.")
    node_order_offset: int = Field(default=0, description="The next number to give.")
    rollout: int = Field(default=0, description="Rises whenever batch state returns to its start.")
    config_updates: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Changed configMap keys of each package that are not settled yet."
    )
    compartment_statuses: dict[str, CompartmentStatus] = Field(
        default_factory=dict, description="Each compartment of the rollout."
    )
    nodes_in_progress: int = Field(default=0, description="Nodes being worked on.")
    complete_nodes: str = Field(default="", description="Complete of all selected nodes, as 3/5.")
    package_list: str = Field(default="", description="Packages as name:version, separated by commas.")


def parse_status(raw: bytes | str | Mapping[str, Any] | msgspec.Raw | None) -> NodeWrightStatus:
    """The status, without what is misshapen in it. Never raises."""
    if raw is None:
        return NodeWrightStatus()
    return parse_leniently(NodeWrightStatus, raw, path="status")[0]
