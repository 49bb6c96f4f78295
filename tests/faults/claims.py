"""What has to be true at every recorded moment, as claims over a replayed journal.

Each claim sees every write in order and notes what contradicts it. They are exact: where a rule allows a hand-over (a `FailureTarget`
frees a slot before the Job reads Failed, an edited budget) the rule is named, and nothing else is forgiven.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from nodewright.model.objects import Job, Node
from tests.faults.journal import Moment, Picture
from tests.faults.reading import (
    KEY,
    ORDER,
    Claimed,
    Entry,
    Signals,
    claimed,
    entries,
    holds,
    ignored,
    pick,
    selects,
    spec,
    status,
)

EDIT_SECONDS: Final = 3.0
"""An edit of the spec is obeyed within this time (a pass that is under way may still write what it planned)."""


class Claim(Protocol):
    """Sees each moment after it was applied to `picture`."""

    broken: list[str]

    def see(self, moment: Moment, picture: Picture) -> None: ...


def replay(moments: Sequence[Moment], claims: Sequence[Claim]) -> None:
    """Hold all claims against all moments, in etcd's order. AssertionError naming the first contradictions of each."""
    picture = Picture()
    for moment in sorted(moments, key=lambda one: one.revision):
        picture.apply(moment)
        for claim in claims:
            claim.see(moment, picture)
    broken = [text for claim in claims for text in _first(claim)]
    assert not broken, "\n".join(["", *broken])


def _first(claim: Claim, most: int = 8) -> list[str]:
    name, more = type(claim).__name__, len(claim.broken) - most
    return [f"{name}: {text}" for text in claim.broken[:most]] + ([f"{name}: {more} more"] if more > 0 else [])


def _at(moment: Moment) -> str:
    return f"revision {moment.revision} at {moment.time:.3f} ({moment.kind} {moment.name})"


class BudgetHolds:
    """Invariant 1, ROL-5, ROL-10: nodes under way are never more than the budget; not counted are ignored and failed-for-good ones.

    Under way is a node with an unfinished Job or an own cordon, and also one whose pick is open: between two stages it keeps its slot
    without a Job. Nodes taken in under a larger budget may finish (so the count is checked whenever it grows).
    """

    def __init__(self, cr: str) -> None:
        self.broken: list[str] = []
        self.most = 0
        self._cr = cr
        self._jobs: dict[str, dict[str, Job]] = {}
        self._under_way: set[str] = set()
        self._budgets: deque[tuple[float, int | None]] = deque()

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        names: set[str] = set()
        match moment.kind:
            case "Node":
                names = {moment.name}
            case "Job":
                job = moment.new or moment.old
                claim = claimed(job)
                if claim.cr != self._cr:
                    return
                of_node = self._jobs.setdefault(claim.node, {})
                if moment.new is None:
                    of_node.pop(claim.uid, None)
                else:
                    of_node[claim.uid] = job
                names = {claim.node}
            case "NodeWright" if moment.name == self._cr and moment.new is not None:
                budget = spec(moment.new).get("interruptionBudget", {}).get("count")
                if not self._budgets or self._budgets[-1][1] != budget:
                    self._budgets.append((moment.time, budget))
        for name in names:
            self._judge(name, moment, picture)

    def _judge(self, name: str, moment: Moment, picture: Picture) -> None:
        was = name in self._under_way
        if not self._is_under_way(name, picture):
            self._under_way.discard(name)
            return
        self._under_way.add(name)
        self.most = max(self.most, len(self._under_way))
        allowed = self._allowed(moment.time)
        if not was and allowed is not None and len(self._under_way) > allowed:
            self.broken.append(
                f"{_at(moment)}: {len(self._under_way)} nodes under way, {allowed} allowed: {sorted(self._under_way)}"
            )

    def _is_under_way(self, name: str, picture: Picture) -> bool:
        node, cr = picture.nodes.get(name), picture.crs.get(self._cr)
        if node is None or cr is None or ignored(node) or not selects(spec(cr), node):
            return False
        jobs = [job for job in self._jobs.get(name, {}).values() if claimed(job).node_uid == node.metadata.uid]
        if any(holds(job) for job in jobs) or node.metadata.annotations.get(f"{KEY}/cordon_{self._cr}") == "true":
            return True
        place, state = pick(node, self._cr), entries(node, self._cr)
        if place is None or place.get("completed") or place.get("outcome") or not (state or jobs):
            return False
        lost = {claimed(job).run for job in jobs if job.condition("FailureTarget") or job.condition("Failed")}
        return not any(entry.get("run") in lost and entry["state"] != "complete" for entry in state.values())

    def _allowed(self, now: float) -> int | None:
        """The largest budget in force within the last moments; None is none."""
        while len(self._budgets) > 1 and self._budgets[1][0] < now - EDIT_SECONDS:
            self._budgets.popleft()
        in_force = [budget for _, budget in self._budgets]
        return None if None in in_force or not in_force else max(b for b in in_force if b is not None)


