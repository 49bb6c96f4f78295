"""What has to be true after every write (invariants 1, 2, 4, 7, 8 of the public reports), held against each as it happens.

The claims are those of the fault tests where they fit. What they forgive, and why: a slot that was given while somebody moved the node
in or out of the rollout by hand, and what an operator does not know yet because a fault keeps its watch from telling it.
"""

from abc import ABC, abstractmethod
from typing import Any, Final

from nodewright.model.objects import Pod
from tests.faults import claims as shared
from tests.faults.journal import Moment, Picture
from tests.faults.reading import KEY, Signals, claimed, entries, pick, spec, status
from tests.simulation.conduct import UNDER_WAY_SECONDS, Conduct, Turns
from tests.simulation.journal import Journal, Write

REJOIN_SECONDS: Final = 120.0
"""A node that was taken out or put back by hand may exceed the budget for as long as its stages may take."""
COUNTER: Final = "example.com/counter"


class Claims:
    """All claims of a history. `see` gives what a write contradicts."""

    def __init__(self, crs: list[str]) -> None:
        self.signals = Signals()
        self.doubt_until = 0.0
        self.reset_at: dict[tuple[str, str], float] = {}
        self.rejoined_at: dict[str, float] = {}
        self.spoken: list[tuple[str, Any]] = []
        for cr in crs:
            self.spoken += [
                ("budget", Budget(cr, self)),
                ("state", State(cr, self)),
                ("jobs", Jobs(cr, self)),
                ("orders", Orders(cr)),
                ("status", Status(cr, self)),
                ("evidence", Evidence(cr)),
                ("names", Names(cr, self)),
            ]
        self.spoken += [("foreign", Foreign({}, COUNTER)), ("turn", Turns(crs, self)), ("conduct", Conduct())]
        self._told = [0] * len(self.spoken)

    def see(self, moment: Write, picture: Picture) -> list[str]:
        """What this write contradicts."""
        found = []
        for index, (name, claim) in enumerate(self.spoken):
            claim.see(moment, picture)
            fresh = claim.broken[self._told[index] :]
            self._told[index] += len(fresh)
            found += [f"{name}: by {moment.by}: {text}" for text in fresh]
        return found

    # --- what excuses

    def doubt(self, until: float) -> None:
        """Some operator's watches are behind until then."""
        self.doubt_until = max(self.doubt_until, until)

    def in_doubt(self, now: float) -> bool:
        """Whether some operator may rightly not know the newest."""
        return now < self.doubt_until + UNDER_WAY_SECONDS

    def was_reset(self, cr: str, node: str, journal: Journal) -> None:
        """CHG-14."""
        self.reset_at[cr, node] = journal.time()

    def rejoined(self, node: str, journal: Journal) -> None:
        """Ignored, tainted or relabelled, or not any more."""
        self.rejoined_at[node] = journal.time()

    def recreated(self, cr: str) -> None:
        """CHG-13: another NodeWright of that name; its numbers and generations begin anew, and what was on the nodes stays."""
        for _, claim in self.spoken:
            if isinstance(claim, Again) and claim.cr == cr:
                claim.again()

    def just_reset(self, cr: str, node: str, now: float) -> bool:
        """Whether a pass may still be under way that does not know of it."""
        return now - self.reset_at.get((cr, node), -1e9) < UNDER_WAY_SECONDS

    def away(self, node: str, now: float) -> bool:
        """Whether somebody moved the node in or out lately."""
        return now - self.rejoined_at.get(node, -1e9) < REJOIN_SECONDS


class Again(ABC):
    """A claim that knows of another NodeWright of its name."""

    cr: str

    @abstractmethod
    def again(self) -> None:
        """There is one."""


