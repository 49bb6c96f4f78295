"""A node's Jobs as the engine reads them: whose they are, for which stage and run they speak, and what they prove (CON-13 to CON-15)."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from nodewright.api import keys
from nodewright.api.nodewright import InterruptType
from nodewright.engine.evidence import Evidence, judge
from nodewright.engine.scope import Scope
from nodewright.model.objects import Job, Node, Pod
from nodewright.workloads.claims import Claim, claim_of, package_label
from nodewright.workloads.inputs import matches


@dataclass(frozen=True, slots=True)
class JobView:
    """One of the CR's own Jobs on a node. `package` is the name in the spec if the Job is for the spec's version of it."""

    job: Job
    claim: Claim
    package: str | None
    matches: bool
    evidence: Evidence

    @property
    def name(self) -> str:
        """The Job's name."""
        return self.job.metadata.name

    @property
    def terminating(self) -> bool:
        """Being deleted: not there any more and not free yet (JOB-8)."""
        return self.job.metadata.deletion_timestamp is not None


@dataclass(frozen=True, slots=True)
class NodeJobs:
    """The Jobs under a CR's labels on one node: `own` ones, `strays` of an earlier node of that name (JOB-11), and names that others hold.

    `working` has the unfinished own ones by package, those that are being deleted too: a pod of theirs may still be at work on the host.
    """

    own: tuple[JobView, ...]
    strays: tuple[Job, ...]
    taken: frozenset[str]
    working: Mapping[str, tuple[JobView, ...]]

    def named(self, name: str) -> JobView | None:
        """The own Job of that name."""
        return next((view for view in self.own if view.job.metadata.name == name), None)

    def leaving(self, name: str) -> bool:
        """Whether a Job of an earlier node holds the name; it goes by itself (JOB-11)."""
        return any(job.metadata.name == name for job in self.strays)


NO_JOBS = NodeJobs((), (), frozenset(), {})


def view_jobs(scope: Scope, node: Node, jobs: tuple[Job, ...], pods: tuple[Pod, ...]) -> NodeJobs:
    """Sort a node's Jobs by whose they are. A Job of another owner, as of a deleted CR of the same name, is never ours (CHG-13),
    and neither is one whose labels are not those of its name (CON-13)."""
    if not jobs:
        return NO_JOBS
    own: list[JobView] = []
    strays: list[Job] = []
    taken: set[str] = set()
    for job in jobs:
        claim = claim_of(job)
        if claim is None or claim.owner_uid != scope.uid or not _is_claimed(scope, node, job, claim):
            taken.add(job.metadata.name)
        elif claim.node_uid and claim.node_uid != node.metadata.uid:
            strays.append(job)
        else:
            own.append(_view(scope, job, claim, pods))
    return NodeJobs(tuple(own), tuple(strays), frozenset(taken), _working(own))


def _working(own: list[JobView]) -> Mapping[str, tuple[JobView, ...]]:
    working: dict[str, tuple[JobView, ...]] = {}
    for view in own:
        if not view.job.finished:
            name = view.package or _described(view.job).name
            working[name] = (*working.get(name, ()), view)
    return working


def _is_claimed(scope: Scope, node: Node, job: Job, claim: Claim) -> bool:
    """Whether the name is the one that the claim of the Job's labels gives: labels edited by hand say another (CON-13)."""
    name, stage = job.metadata.name, claim.stage.value
    if claim.stage.is_interrupt:
        return any(
            name == keys.interrupt_job_name(cr=scope.name, stage=stage, interrupt_type=each.value, node=node.name)
            for each in InterruptType
        )
    package = scope.labels.get(claim.package)
    if package is not None:
        return name == scope.job_name(scope.spec.packages[package], package, stage, node.name)
    said = _described(job)
    if package_label(said.name, said.version) != claim.package:
        return False
    return name == keys.job_name(cr=scope.name, package=said.name, version=said.version, stage=stage, node=node.name)


class _Described(msgspec.Struct):
    name: str = ""
    version: str = ""


def _described(job: Job) -> _Described:
    """The package and version that a Job says it is for, also one of a version no longer in the spec (CON-15)."""
    try:
        return _decoder.decode(job.metadata.annotations.get(keys.ANNOTATION_PACKAGE, "{}"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NOTHING


_NOTHING = _Described()
_decoder = msgspec.json.Decoder(_Described)


def _view(scope: Scope, job: Job, claim: Claim, pods: tuple[Pod, ...]) -> JobView:
    name = scope.labels.get(claim.package)
    evidence = judge(job, pods)
    fits = name is not None and matches(job, scope.spec.packages[name], scope.settings, has_pod=not evidence.no_pods)
    return JobView(job, claim, name, fits, evidence)
