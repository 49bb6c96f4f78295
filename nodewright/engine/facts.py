"""Everything about one node that does not depend on other nodes or on time: evidence recorded, versions followed, each package's progress.

`evaluate` is pure and its result depends on the identity of its inputs alone, so the engine keeps it until one of
them changes; a pass costs what
changed. Relies on `record`, `changes`, `stages`; `ordering`, `rollout` and `node_plan` read the result.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from nodewright.api import keys
from nodewright.engine.changes import follow_versions
from nodewright.engine.evidence import Verdict
from nodewright.engine.jobviews import JobView, NodeJobs, view_jobs
from nodewright.engine.record import Ended, failed_for_good, record, speaks_for
from nodewright.engine.scope import Scope
from nodewright.engine.stages import PackageFacts, Progress, package_facts
from nodewright.engine.troubles import Trouble, find_troubles
from nodewright.model import node_state, pick
from nodewright.model.node_state import Entry, Malformed, NodeState, Stage, State
from nodewright.model.objects import Job, Node, Pod, Taint
from nodewright.model.pick import Pick
from nodewright.model.reason import Code, Reason
from nodewright.workloads.claims import package_label


class Outcome(Enum):
    """A definite outcome of a member of a batch (ROL-10)."""

    COMPLETE = auto()
    ERRORING = auto()
    BLOCKED = auto()


@dataclass(frozen=True, slots=True, eq=False)
class NodeFacts:
    """One selected node as its CR sees it.

    `before` is node state as it stands on the node, `entries` what it becomes by evidence and version changes alone.
    `packages` are in the order of the
    graph, `startable` those that start as soon as the node may. `unfinished` own Jobs hold a slot (JOB-12).
    `outcome` is set once nothing will move without a change from outside.
    """

    node: Node
    before: NodeState
    entries: NodeState
    malformed: str | None
    jobs: NodeJobs
    packages: tuple[PackageFacts, ...]
    ended: tuple[Ended, ...]
    pick: Pick | None
    ignored: bool
    untolerated: tuple[Taint, ...]
    complete: bool
    unfinished: bool
    own_cordon: bool
    startable: tuple[PackageFacts, ...]
    moving: bool
    failed: bool
    outcome: Outcome | None
    last_status: str
    troubles: tuple[Trouble, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    @property
    def involved(self) -> bool:
        """The node has an entry, a Job or an own cordon of the CR: its pick is not void (ROL-13)."""
        return bool(self.entries) or bool(self.jobs.own) or self.own_cordon or self.malformed is not None


def evaluate(
    scope: Scope, node: Node, jobs: tuple[Job, ...], pods: tuple[Pod, ...], held: Mapping[str, Reason]
) -> NodeFacts:
    """The facts of a node. `held` keeps packages from starting for a reason outside the node (a refused ConfigMap)."""
    annotations = node.metadata.annotations
    parsed = node_state.parse(annotations.get(scope.keys.state))
    views = view_jobs(scope, node, jobs, pods)
    unfinished = any(not v.job.finished for v in views.own)
    malformed = parsed.message if isinstance(parsed, Malformed) else None
    before: NodeState = {} if isinstance(parsed, Malformed) else parsed
    recorded = record(before, views.own if malformed is None else ())
    entries = recorded.entries
    packages: tuple[PackageFacts, ...] = ()
    if malformed is None:
        entries = _followed(scope, entries, views)
        packages = _packages(scope, node, entries, views, held)
    own_pick = pick.parse(annotations.get(scope.keys.pick))
    own_cordon = annotations.get(scope.keys.cordon) == "true"
    complete = malformed is None and all(p.progress is Progress.COMPLETE for p in packages)
    ignored = node.metadata.labels.get(keys.IGNORE_LABEL) == "true"
    untolerated = _untolerated(scope, node, own_pick, (*before.values(), *entries.values()))
    startable = _startable(packages, serial=scope.spec.serial)
    moving = any(p.progress in (Progress.RUNNING, Progress.WAITING) for p in packages)
    failed = any(p.progress is Progress.FAILED for p in packages)
    return NodeFacts(
        node=node,
        before=before,
        entries=entries,
        malformed=malformed,
        jobs=views,
        packages=packages,
        ended=recorded.ended,
        pick=own_pick,
        ignored=ignored,
        untolerated=untolerated,
        complete=complete,
        unfinished=unfinished,
        own_cordon=own_cordon,
        startable=startable,
        moving=moving,
        failed=failed,
        outcome=_outcome(
            complete=complete and not own_cordon,
            ignored=ignored,
            shut=malformed is not None or bool(untolerated),
            holds_slot=unfinished or (malformed is not None and own_cordon),
            moves=moving or bool(startable) or (complete and own_cordon),
            failed=failed,
        ),
        last_status=annotations.get(scope.keys.status, ""),
        troubles=find_troubles(node, views.own, pods) if views.own else (),
    )


def _outcome(
    *, complete: bool, ignored: bool, shut: bool, holds_slot: bool, moves: bool, failed: bool
) -> Outcome | None:
    """ROL-2, ROL-3, ROL-10, LIF-4: a tainted or malformed member keeps its slot while a Job of it is unfinished, an
    ignored one does not."""
    if complete:
        return Outcome.COMPLETE
    if ignored:
        return Outcome.BLOCKED
    if shut:
        return None if holds_slot else Outcome.BLOCKED
    if moves:
        return None
    return Outcome.ERRORING if failed else Outcome.BLOCKED


def _untolerated(scope: Scope, node: Node, own_pick: Pick | None, entries: Iterable[Entry]) -> tuple[Taint, ...]:
    """The taints that make the node blocked; a member at work is exempt from those of a node that is away for a moment (ROL-3).

    `entries` are those on the node and those of this pass: a stage that ends just now does not release the slot of one whose next is due.
    """
    if not node.spec.taints:
        return ()
    lasting, lifecycle = scope.untolerated(node.spec.taints)
    exempt = own_pick is not None and not own_pick.over and any(_at_work(entry) for entry in entries)
    return lasting if exempt else (*lasting, *lifecycle)


def _at_work(entry: Entry) -> bool:
    """In progress from the moment its stage is due (LIF-11), so also when only its first stage is complete."""
    first_done = entry.stage in (Stage.APPLY, Stage.UPGRADE) and entry.state is State.COMPLETE
    return first_done or entry.state in (State.IN_PROGRESS, State.ERRORING)


def _followed(scope: Scope, entries: NodeState, views: NodeJobs) -> NodeState:
    label_of = {key: package_label(e.name, e.version) for key, e in entries.items()}
    return follow_versions(scope, entries, {v.claim.package for v in views.own}, label_of)


def _packages(
    scope: Scope, node: Node, entries: NodeState, views: NodeJobs, held: Mapping[str, Reason]
) -> tuple[PackageFacts, ...]:
    done: dict[str, str] = {}
    facts: list[PackageFacts] = []
    for name in scope.order:
        reason = scope.obstacles.of(name) or held.get(name)
        one = package_facts(scope, name, entries, views, node=node.name, done=done, held=reason)
        if one.progress is Progress.COMPLETE:
            done[name] = scope.spec.packages[name].version
        facts.append(one)
    return tuple(facts)


def _startable(packages: tuple[PackageFacts, ...], *, serial: bool) -> tuple[PackageFacts, ...]:
    """The packages that start now (LIF-7): all that are due, or with `serial` one while none runs, and a begun one before any other.

    A begun package keeps the others back, unless it failed for good or waits for one of them.
    """
    due = tuple(one for one in packages if one.progress is Progress.DUE)
    if not serial:
        return due
    if any(one.progress in (Progress.RUNNING, Progress.WAITING) for one in packages):
        return ()
    begun = [one for one in packages if one.begun and _has_to_end_first(one)]
    if begun:
        return tuple(one for one in begun if one.progress is Progress.DUE)[:1]
    return due[:1]


def _has_to_end_first(one: PackageFacts) -> bool:
    waits_for_another = one.reason is not None and one.reason.code is Code.DEPENDENCY
    return one.progress is Progress.DUE or (one.progress is Progress.HELD and not waits_for_another)


def backs_off(view: JobView, entries: NodeState) -> bool:
    """Whether the Job is a failure that nothing proves, of a stage that is to run again just so (JOB-6): not one
    that somebody restarted or changed."""
    if not view.job.finished or view.evidence.verdict is not Verdict.UNPROVEN or not view.matches:
        return False
    return any(speaks_for(view, entry) for entry in entries.values())


def is_stale(scope: Scope, view: JobView, entries: NodeState) -> str | None:
    """Why a Job has to go, or None: an unfinished one that no longer matches (JOB-10), a finished one that would
    hold its stage's name (JOB-8).

    The wait before a retry (JOB-6) is not looked at here.
    """
    if view.terminating:
        return None
    entry = next((e for e in entries.values() if package_label(e.name, e.version) == view.claim.package), None)
    if not view.job.finished:
        return _unfinished_is_stale(view, entry)
    if not view.claim.marked:
        return None
    return _finished_is_stale(view, entry)


def _unfinished_is_stale(view: JobView, entry: Entry | None) -> str | None:
    if view.package is None:
        return "its package or version is no longer in the spec"
    if entry is None or not speaks_for(view, entry):
        return "node state is at another stage or run"
    if not view.matches and view.evidence.verdict is Verdict.RUNNING:
        return "version, image, env, resources or agent image changed"
    return None


def _finished_is_stale(view: JobView, entry: Entry | None) -> str | None:
    stage = view.claim.stage
    if entry is None:
        return None if stage.is_uninstall else "its entry is gone from node state"
    if entry.stage.is_uninstall != stage.is_uninstall or entry.stage.order > stage.order:
        return None
    if entry.stage.order < stage.order:
        return "node state is back before its stage"
    if entry.state is State.COMPLETE:
        return None if entry.run == view.claim.run else "its stage was run again"
    if failed_for_good(entry, view):
        return None if view.package is not None and view.matches else "it failed and no longer matches the spec"
    return "its stage has to run again"


STAGE_REASONS: Mapping[Stage, str] = {Stage.CONFIG: "State", Stage.POST_INTERRUPT: "State"}
"""The event reason of a stage's end (JOB-17); every other package stage is `Apply`, interrupts are `Interrupt`."""
