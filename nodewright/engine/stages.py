"""The next stage of one package on one node (LIF-5, LIF-7, LIF-9): complete, running, due, waiting or failed.

Pure and free of time: what waits for a moment carries that moment. `facts` calls it for each package in the order of the graph.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from nodewright.api.nodewright import Package
from nodewright.engine.changes import first_entry
from nodewright.engine.evidence import Verdict
from nodewright.engine.graph import unmet_dependency
from nodewright.engine.jobviews import JobView, NodeJobs
from nodewright.engine.record import failed_for_good, speaks_for
from nodewright.engine.scope import Scope
from nodewright.model.node_state import Entry, NodeState, Stage, State
from nodewright.model.reason import Code, Reason

RETRY_SECONDS = 10.0
RETRY_LIMIT_SECONDS = 600.0


class Progress(Enum):
    """How a package stands on a node."""

    COMPLETE = auto()
    RUNNING = auto()  # an unfinished Job of this run
    WAITING = auto()  # goes on by itself: a back-off, an old Job that has to go
    DUE = auto()  # its next stage may start
    FAILED = auto()  # for good: an explicit signal restarts it (JOB-6)
    HELD = auto()  # by something else: a dependency, a field that is not supported, a name that is taken


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """A package on a node. `stage` and `entry` are what runs or would start; `run` the token it keeps, empty for a new one."""

    name: str
    progress: Progress
    entry: Entry | None = None
    stage: Stage | None = None
    run: str = ""
    reason: Reason | None = None
    begun: bool = False
    not_before: float | None = None
    view: JobView | None = None


def package_facts(
    scope: Scope,
    name: str,
    entries: NodeState,
    jobs: NodeJobs,
    *,
    node: str,
    done: Mapping[str, str],
    held: Reason | None,
) -> PackageFacts:
    """Where a package of the spec stands. `done` maps the complete packages to their versions, `held` keeps it from starting."""
    package = scope.spec.packages[name]
    entry = entries.get(f"{name}|{package.version}")
    if entry is not None and entry.stage.is_uninstall:
        reason = Reason(
            Code.UNSUPPORTED,
            f"package {name} is inside the uninstall lane ({entry.stage})",
            "remove its entry from node state",
        )
        return PackageFacts(name, Progress.HELD, entry, entry.stage, reason=reason)
    if entry is None:
        entry, begun, stage = first_entry(scope, name), False, Stage.APPLY
    else:
        begun = entry.begun
        following = next_stage(entry)
        if following is None and not owes_interrupt(entry, package):
            return PackageFacts(name, Progress.COMPLETE, entry, entry.stage, begun=True)
        if following is None:
            return PackageFacts(name, Progress.HELD, entry, Stage.INTERRUPT, reason=held, begun=True)
        stage = following
    job_name = scope.job_name(package, name, stage, node)
    view = jobs.named(job_name)
    if view is not None:
        return _with_job(name, entry, stage, view, begun=begun)
    if name in jobs.working or jobs.leaving(job_name):
        # Never two pods of a package on a host at once (B128): what another stage, version or run of it left has to go first.
        return PackageFacts(name, Progress.WAITING, entry, stage, reason=_waits_for_old(name), begun=begun)
    if job_name in jobs.taken:
        reason = Reason(
            Code.JOB_NAME_TAKEN, f"Job {job_name} belongs to somebody else", "delete that Job, or wait until it is gone"
        )
        return PackageFacts(name, Progress.HELD, entry, stage, reason=reason, begun=begun)
    if held is not None:
        progress = Progress.WAITING if held.code is Code.CONFIG_LEAVING else Progress.HELD
        return PackageFacts(name, progress, entry, stage, reason=held, begun=begun)
    if stage in (Stage.APPLY, Stage.UPGRADE):
        unmet = unmet_dependency(name, package, done)
        if unmet is not None:
            reason = Reason(Code.DEPENDENCY, f"package {name} waits for {unmet}", f"{unmet} completes on the node")
            return PackageFacts(name, Progress.HELD, entry, stage, reason=reason, begun=begun)
    run = entry.run if entry.at(stage, State.IN_PROGRESS) else ""
    return PackageFacts(name, Progress.DUE, entry, stage, run=run, begun=begun)


def _waits_for_old(what: str) -> Reason:
    return Reason(Code.JOB_TERMINATING, f"waits for the old Job of {what} to go", "the Job's pods are gone")


def owes_interrupt(entry: Entry, package: Package) -> bool:
    """Whether the package's own interrupt is still owed (LIF-8): not by one that no longer declares an interrupt."""
    return entry.interrupt_pending and entry.stage is Stage.CONFIG and package.interrupt is not None


def next_stage(entry: Entry) -> Stage | None:
    """The stage the entry is at or goes to; None when the package is complete but for an interrupt it may owe (LIF-9)."""
    if entry.stage in (Stage.INTERRUPT,):
        # The spec declares no interrupt (else the package would not get here): removing it neither blocks nor repeats (LIF-8).
        return Stage.POST_INTERRUPT
    if entry.state is not State.COMPLETE:
        return entry.stage
    return Stage.CONFIG if entry.stage in (Stage.APPLY, Stage.UPGRADE) else None


def _with_job(name: str, entry: Entry, stage: Stage, view: JobView, *, begun: bool) -> PackageFacts:
    def facts(progress: Progress, reason: Reason | None, not_before: float | None = None) -> PackageFacts:
        return PackageFacts(
            name,
            progress,
            entry,
            stage,
            run=entry.run,
            reason=reason,
            begun=begun or progress is Progress.RUNNING,
            not_before=not_before,
            view=view,
        )

    speaks = entry.stage is stage and speaks_for(view, entry)
    if view.terminating or not speaks or not view.matches:
        return facts(Progress.WAITING, _waits_for_old(f"{stage} of package {name}"))
    if failed_for_good(entry, view):
        text = f"package {name} failed for good at {stage}"
        return facts(
            Progress.FAILED, Reason(Code.STAGE_FAILED, text, f"rerun the package, change it, or delete Job {view.name}")
        )
    if view.evidence.verdict is Verdict.RUNNING:
        return facts(Progress.RUNNING, Reason(Code.RUNNING, f"package {name} runs {stage}"))
    if view.evidence.verdict is Verdict.UNPROVEN:
        text = f"{stage} of package {name} ended without a failure of its own"
        return facts(
            Progress.WAITING, Reason(Code.RETRY_BACKOFF, text, "it runs again after a back-off"), retry_at(view)
        )
    return facts(Progress.WAITING, None)


def retry_at(view: JobView) -> float | None:
    """When a stage that failed without proof runs again (JOB-6): 10 s after the end, doubling to 10 min; None until the Job has ended."""
    end = view.job.condition("Failed")
    if end is None:
        return None
    delay = min(RETRY_SECONDS * 2.0 ** min(view.claim.unproven, 10), RETRY_LIMIT_SECONDS)
    return seconds(end.last_transition_time) + delay


def seconds(text: str | None) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0 when there is none."""
    if not text:
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):  # a moment that this machine's clock cannot name
        return 0.0