class StateGoesForward:
    """Invariant 2, LIF-5, LIF-12a: a recorded completion never goes back and an entry never leaves, except by an explicit signal.

    And it is true: complete is written only once a Job of that very run is Complete.
    """

    def __init__(self, cr: str, signals: Signals) -> None:
        self.broken: list[str] = []
        self._cr = cr
        self._signals = signals
        self._completed: set[str] = set()
        self._failed: set[str] = set()
        self._jobs_of_run: dict[str, list[Claimed]] = {}
        self._generations: dict[str, int] = {}

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        if moment.kind == "Job" and moment.new is not None:
            claim = claimed(moment.new)
            if moment.old is None:
                self._jobs_of_run.setdefault(claim.run, []).append(claim)
            if moment.new.condition("Complete"):
                self._completed.add(claim.run)
            if moment.new.condition("Failed") or moment.new.condition("FailureTarget"):
                self._failed.add(claim.run)
        if moment.kind != "Node" or moment.old is None or moment.new is None:
            return
        old, new = moment.old, moment.new
        if old.metadata.uid != new.metadata.uid:
            return
        before, after = entries(old, self._cr), entries(new, self._cr)
        if before is after or before == after:
            return
        cr = picture.crs.get(self._cr)
        generation = cr.metadata.generation if cr is not None else 0
        for key in before.keys() | after.keys():
            wrong = self._step(before.get(key), after.get(key), after, generation)
            if wrong:
                self.broken.append(
                    f"{_at(moment)}: {key} {wrong}: {_short(before.get(key))} -> {_short(after.get(key))}"
                )

    def _step(self, old: Entry | None, new: Entry | None, after: dict[str, Entry], generation: int) -> str:
        if new is None:
            return self._left(old or {}, after)
        if (
            new["state"] == "complete"
            and (old is None or not _done(old, new["stage"]))
            and new.get("run") not in self._completed
        ):
            return "reads complete and no Job of its run is"
        if old is None:
            return "" if ORDER[new["stage"]] == 0 and new["state"] == "in_progress" else "began in the middle"
        was, now = ORDER[old["stage"]], ORDER[new["stage"]]
        if now > was:
            done = old["state"] == "complete" or old.get("run") in self._completed
            return "" if done and now == was + 1 else "went on without its stage complete"
        back = now < was or (old["state"] == "complete" and new["state"] != "complete")
        if back:
            return "" if self._explained(old, generation) else "went back without a signal"
        if old.get("run") and new.get("run") != old.get("run"):
            unproven = old["run"] in self._failed and old["state"] == "in_progress"
            return "" if unproven or self._explained(old, generation) else "runs again without a signal"
        return ""

    def _left(self, old: Entry, after: dict[str, Entry]) -> str:
        """CHG-6: replaced by a version whose upgrade completed; or it never began."""
        for entry in after.values():
            if entry["name"] == old["name"] and (ORDER[entry["stage"]] > 0 or entry["state"] == "complete"):
                return ""
        return "" if not old.get("run") else "left without a successor"

    def _explained(self, old: Entry, generation: int) -> bool:
        jobs = self._jobs_of_run.get(old.get("run", ""), [])
        by_hand = any(job.uid in self._signals.deleted for job in jobs)
        return by_hand or generation > max((job.generation for job in jobs), default=generation)


def _done(old: Entry, stage: str) -> bool:
    return bool(old["state"] == "complete" and old["stage"] == stage)


def _short(entry: Entry | None) -> str:
    return "absent" if entry is None else f"{entry['stage']}/{entry['state']}/{entry.get('run', '')}"


