"""The spec against node state: what a version change means for the entries of a package (CHG-6).

Config changes join here. Pure; `facts` calls it after the evidence was recorded.
"""

from collections.abc import Collection

import msgspec

from nodewright.api.nodewright import Package
from nodewright.api.versions import VersionChange, compare_versions
from nodewright.engine.scope import Scope
from nodewright.model.node_state import Entry, NodeState, Stage, State


def follow_versions(
    scope: Scope, entries: NodeState, job_labels: Collection[str], label_of: dict[str, str]
) -> NodeState:
    """Node state as the versions of the spec make it.

    `job_labels` are the package labels of Jobs on the node, `label_of` maps an entry's key to its package label.
    Packages that may not start
    keep what they have, as do packages that are no longer in the spec (LIF-10).
    """
    result = entries
    for name in scope.order:
        if scope.obstacles.of(name) is None:
            result = _follow(scope, name, scope.spec.packages[name], result, job_labels, label_of)
    return result


def _follow(
    scope: Scope, name: str, package: Package, entries: NodeState, job_labels: Collection[str], label_of: dict[str, str]
) -> NodeState:
    wanted = f"{name}|{package.version}"
    others = [e for key, e in entries.items() if e.name == name and key != wanted and e.state is not State.UNKNOWN]
    current = entries.get(wanted)
    if not others and (current is None or current.state is not State.UNKNOWN):
        return entries
    idle = {e.key for e in others if not e.begun and label_of.get(e.key) not in job_labels}
    remaining = [e for e in others if e.key not in idle]
    result = {key: e for key, e in entries.items() if key not in idle}
    if current is None:
        base = max(remaining, key=_recency, default=None)
        if base is not None:
            result[wanted] = _due(scope, name, package, _lane(base, package))
    elif current.state is State.UNKNOWN or any(_ran_since(e, current, scope.generation) for e in remaining):
        result[wanted] = msgspec.structs.replace(_due(scope, name, package, Stage.APPLY), other=current.other)
    return result


def _ran_since(other: Entry, current: Entry, generation: int) -> bool:
    """Whether a stage of another version ran after the current one's.

    Generations tell, unless the CR was made anew (CHG-13) or older software wrote no generation. Then this does:
    what completes its apply or upgrade
    removes or marks the others, so that one at these stages beside one that is past them came later.
    """
    if current.generation < other.generation <= generation:  # one above the CR's own is of a former CR of that name
        return True
    behind = other.stage in (Stage.APPLY, Stage.UPGRADE) and other.state is not State.COMPLETE
    return behind and not (current.stage in (Stage.APPLY, Stage.UPGRADE) and current.state is not State.COMPLETE)


def _recency(entry: Entry) -> tuple[int, bool]:
    """The entry whose lane started last is what the host has; one that is not complete ran later than one that is."""
    return (entry.generation, entry.state is not State.COMPLETE)


def _lane(base: Entry, package: Package) -> Stage:
    return (
        Stage.UPGRADE
        if compare_versions(have=base.version, want=package.version) is VersionChange.INCREASE
        else Stage.APPLY
    )


def _due(scope: Scope, name: str, package: Package, stage: Stage) -> Entry:
    return Entry(
        name=name,
        version=package.version,
        image=package.image,
        container_sha=package.container_sha or "",
        stage=stage,
        state=State.IN_PROGRESS,
        interrupt_pending=package.interrupt is not None,
        generation=scope.generation,
    )


def first_entry(scope: Scope, name: str) -> Entry:
    """The entry of a package that a node has never had (LIF-5)."""
    return _due(scope, name, scope.spec.packages[name], Stage.APPLY)


def restarted(entry: Entry, stage: Stage, package: Package, *, run: str, generation: int) -> Entry:
    """The entry at the start of a stage (LIF-12): the run is new unless the stage was begun already."""
    return msgspec.structs.replace(
        entry,
        stage=stage,
        state=State.IN_PROGRESS,
        run=run,
        restarts=0,
        image=package.image,
        container_sha=package.container_sha or "",
        generation=entry.generation or generation,
    )
