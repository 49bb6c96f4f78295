"""What is published of a CR: its Status, its conditions, its nodes (ROL-21 to ROL-24, CON-5, CON-6).

Built only when it may be written: `build_status` costs O(nodes), and reads results of the pass without changing
them. Relies on `conditions`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from nodewright.engine.batches import BatchState, progress
from nodewright.engine.conditions import NAMES_SHOWN, Wanted, merge, names_or_count
from nodewright.engine.facts import NodeFacts, Outcome
from nodewright.engine.node_plan import Mode, NodeOutcome, Status
from nodewright.engine.rollout import Compartment
from nodewright.engine.scope import Scope
from nodewright.engine.troubles import Trouble
from nodewright.model import node_state
from nodewright.model.pick import Pick
from nodewright.model.reason import Code, Reason
from nodewright.model.snapshot import CR

MAX_BYTES = 900 * 1024

_READY_REASON = {
    Status.COMPLETE: "NodesConverged",
    Status.IN_PROGRESS: "Progressing",
    Status.BLOCKED: "Blocked",
    Status.ERRORING: "Erroring",
    Status.WAITING: "Waiting",
    Status.PAUSED: "Paused",
    Status.DISABLED: "Disabled",
    Status.UNKNOWN: "Unknown",
}
_BUCKETS = (
    (Status.IN_PROGRESS, "in progress"),
    (Status.BLOCKED, "blocked"),
    (Status.ERRORING, "erroring"),
    (Status.WAITING, "waiting"),
    (Status.PAUSED, "paused"),
    (Status.DISABLED, "disabled"),
    (Status.UNKNOWN, "unknown"),
)


@dataclass(frozen=True, slots=True)
class CompartmentResult:
    """One compartment as a pass left it."""

    compartment: Compartment
    state: BatchState
    under_way: int
    facts: tuple[NodeFacts, ...]


@dataclass(frozen=True, slots=True)
class PassResult:
    """All a pass worked out, for what is published. `outcomes` has every selected node, `picks` those that are not over."""

    cr: CR
    scope: Scope
    mode: Mode
    now: float
    cr_status: Status
    facts: Mapping[str, NodeFacts]
    outcomes: Mapping[str, NodeOutcome]
    picks: Mapping[str, Pick]
    compartments: tuple[CompartmentResult, ...]
    rollout: int
    next_order: int
    package_list: str
    barrier: Reason | None
    held: Mapping[str, Reason]
    troubles: tuple[Trouble, ...]
    foreign: tuple[Reason, ...] = ()
    """Names of node metadata ConfigMaps that somebody else has (CHG-13)."""


def cr_status(
    statuses: Iterable[Status], *, mode: Mode, barrier: bool, policy_missing: bool = False, invalid: bool = False
) -> Status:
    """ROL-21: all complete, else what was ordered, else the most telling Status of a node. A spec that cannot be read is blocked."""
    seen = Counter(statuses)
    if policy_missing or invalid:
        return Status.BLOCKED
    if all(status is Status.COMPLETE for status in seen):
        return Status.COMPLETE
    if mode is not Mode.RUN:
        return Status.PAUSED if mode is Mode.PAUSED else Status.DISABLED
    if barrier:
        return Status.WAITING
    for status in (Status.IN_PROGRESS, Status.ERRORING, Status.BLOCKED, Status.WAITING):
        if seen[status]:
            return status
    return Status.UNKNOWN


def build_status(result: PassResult) -> dict[str, Any]:
    """The whole status of the CR as plain JSON values, small enough for etcd (CON-6)."""
    fields = whole_status(result)
    complete = {name for name, o in result.outcomes.items() if o.status is Status.COMPLETE}
    truncated = _truncate(fields, complete)
    wanted = list(wanted_conditions(result))
    if truncated:
        wanted.append(
            Wanted("StatusTruncated", f"left out to stay below {MAX_BYTES // 1024} KiB: {', '.join(truncated)}")
        )
    fields["conditions"] = merge(
        result.cr.published.get("conditions"), wanted, generation=result.cr.meta.generation, now=result.now
    )
    return fields


def whole_status(result: PassResult) -> dict[str, Any]:
    """The status without conditions, before anything is left out for its size."""
    return {
        "observedGeneration": result.cr.meta.generation,
        "status": result.cr_status.value,
        "nodeStatus": {name: o.status.value for name, o in sorted(result.outcomes.items())},
        "nodeState": {name: node_state.to_plain(o.entries) for name, o in sorted(result.outcomes.items()) if o.entries},
        "nodePriority": {name: pick.time for name, pick in sorted(result.picks.items())},
        "nodeOrder": {name: pick.order for name, pick in sorted(result.picks.items())},
        "nodeOrderOffset": result.next_order,
        "rollout": result.rollout,
        "compartmentStatuses": {c.compartment.name: _compartment(c) for c in result.compartments},
        "nodesInProgress": sum(1 for o in result.outcomes.values() if o.status is Status.IN_PROGRESS),
        "completeNodes": f"{sum(1 for o in result.outcomes.values() if o.status is Status.COMPLETE)}/{len(result.outcomes)}",
        "packageList": result.package_list,
    }


def _compartment(result: CompartmentResult) -> dict[str, Any]:
    total = len(result.facts)
    complete = sum(1 for one in result.facts if one.outcome is Outcome.COMPLETE)
    failed = sum(1 for one in result.facts if one.outcome is Outcome.ERRORING)
    return {
        "matched": total,
        "ceiling": result.compartment.ceiling,
        "inProgress": result.under_way,
        "completed": complete,
        "progressPercent": progress(processed=complete + failed, total=total),
        "batchState": result.state.to_fields(),
    }


def _truncate(fields: dict[str, Any], complete: set[str]) -> list[str]:
    """Leave out parts in the order of CON-6 until the rest is small enough; returns what was left out."""
    left_out: list[str] = []

    def too_large() -> bool:
        return len(msgspec.json.encode(fields)) > MAX_BYTES

    steps: tuple[tuple[str, tuple[str, ...], bool], ...] = (
        ("nodeState of complete nodes", ("nodeState",), True),
        ("nodeState", ("nodeState",), False),
        ("nodeStatus of complete nodes", ("nodeStatus",), True),
        ("nodePriority and nodeOrder", ("nodePriority", "nodeOrder"), False),
    )
    for description, names, only_complete in steps:
        if not too_large():
            break
        for name in names:
            kept = (
                {node: value for node, value in fields[name].items() if node not in complete} if only_complete else {}
            )
            fields[name] = kept
        left_out.append(description)
    return left_out


def buckets(result: PassResult) -> dict[str, list[str]]:
    """The nodes by Status as ROL-22 lists them, names sorted; the full lists are logged where the message shows none."""
    by_status: dict[Status, list[str]] = {}
    for name, outcome in sorted(result.outcomes.items()):
        by_status.setdefault(outcome.status, []).append(name)
    named = {"complete": by_status.get(Status.COMPLETE, [])}
    return named | {label: by_status[status] for status, label in _BUCKETS if status in by_status}


def long_lists(result: PassResult) -> dict[str, tuple[str, ...]]:
    """The buckets whose names the message leaves out for their number (ROL-22)."""
    return {bucket: tuple(names) for bucket, names in buckets(result).items() if len(names) > NAMES_SHOWN}


def ready_message(result: PassResult) -> str:
    """ROL-22's text."""
    parts = buckets(result)
    complete = parts.pop("complete")
    text = f"{len(complete)}/{len(result.outcomes)} nodes complete{_listed(complete)}"
    return text + "".join(f", {len(names)} {label}{_listed(names)}" for label, names in parts.items())