class JobsFollowState:
    """LIF-12, JOB-3, LIF-7: the entry with its run comes before the Job, the mark after the outcome, dependencies first."""

    def __init__(self, cr: str) -> None:
        self.broken: list[str] = []
        self.created = 0
        self._cr = cr
        self._specs: dict[int, dict[str, Any]] = {}
        self._gone: dict[str, float] = {}
        self._alive: dict[tuple[str, str, str], set[str]] = {}

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        if moment.kind == "NodeWright" and moment.name == self._cr and moment.new is not None:
            self._specs.setdefault(moment.new.metadata.generation, spec(moment.new))
        if (
            moment.kind == "Node"
            and moment.old is not None
            and (moment.new is None or moment.new.metadata.uid != moment.old.metadata.uid)
        ):
            self._gone[moment.old.metadata.uid] = moment.time
        if moment.kind != "Job":
            return
        claim = claimed(moment.new or moment.old)
        if claim.cr != self._cr:
            return
        self._one_at_a_time(claim, moment)
        node = picture.nodes.get(claim.node)
        if node is None or node.metadata.uid != claim.node_uid or moment.new is None:
            if moment.old is None and moment.time - self._gone.get(claim.node_uid, 0.0) > EDIT_SECONDS:
                self.broken.append(f"{_at(moment)}: created for a node that is not there")
            return
        entry = entries(node, self._cr).get(claim.entry_key)
        if moment.old is None:
            self._created(claim, entry, node, moment)
        elif _marked(moment.new) and not _marked(moment.old):
            self._was_marked(claim, entry, moment)

    def _created(self, claim: Claimed, entry: Entry | None, node: Node, moment: Moment) -> None:
        self.created += 1
        if entry is None or (entry["stage"], entry["state"], entry.get("run")) != (
            claim.stage,
            "in_progress",
            claim.run,
        ):
            self.broken.append(
                f"{_at(moment)}: created for {claim.stage}/{claim.run} while the entry reads {_short(entry)}"
            )
        if claim.stage not in ("apply", "upgrade"):
            return  # a package that has begun is carried to its end
        packages = self._specs.get(claim.generation, {}).get("packages", {})
        for name, version in packages.get(claim.package, {}).get("dependsOn", {}).items():
            needed = entries(node, self._cr).get(f"{name}|{version}")
            if needed is None or (needed["stage"], needed["state"]) != ("config", "complete"):
                self.broken.append(f"{_at(moment)}: {claim.package} starts before {name} {version}: {_short(needed)}")

    def _was_marked(self, claim: Claimed, entry: Entry | None, moment: Moment) -> None:
        open_ = entry is not None and (entry["stage"], entry.get("run"), entry["state"]) == (
            claim.stage,
            claim.run,
            "in_progress",
        )
        if open_ and moment.new.condition("Complete"):
            self.broken.append(f"{_at(moment)}: marked before node state has its completion")

    def _one_at_a_time(self, claim: Claimed, moment: Moment) -> None:
        """Two unfinished Jobs of one package on one node would be two processes changing one host."""
        alive = self._alive.setdefault((claim.node, claim.node_uid, claim.package), set())
        if moment.new is None or not holds(moment.new):
            alive.discard(claim.uid)
            return
        alive.add(claim.uid)
        if moment.old is None and len(alive) > 1:
            self.broken.append(f"{_at(moment)}: {len(alive)} unfinished Jobs of package {claim.package} on one node")


def _marked(job: Job) -> bool:
    return job.metadata.annotations.get(f"{KEY}/state-recorded") == "true"


class OrdersAreUnique:
    """ROL-14: a number is given once in a rollout, to one node."""

    def __init__(self, cr: str) -> None:
        self.broken: list[str] = []
        self._cr = cr
        self._given: dict[tuple[int, int], str] = {}

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        if moment.kind != "Node" or moment.new is None:
            return
        place = pick(moment.new, self._cr)
        if place is None:
            return
        number, uid = (place["rollout"], place["order"]), moment.new.metadata.uid
        holder = self._given.setdefault(number, uid)
        if holder != uid:
            self.broken.append(f"{_at(moment)}: number {number[1]} of rollout {number[0]} was given to two nodes")


class ForeignDataSurvives:
    """Invariant 4, CON-11: what others wrote on nodes stays. `planted` are annotations on every node; `counter` only rises."""

    def __init__(self, planted: dict[str, str], counter: str) -> None:
        self.broken: list[str] = []
        self._planted = planted
        self._counter = counter

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        if moment.kind != "Node" or moment.new is None:
            return
        found = moment.new.metadata.annotations
        for key, value in self._planted.items():
            if found.get(key) != value:
                self.broken.append(f"{_at(moment)}: foreign annotation {key} reads {found.get(key)!r}")
        if moment.old is not None and moment.old.metadata.uid == moment.new.metadata.uid:
            if int(found.get(self._counter, 0)) < int(moment.old.metadata.annotations.get(self._counter, 0)):
                self.broken.append(f"{_at(moment)}: foreign counter went back")
            if moment.old.spec.taints != moment.new.spec.taints and self._foreign(moment.old) - self._foreign(
                moment.new
            ):
                self.broken.append(f"{_at(moment)}: a foreign taint is gone")

    @staticmethod
    def _foreign(node: Node) -> set[str]:
        return {taint.key for taint in node.spec.taints if taint.key.startswith("example.com/")}


