"""What Jobs and pods prove, written into node state (JOB-3 to JOB-6, LIF-11, LIF-12a).

Pure: takes node state as it is on the node and returns what it becomes. A Job speaks only for an entry with its
stage and run; neither a Job nor a pod
creates an entry (JOB-4), and evidence never moves a complete one (JOB-5).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from nodewright.api.versions import VersionChange, compare_versions
from nodewright.engine.evidence import Verdict
from nodewright.engine.jobviews import JobView
from nodewright.model.node_state import Entry, NodeState, Stage, State
from nodewright.workloads.claims import package_label


@dataclass(frozen=True, slots=True)
class Ended:
    """A stage that ended in this pass, for the events of JOB-17."""

    package: str
    version: str
    stage: Stage
    succeeded: bool


@dataclass(frozen=True, slots=True)
class Recorded:
    """Node state with all evidence in it, and which stages ended with that."""

    entries: NodeState
    ended: tuple[Ended, ...]


def record(state: NodeState, views: Iterable[JobView]) -> Recorded:
    """Apply what the Jobs prove."""
    entries = dict(state)
    by_label = {package_label(entry.name, entry.version): key for key, entry in state.items()}
    ended: list[Ended] = []
    for view in views:
        key = by_label.get(view.claim.package)
        if key is None or key not in entries:
            continue
        entry = _adopted(entries[key], view)
        moved = advance(entry, view)
        if speaks_for(view, entry):
            ended += _endings(entry, moved, view)
        entries[key] = moved
        if moved.state is State.COMPLETE and entry.state is not State.COMPLETE:
            entries = settle_versions(entries, moved)
    return Recorded(entries, tuple(ended))


def speaks_for(view: JobView, entry: Entry) -> bool:
    """Whether the Job is this start of this stage (LIF-12a). For a marker of another version nothing speaks any more (CHG-6)."""
    return (
        entry.state is not State.UNKNOWN
        and bool(view.claim.run)
        and entry.stage is view.claim.stage
        and entry.run == view.claim.run
    )


def _adopted(entry: Entry, view: JobView) -> Entry:
    """An entry without a run, as people and older software write it, takes over an unfinished Job that matches (LIF-12a)."""
    if entry.run or entry.stage is not view.claim.stage or entry.state is State.COMPLETE:
        return entry
    if view.job.finished or view.terminating or not view.matches or (entry.stage is Stage.CONFIG and entry.config_keys):
        return entry
    return msgspec.structs.replace(entry, run=view.claim.run)


def advance(entry: Entry, view: JobView) -> Entry:
    """The entry after what the Job says, if it speaks for it."""
    if not speaks_for(view, entry) or entry.state is State.COMPLETE:
        return entry
    state = _state(entry, view)
    return msgspec.structs.replace(entry, state=state, restarts=view.evidence.restarts)


def _state(entry: Entry, view: JobView) -> State:
    evidence = view.evidence
    if evidence.verdict is Verdict.COMPLETE:
        return State.COMPLETE
    if evidence.verdict is Verdict.FAILED:
        return State.ERRORING
    if evidence.verdict is Verdict.UNPROVEN or view.job.spec.suspend:
        return entry.state
    if evidence.attempt_runs and not entry.stage.is_interrupt:
        return State.IN_PROGRESS
    if evidence.failing:
        return State.ERRORING
    return entry.state


def _endings(before: Entry, after: Entry, view: JobView) -> list[Ended]:
    if after.state is State.COMPLETE and before.state is not State.COMPLETE:
        return [Ended(after.name, after.version, after.stage, succeeded=True)]
    news = not view.claim.marked or before.state is not State.ERRORING  # the proof may come after the mark
    if view.job.finished and news and after.state is State.ERRORING:
        return [Ended(after.name, after.version, after.stage, succeeded=False)]
    return []


def failed_for_good(entry: Entry, view: JobView) -> bool:
    """Whether the Job is the sign that the stage failed for good (JOB-6); FailureTarget is enough."""
    if not speaks_for(view, entry) or entry.state is not State.ERRORING:
        return False
    return view.evidence.verdict in (Verdict.FAILED, Verdict.UNPROVEN)


def settle_versions(entries: NodeState, done: Entry) -> dict[str, Entry]:
    """What a completed apply or upgrade means for the package's other versions (CHG-6)."""
    result: dict[str, Entry] = {}
    for key, entry in entries.items():
        if entry.name != done.name or entry.version == done.version:
            result[key] = entry
        elif done.stage is Stage.UPGRADE and _older(entry.version, done.version):
            continue
        elif done.stage is Stage.APPLY and entry.state is not State.UNKNOWN:
            result[key] = msgspec.structs.replace(entry, state=State.UNKNOWN)
        else:
            result[key] = entry
    return result


def _older(version: str, than: str) -> bool:
    return compare_versions(have=version, want=than) is VersionChange.INCREASE