def _listed(names: list[str]) -> str:
    if not names:
        return ""
    return " (list truncated; see controller logs)" if len(names) > NAMES_SHOWN else f" ({', '.join(names)})"


def wanted_conditions(result: PassResult) -> Iterable[Wanted]:
    """Every condition that holds now (ROL-22 to ROL-23)."""
    complete = result.cr_status is Status.COMPLETE
    yield Wanted("Ready", ready_message(result), _READY_REASON[result.cr_status], status=complete)
    running = _running(result)
    if running:
        yield Wanted("ApplyPackage", f"stages run of {', '.join(running)}")
    ignored = [name for name, one in result.facts.items() if one.ignored]
    if ignored:
        yield Wanted("NodesIgnored", f"label nodewright.nvidia.com/ignore is set on {names_or_count(ignored, 'node')}")
    tainted = [name for name, one in result.facts.items() if one.untolerated and not one.complete]
    if tainted:
        yield Wanted("TaintNotTolerable", _tainted(result, tainted))
    malformed = [name for name, one in result.facts.items() if one.malformed is not None]
    if malformed:
        yield Wanted(
            "NodeStateMalformed",
            f"node state is not readable on {names_or_count(malformed, 'node')}{_total(malformed)}",
        )
    images = sorted({t.text for t in result.troubles if t.code is Code.IMAGE_PULL})
    if images:
        yield Wanted("ImagePullFailed", "; ".join(images[:NAMES_SHOWN]))
    unsupported = [
        *result.scope.obstacles.unsupported,
        *(r.text for r in result.held.values() if r.code is Code.UNSUPPORTED),
    ]
    if unsupported:
        yield Wanted(
            "Unsupported",
            f"not supported by this version, the packages concerned are not started: {'; '.join(unsupported)}",
        )
    stopped = [c for c in result.compartments if c.state.should_stop]
    if stopped:
        yield Wanted("RolloutStopped", "; ".join(_stopped(c) for c in stopped))
    stalled = _stalled(result, malformed=malformed, stopped=bool(stopped))
    if stalled is not None:
        yield stalled