class StatusIsTrue:
    """B10, LIF-1: the CR reads complete only while every node that has been there for a moment is; batches and rollouts never go back."""

    def __init__(self, cr: str) -> None:
        self.broken: list[str] = []
        self._cr = cr
        self._since: dict[str, float] = {}
        self._edited = 0.0

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        if (
            moment.kind == "Node"
            and moment.new is not None
            and (moment.old is None or moment.old.metadata.uid != moment.new.metadata.uid)
        ):
            self._since[moment.new.metadata.uid] = moment.time
        if moment.kind != "NodeWright" or moment.name != self._cr or moment.new is None or moment.old is None:
            return
        old, new = status(moment.old), status(moment.new)
        if (new.get("rollout", 0), 0) < (old.get("rollout", 0), 0):
            self.broken.append(f"{_at(moment)}: rollout went back from {old.get('rollout')} to {new.get('rollout')}")
        if new.get("rollout") == old.get("rollout"):
            for name, batch in _batches(old).items():
                if _batches(new).get(name, batch) < batch:
                    self.broken.append(f"{_at(moment)}: batch of {name} went back from {batch}")
        if (
            new.get("status") == "complete"
            and old.get("status") != "complete"
            and new.get("observedGeneration") == moment.new.metadata.generation
        ):
            self._complete(moment, picture)

    def _complete(self, moment: Moment, picture: Picture) -> None:
        cr_spec = spec(moment.new)
        wanted = {f"{name}|{package['version']}" for name, package in cr_spec["packages"].items()}
        for node in picture.nodes.values():
            if not selects(cr_spec, node) or moment.time - self._since.get(node.metadata.uid, 0.0) < EDIT_SECONDS:
                continue
            state = entries(node, self._cr)
            open_ = [
                key
                for key in wanted
                if (e := state.get(key)) is None or (e["stage"], e["state"]) != ("config", "complete")
            ]
            if open_:
                self.broken.append(f"{_at(moment)}: reads complete while {node.name} has {open_} open")


def _batches(cr_status: dict[str, Any]) -> dict[str, int]:
    return {
        name: one.get("batchState", {}).get("currentBatch", 0)
        for name, one in (cr_status.get("compartmentStatuses") or {}).items()
    }


Expectation = Callable[[str], set[str]]
"""From a node's name to the packages that fail for good there."""


def check_end(picture: Picture, cr: str, failing: Expectation) -> None:
    """None lost, none forgotten (ROL-20): every selected node has its outcome, and carries Status, label and condition.

    A package fails where `failing` says so; what depends on it, directly or not, never starts there; everything else is complete.
    """
    found = picture.crs[cr]
    packages, wrong = spec(found)["packages"], []
    for node in picture.nodes.values():
        if not selects(spec(found), node):
            continue
        lost = failing(node.name)
        held = _dependents(packages, lost)
        state = entries(node, cr)
        for name, package in packages.items():
            entry = state.get(f"{name}|{package['version']}")
            if name in lost:
                good = entry is not None and entry["state"] == "erroring"
            elif name in held:
                good = entry is None or entry["state"] == "in_progress"
            else:
                good = entry is not None and (entry["stage"], entry["state"]) == ("config", "complete")
            if not good:
                wrong.append(f"{node.name}: {name} reads {_short(entry)}")
        expected = "erroring" if lost else "complete"
        annotation = node.metadata.annotations.get(f"{KEY}/status_{cr}")
        label = node.metadata.labels.get(f"{KEY}/status_{cr}")
        condition = next((c.status for c in node.status.conditions if c.type == f"{KEY}/{cr}/NotReady"), None)
        if (annotation, label, condition) != (expected, expected, "True" if lost else "False"):
            wrong.append(f"{node.name}: status {annotation}, label {label}, NotReady {condition}; expected {expected}")
        place = pick(node, cr)
        if place is None or bool(place.get("completed")) == bool(lost):
            wrong.append(f"{node.name}: pick {place}")
    published = status(found).get("nodeStatus", {})
    there = {node.name for node in picture.nodes.values() if selects(spec(found), node)}
    if set(published) != there:
        wrong.append(f"status names {sorted(set(published) ^ there)} wrongly")
    assert not wrong, "\n".join(["", *wrong[:20]])


def _dependents(packages: dict[str, Any], lost: set[str]) -> set[str]:
    held: set[str] = set()
    for _ in packages:
        held |= {name for name, package in packages.items() if (held | lost) & package.get("dependsOn", {}).keys()}
    return held - lost