class Budget(shared.BudgetHolds):
    """Invariant 1: an operator's write never lets a node begin when that makes too many."""

    def __init__(self, cr: str, claims: Claims) -> None:
        super().__init__(cr)
        self._claims = claims
        self._known: list[tuple[float, dict[str, int] | None]] = []
        self._seen_nodes: set[str] = set()

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        if moment.kind == "NodeWright" and moment.name == self._cr and moment.new is not None:
            budget = spec(moment.new).get("interruptionBudget") or None
            if not self._known or self._known[-1][1] != budget:
                self._known.append((moment.time, budget))
        if moment.kind == "Node":
            self._seen_nodes.add(moment.name)
        super().see(moment, picture)

    def _judge(self, name: str, moment: Moment, picture: Picture) -> None:
        assert isinstance(moment, Write)
        was = name in self._under_way
        if not self._is_under_way(name, picture):
            self._under_way.discard(name)
            return
        self._under_way.add(name)
        if was or not moment.by_operator or self._claims.away(name, moment.time):
            return
        counted = {one for one in self._under_way if not self._claims.away(one, moment.time)}
        allowed = self._allowed(moment.time)
        if allowed is not None and len(counted) > allowed:
            self.broken.append(f"{moment.kind} {moment.name}: {sorted(counted)} are under way, {allowed} allowed")

    def _allowed(self, now: float) -> int | None:
        window = UNDER_WAY_SECONDS if not self._claims.in_doubt(now) else 1e9
        while len(self._known) > 1 and self._known[1][0] < now - window:
            self._known.pop(0)
        if not self._known or any(budget is None for _, budget in self._known):
            return None
        return max(self._ceiling(budget) for _, budget in self._known if budget is not None)

    def _ceiling(self, budget: dict[str, int]) -> int:
        if budget.get("count") is not None:
            return budget["count"]
        return max(1, len(self._seen_nodes) * budget["percent"] // 100)


class State(shared.StateGoesForward, Again):
    """Invariant 2, of what operators write."""

    def __init__(self, cr: str, claims: Claims) -> None:
        super().__init__(cr, claims.signals)
        self.cr = cr
        self._former: set[str] = set()

    def again(self) -> None:
        """The first spec may be another than the last was, and generations say nothing of Jobs from before."""
        self._former |= self._jobs_of_run.keys()

    def _explained(self, old: dict[str, Any], generation: int) -> bool:
        return old.get("run", "") in self._former or super()._explained(old, generation)

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        assert isinstance(moment, Write)
        if moment.kind != "Node" or moment.by_operator:
            super().see(moment, picture)


class Jobs(shared.JobsFollowState, Again):
    """Invariant 7: entry, Job, outcome, mark."""

    def __init__(self, cr: str, claims: Claims) -> None:
        super().__init__(cr)
        self.cr = cr
        self._claims = claims
        self._vanished: dict[str, float] = {}

    def again(self) -> None:
        """Its generations begin at 1."""
        self._specs.clear()

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        if moment.kind == "Node" and moment.old is not None and (
            moment.new is None or moment.new.metadata.uid != moment.old.metadata.uid
        ):  # fmt: skip
            self._vanished[moment.old.metadata.uid] = moment.time
        if moment.kind == "Job":
            claim = claimed(moment.new or moment.old)
            gone = self._vanished.get(claim.node_uid)
            if gone is not None and (
                moment.time - gone < UNDER_WAY_SECONDS or self._claims.in_doubt(moment.time)
            ):  # fmt: skip
                return
            if moment.old is None and self._claims.just_reset(self._cr, claim.node, moment.time):
                return
            if moment.old is None and claim.cr == self._cr:
                self._has_pick(claim.node, moment, picture)
        super().see(moment, picture)

    def _has_pick(self, name: str, moment: Moment, picture: Picture) -> None:
        """ROL-13: the pick comes with the first entry, so before any Job."""
        node = picture.nodes.get(name)
        place = pick(node, self._cr) if node is not None else None
        if node is not None and not self._claims.away(name, moment.time) and (place is None or place.get("completed")):
            self.broken.append(f"Job {moment.name} is created on {name}, whose pick is {place}")


class Orders(shared.OrdersAreUnique, Again):
    """ROL-14, except where nothing is left that could tell: the number's node went, and its operator too, before a status had it.

    Between the pick and the status (a second at most) the number is only on the node and in the operator's memory.
    """

    def __init__(self, cr: str) -> None:
        super().__init__(cr)
        self._published: dict[int, int] = {}
        """By rollout, the highest `nodeOrderOffset` that any status had."""
        self.cr = cr

    def again(self) -> None:
        """Its rollouts begin at 1."""
        self._given.clear()
        self._published.clear()

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        if moment.kind == "NodeWright" and moment.name == self._cr and moment.new is not None:
            seen = status(moment.new)
            rollout, offset = seen.get("rollout", 0), seen.get("nodeOrderOffset", 0)
            self._published[rollout] = max(self._published.get(rollout, 0), offset)
        if moment.kind == "Node" and moment.new is not None:
            place = pick(moment.new, self._cr)
            if place is not None:
                number = (place["rollout"], place["order"])
                holder = self._given.get(number)
                there = {node.metadata.uid for node in picture.nodes.values()}
                if holder is not None and holder not in there and self._published.get(number[0], 0) <= number[1]:
                    self._given[number] = moment.new.metadata.uid
        super().see(moment, picture)


class Status(shared.StatusIsTrue):
    """B10, of what operators write; complete is only held against what they can know."""

    def __init__(self, cr: str, claims: Claims) -> None:
        super().__init__(cr)
        self._claims = claims
        self._changed = 0.0

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        assert isinstance(moment, Write)
        if moment.kind == "Node" and not moment.by_operator:
            old, new = moment.old, moment.new
            if old is None or new is None or old.metadata.labels != new.metadata.labels or (
                entries(old, self._cr) != entries(new, self._cr)
            ):  # fmt: skip
                self._changed = moment.time
        if moment.kind == "NodeWright" and not moment.by_operator:
            return
        super().see(moment, picture)

    def _complete(self, moment: Moment, picture: Picture) -> None:
        if not self._claims.in_doubt(moment.time) and moment.time - self._changed > UNDER_WAY_SECONDS:
            super()._complete(moment, picture)


class Names:
    """LIF-12: a new run is written only when no Job has the name of its stage, as far as the watch shows."""

    def __init__(self, cr: str, claims: Claims) -> None:
        self.broken: list[str] = []
        self._cr = cr
        self._claims = claims
        self._jobs: dict[tuple[str, str, str], dict[str, tuple[float, str]]] = {}

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        assert isinstance(moment, Write)
        if moment.kind == "Job":
            claim = claimed(moment.new or moment.old)
            if claim.cr == self._cr:
                there = self._jobs.setdefault((claim.node, claim.entry_key, claim.stage), {})
                if moment.new is None:
                    there.pop(claim.uid, None)
                else:
                    there.setdefault(claim.uid, (moment.time, claim.run))
        if moment.kind != "Node" or moment.new is None or not moment.by_operator or self._claims.in_doubt(moment.time):
            return
        before, after = entries(moment.old, self._cr), entries(moment.new, self._cr)
        for key, entry in after.items():
            run = entry.get("run")
            if not run or run == before.get(key, {}).get("run"):
                continue
            for since, other in self._jobs.get((moment.name, key, entry["stage"]), {}).values():
                if other != run and moment.time - since > UNDER_WAY_SECONDS:
                    self.broken.append(f"{moment.name} {key}: run {run} begins while the Job of run {other} is there")


class Foreign(shared.ForeignDataSurvives):
    """Invariant 4, of what operators write."""

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        assert isinstance(moment, Write)
        if moment.by_operator:
            super().see(moment, picture)


class Evidence:
    """Invariant 8, JOB-5: an entry reads erroring only after a container of its run ended badly by itself, or ran out of time."""

    def __init__(self, cr: str) -> None:
        self.broken: list[str] = []
        self._cr = cr
        self._guilty: set[str] = set()

    def see(self, moment: Moment, picture: Picture) -> None:
        """See `Claim`."""
        assert isinstance(moment, Write)
        if moment.kind == "Pod" and moment.new is not None and self._is_genuine(moment.new):
            self._guilty.add(moment.new.metadata.annotations.get(f"{KEY}/run", ""))
        if moment.kind == "Job" and moment.new is not None:
            failed = moment.new.condition("Failed") or moment.new.condition("FailureTarget")
            if failed is not None and failed.reason == "DeadlineExceeded":
                self._guilty.add(claimed(moment.new).run)
        if moment.kind != "Node" or moment.new is None or not moment.by_operator:
            return
        before, after = entries(moment.old, self._cr), entries(moment.new, self._cr)
        for key, entry in after.items():
            was = before.get(key, {})
            if entry["state"] == "erroring" and was.get("state") != "erroring" and entry.get("run") not in self._guilty:
                self.broken.append(f"{moment.name} {key} reads erroring, and nothing of run {entry.get('run')} failed")

    @staticmethod
    def _is_genuine(pod: Pod) -> bool:
        if any(c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions):
            return False
        if pod.status.phase == "Failed" and pod.status.reason == "DeadlineExceeded":
            return True
        for one in pod.status.init_container_statuses:
            for state in (one.state, one.last_state):
                ended = state.terminated if state is not None else None
                if ended is not None and ended.exit_code and ended.reason not in ("ContainerStatusUnknown", "Unknown"):
                    return True
        return False