def _running(result: PassResult) -> list[str]:
    """The packages of which a stage runs, or starts in this pass: between two stages of a package the condition does not blink."""
    names = {
        p.name
        for one in result.facts.values()
        if one.unfinished
        for p in one.packages
        if p.view is not None and not p.view.job.finished
    }
    names.update(create.package for o in result.outcomes.values() for create in o.plan.creates)
    return sorted(names)


def _tainted(result: PassResult, names: list[str]) -> str:
    shown = names_or_count(names, "node")
    taints = sorted({f"{t.key}:{t.effect}" for name in names for t in result.facts[name].untolerated})
    return f"{shown} with taints that package pods do not tolerate: {', '.join(taints[:NAMES_SHOWN])}"


def _total(names: list[str]) -> str:
    return f" ({len(names)} in all)" if len(names) > NAMES_SHOWN else ""


def _stopped(result: CompartmentResult) -> str:
    failed = [one.name for one in result.facts if one.pick is not None and one.pick.outcome == "erroring"]
    where = f"compartment {result.compartment.name} stopped after batch {result.state.current_batch}"
    return f"{where}: {names_or_count(failed, 'failed node')}"


def _stalled(result: PassResult, *, malformed: list[str], stopped: bool) -> Wanted | None:
    """While nothing will move without a person (ROL-22a)."""
    moving = any(o.status in (Status.IN_PROGRESS, Status.WAITING) for o in result.outcomes.values())
    if result.scope.obstacles.invalid:
        return Wanted("Stalled", "; ".join(result.scope.obstacles.invalid), "InvalidSpec")
    if stopped:
        return Wanted(
            "Stalled", "a compartment stopped after failed batches; reset its batch state to go on", "RolloutStopped"
        )
    if moving or result.mode is not Mode.RUN:
        return None
    failed = sorted(name for name, o in result.outcomes.items() if o.status is Status.ERRORING)
    if failed:
        return Wanted(
            "Stalled",
            f"stages failed for good on {names_or_count(failed, 'node')}; rerun the package, change it, or delete the failed Jobs",
            "StageFailed",
        )
    if malformed:
        return Wanted(
            "Stalled",
            f"repair or remove the nodeState annotation on {names_or_count(malformed, 'node')}",
            "NodeStateMalformed",
        )
    return None
