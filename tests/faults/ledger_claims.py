"""What has to be true of what really ran on the nodes, whatever the cluster's objects say.

Held against the simulated kubelets' ledger, with the journal to say which Job and node (by UID) a pod was of.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from nodewright.simulator.ledger import Entry, Event
from tests.faults.journal import Moment
from tests.faults.reading import Claimed, Signals, claimed

Unit = tuple[str, str, str, str, str]
"""(node, its UID, package, version, stage)."""


@dataclass(slots=True)
class History:
    """What became of Jobs and pods, by UID, as the journal has it."""

    jobs: dict[str, Claimed] = field(default_factory=dict)
    job_of_pod: dict[str, str] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)
    gone_generation: dict[str, int] = field(default_factory=dict)
    """The CR's generation when an unfinished Job was given up."""


def history_of(moments: Sequence[Moment], cr: str) -> History:
    """Read it out of a journal."""
    history, generation = History(), 0
    for moment in sorted(moments, key=lambda one: one.revision):
        match moment.kind:
            case "NodeWright" if moment.name == cr and moment.new is not None:
                generation = moment.new.metadata.generation
            case "Pod" if moment.new is not None:
                owner = next((o.uid for o in moment.new.metadata.owner_references if o.controller), "")
                history.job_of_pod[moment.new.metadata.uid] = owner
            case "Job":
                job = moment.new or moment.old
                claim = claimed(job)
                history.jobs[claim.uid] = claim
                if job.condition("Complete"):
                    history.completed.add(claim.uid)
                ended = moment.new is None or job.metadata.deletion_timestamp is not None
                if ended and claim.uid not in history.completed:
                    history.gone_generation.setdefault(claim.uid, generation)
            case _:
                pass
    return history


def check_ledger(
    ledger: Sequence[Entry], moments: Sequence[Moment], cr: str, signals: Signals, *, backoff_limit: int
) -> Counter[str]:
    """AssertionError when a stage ran twice, ran out of order, ran beside itself or too often; gives counts for a report."""
    history = history_of(moments, cr)
    steps = [e for e in ledger if e.cr == cr and e.container == f"{e.package}-{e.stage}"]
    wrong = [
        *_twice(steps, history, signals),
        *_too_often(steps, history, signals),
        *_beside_itself(steps, history, signals),
        *_out_of_order(steps, history),
    ]
    wrong += _attempts(steps, history, backoff_limit)
    assert not wrong, "\n".join(["", *wrong[:20]])
    ends = Counter(e.outcome for e in steps if e.event is Event.END)
    ends["starts"] = sum(e.event is Event.START for e in steps)
    return ends


def _unit(entry: Entry, history: History) -> Unit:
    job = history.jobs.get(history.job_of_pod.get(entry.pod_uid, ""))
    return entry.node, job.node_uid if job else "", entry.package, entry.version, entry.stage


def _succeeded(steps: Sequence[Entry]) -> list[Entry]:
    return [e for e in steps if e.event is Event.END and e.outcome == "succeeded"]


def _twice(steps: Sequence[Entry], history: History, signals: Signals) -> list[str]:
    """LIF-2: one successful run of the step container, unless the Job or pod of the earlier was taken away before it was over."""
    runs: dict[Unit, list[Entry]] = defaultdict(list)
    for entry in _succeeded(steps):
        runs[_unit(entry, history)].append(entry)
    wrong = []
    for unit, found in runs.items():
        for earlier in found[:-1]:
            job = history.job_of_pod.get(earlier.pod_uid, "")
            by_hand = earlier.pod_uid in signals.deleted or job in signals.deleted
            claim = history.jobs.get(job)
            edited = claim is not None and history.gone_generation.get(job, 0) > claim.generation
            if not (by_hand or edited):
                wrong.append(
                    f"{'/'.join(unit)} ran {len(found)} times: pods {[e.pod for e in found]}, runs {[e.run for e in found]}"
                )
    return wrong


def _too_often(steps: Sequence[Entry], history: History, signals: Signals) -> list[str]:
    """Once the step has succeeded in a Job that completes, no other pod of it starts, unless the first was deleted by hand."""
    over: set[str] = set()
    wrong = []
    for entry in steps:
        job = history.job_of_pod.get(entry.pod_uid, "")
        if entry.event is Event.END and entry.outcome == "succeeded" and entry.pod_uid not in signals.deleted:
            over.add(entry.pod_uid)
        if (
            entry.event is Event.START
            and job in history.completed
            and any(history.job_of_pod.get(pod) == job for pod in over)
        ):
            wrong.append(
                f"{entry.pod} of {entry.node} started after {entry.package} {entry.stage} had succeeded in its Job"
            )
    return wrong


def _attempts(steps: Sequence[Entry], history: History, backoff_limit: int) -> list[str]:
    started = Counter(history.job_of_pod.get(e.pod_uid, e.pod_uid) for e in steps if e.event is Event.START)
    return [
        f"Job {history.jobs[job].name if job in history.jobs else job} had {count} attempts, {backoff_limit + 1} allowed"
        for job, count in started.items()
        if count > backoff_limit + 1
    ]


def _beside_itself(steps: Sequence[Entry], history: History, signals: Signals) -> list[str]:
    """Two step containers of one package at the same time on one host; a Job deleted by hand in the background leaves its pod behind."""
    running: dict[tuple[str, str], dict[str, Entry]] = defaultdict(dict)
    wrong = []
    for entry in sorted(steps, key=lambda e: e.time):
        alive = running[entry.node, entry.package]
        if entry.event is Event.END:
            alive.pop(entry.pod_uid, None)
        elif entry.event is Event.START:
            others = [
                o
                for o in alive.values()
                if history.job_of_pod.get(o.pod_uid, "") not in signals.deleted and o.pod_uid not in signals.deleted
            ]
            if others:
                wrong.append(
                    f"{entry.node}: {entry.pod} ({entry.stage} {entry.version}) started while {[o.pod for o in others]} ran"
                )
            alive[entry.pod_uid] = entry
    return wrong


def _out_of_order(steps: Sequence[Entry], history: History) -> list[str]:
    """LIF-5: config only after an apply or upgrade of the same version succeeded on that very node."""
    ready: set[tuple[str, str, str, str]] = set()
    wrong = []
    for entry in steps:
        unit = _unit(entry, history)
        if entry.stage in ("apply", "upgrade") and entry.event is Event.END and entry.outcome == "succeeded":
            ready.add(unit[:4])
        if entry.stage == "config" and entry.event is Event.START and unit[:4] not in ready:
            wrong.append(f"{entry.node}: config of {entry.package} {entry.version} without an apply")
    return wrong
