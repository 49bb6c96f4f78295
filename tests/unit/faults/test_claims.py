"""The claims of the fault tests notice what they are for: a claim that cannot fail proves nothing."""

import json
from typing import Any

import msgspec
import pytest

from nodewright.model.objects import Condition, Job, JobStatus, Node, NodeWrightObject, ObjectMeta, OwnerReference, Pod
from nodewright.simulator.ledger import Entry, Event
from tests.faults import claims
from tests.faults.journal import Moment, Picture
from tests.faults.ledger_claims import check_ledger
from tests.faults.reading import KEY, Signals

CR = "faults"


class Story:
    """Moments, told one after another."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.picture = Picture()

    def tell(self, kind: str, name: str, new: Any, *, time: float | None = None) -> None:
        number = len(self.moments) + 1
        moment = Moment(
            number, float(number) if time is None else time, kind, name, self.picture.of(kind).get(name), new
        )
        self.picture.apply(moment)
        self.moments.append(moment)

    def cr(self, budget: int | None = 1, *, generation: int = 1, status: dict[str, Any] | None = None) -> None:
        spec: dict[str, Any] = {"packages": {"base": {"version": "1.0.0"}}}
        if budget is not None:
            spec["interruptionBudget"] = {"count": budget}
        meta = ObjectMeta(name=CR, generation=generation)
        raw = [msgspec.Raw(json.dumps(one).encode()) for one in (spec, status or {})]
        self.tell("NodeWright", CR, NodeWrightObject(metadata=meta, spec=raw[0], status=raw[1]))

    def node(
        self, name: str, entry: str | None = None, annotations: dict[str, str] | None = None, *, order: int = 0
    ) -> None:
        """`entry` is stage/state/run of package base."""
        mine = dict(annotations or {})
        if entry is not None:
            stage, state, run = entry.split("/")
            body = {"name": "base", "version": "1.0.0", "stage": stage, "state": state, "run": run}
            mine[f"{KEY}/nodeState_{CR}"] = json.dumps({"base|1.0.0": body})
            mine[f"{KEY}/pick_{CR}"] = json.dumps({"rollout": 1, "batch": 1, "order": order})
        self.tell("Node", name, Node(metadata=ObjectMeta(name=name, uid=f"uid-{name}", annotations=mine)))

    def job(self, node: str, stage: str, run: str, *conditions: str, marked: bool = False) -> None:
        name = f"{node}-{stage}-{run}"
        labels = {f"{KEY}/name": CR, f"{KEY}/stage": stage, f"{KEY}/node": node, f"{KEY}/generation": "1"}
        annotations = {
            f"{KEY}/package": json.dumps({"name": "base", "version": "1.0.0"}),
            f"{KEY}/run": run,
            f"{KEY}/node-uid": f"uid-{node}",
            **({f"{KEY}/state-recorded": "true"} if marked else {}),
        }
        meta = ObjectMeta(name=name, uid=f"job-{name}", labels=labels, annotations=annotations)
        status = JobStatus(conditions=tuple(Condition(type=one, status="True") for one in conditions))
        self.tell("Job", name, Job(metadata=meta, status=status))

    def pod(self, name: str, job: str) -> None:
        owner = OwnerReference(kind="Job", uid=job, controller=True)
        self.tell("Pod", name, Pod(metadata=ObjectMeta(name=name, uid=name, owner_references=(owner,))))

    def stage(self, node: str, stage: str, run: str) -> None:
        """A stage as it should be."""
        self.node(node, f"{stage}/in_progress/{run}")
        self.job(node, stage, run)
        self.job(node, stage, run, "Complete")
        self.node(node, f"{stage}/complete/{run}")
        self.job(node, stage, run, "Complete", marked=True)

    def broken(self, claim: claims.Claim) -> list[str]:
        try:
            claims.replay(self.moments, [claim])
        except AssertionError as error:
            assert claim.broken
            return str(error).strip().splitlines()
        return []


@pytest.fixture
def story() -> Story:
    told = Story()
    told.cr()
    return told


def test_a_rollout_as_it_should_be_breaks_nothing(story: Story) -> None:
    for node in ("a", "b"):
        story.node(node)
        story.stage(node, "apply", f"{node}1")
        story.stage(node, "config", f"{node}2")
        done = story.picture.nodes[node].metadata.annotations
        story.node(node, None, {**done, f"{KEY}/pick_{CR}": json.dumps({"rollout": 1, "order": 0, "completed": True})})
    for claim in (claims.BudgetHolds(CR), claims.StateGoesForward(CR, Signals()), claims.JobsFollowState(CR)):
        assert story.broken(claim) == []


def test_a_second_node_under_way_breaks_a_budget_of_one(story: Story) -> None:
    """Between two stages a node has no Job and keeps its slot."""
    story.node("a")
    story.node("b")
    story.stage("a", "apply", "1")
    story.node("b", "apply/in_progress/2", order=1)
    assert "2 nodes under way, 1 allowed" in story.broken(claims.BudgetHolds(CR))[0]


def test_a_node_that_failed_for_good_or_is_ignored_is_not_counted(story: Story) -> None:
    story.node("a", "apply/in_progress/1")
    story.job("a", "apply", "1")
    story.job("a", "apply", "1", "FailureTarget")
    story.node("b", "apply/in_progress/2", order=1)
    assert story.broken(claims.BudgetHolds(CR)) == []


def test_a_budget_that_was_lowered_long_ago_holds(story: Story) -> None:
    story.cr(2)
    story.cr(1)
    story.node("a", "apply/in_progress/1")
    told = story.picture.nodes["a"]
    story.tell("Node", "b", told, time=100.0)
    assert story.broken(claims.BudgetHolds(CR))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("apply/complete/1", "apply/in_progress/2", "went back"),
        ("config/complete/1", "apply/in_progress/2", "went back"),
        ("apply/in_progress/1", "apply/in_progress/2", "runs again"),
        ("apply/erroring/1", "apply/in_progress/2", "runs again"),
        ("apply/in_progress/1", "config/in_progress/2", "went on without"),
        ("apply/in_progress/1", "apply/complete/1", "no Job of its run"),
    ],
)
def test_state_that_goes_back_or_ahead_of_its_proof_is_noticed(
    story: Story, before: str, after: str, says: str
) -> None:
    story.node("a", before)
    story.node("a", after)
    (found,) = story.broken(claims.StateGoesForward(CR, Signals()))
    assert says in found


def test_a_deleted_job_explains_another_run(story: Story) -> None:
    story.node("a", "apply/erroring/1")
    story.job("a", "apply", "1", "Failed")
    story.node("a", "apply/in_progress/2")
    assert story.broken(claims.StateGoesForward(CR, Signals(deleted={"job-a-apply-1"}))) == []
    assert story.broken(claims.StateGoesForward(CR, Signals()))


def test_an_entry_that_leaves_is_noticed(story: Story) -> None:
    story.node("a", "config/complete/1")
    story.node("a")
    assert "left without a successor" in story.broken(claims.StateGoesForward(CR, Signals()))[0]


def test_a_job_before_its_entry_and_a_mark_before_the_outcome_are_noticed(story: Story) -> None:
    story.node("a", "apply/in_progress/1")
    story.job("a", "apply", "other")
    assert "while the entry reads apply/in_progress/1" in story.broken(claims.JobsFollowState(CR))[0]
    early = Story()
    early.cr()
    early.node("a", "apply/in_progress/1")
    early.job("a", "apply", "1")
    early.job("a", "apply", "1", "Complete")
    early.job("a", "apply", "1", "Complete", marked=True)
    assert "marked before" in early.broken(claims.JobsFollowState(CR))[0]


def test_two_jobs_of_a_package_at_once_are_noticed(story: Story) -> None:
    story.node("a", "apply/in_progress/1")
    story.job("a", "apply", "1")
    story.node("a", "apply/in_progress/2")
    story.job("a", "apply", "2")
    assert "2 unfinished Jobs" in story.broken(claims.JobsFollowState(CR))[0]


def test_a_number_given_twice_and_foreign_data_that_is_gone_are_noticed(story: Story) -> None:
    story.node("a", "apply/in_progress/1", annotations={"owner": "x", "count": "2"}, order=3)
    story.node("b", "apply/in_progress/2", annotations={"owner": "x"}, order=3)
    story.node("a", "apply/in_progress/1", annotations={"count": "1"}, order=3)
    assert "given to two nodes" in story.broken(claims.OrdersAreUnique(CR))[0]
    found = story.broken(claims.ForeignDataSurvives({"owner": "x"}, "count"))
    assert ["owner" in found[0], "went back" in found[1]] == [True, True]


def test_complete_while_a_node_is_not_is_noticed(story: Story) -> None:
    story.node("a", "apply/in_progress/1")
    for _ in range(4):
        story.cr(status={"status": "in_progress"})
    story.cr(status={"status": "complete", "observedGeneration": 1})
    assert "reads complete while a" in story.broken(claims.StatusIsTrue(CR))[0]


class Host:
    """What ran, in order."""

    def __init__(self, story: Story) -> None:
        self.entries: list[Entry] = []
        self._story = story

    def start(self, pod: str, stage: str = "apply", *, job: str = "job-1") -> None:
        self._story.pod(pod, job)
        self._add(pod, stage, Event.START, "")

    def end(self, pod: str, stage: str = "apply", outcome: str = "succeeded") -> None:
        self._add(pod, stage, Event.END, outcome)

    def _add(self, pod: str, stage: str, event: Event, outcome: str) -> None:
        names = {"node": "a", "pod": pod, "pod_uid": pod, "cr": CR, "package": "base", "version": "1.0.0"}
        more = {"time": float(len(self.entries)), "event": event, "stage": stage, "container": f"base-{stage}"}
        self.entries.append(msgspec.convert({**names, **more, "outcome": outcome}, type=Entry))

    def check(self, signals: Signals | None = None) -> str:
        try:
            check_ledger(self.entries, self._story.moments, CR, signals or Signals(), backoff_limit=1)
        except AssertionError as error:
            return str(error)
        return ""


def test_what_ran_twice_beside_itself_too_often_or_out_of_order_is_noticed(story: Story) -> None:
    twice = Host(story)
    for pod, job in (("p1", "job-1"), ("p2", "job-2")):
        twice.start(pod, job=job)
        twice.end(pod)
    assert "ran 2 times" in twice.check()
    assert twice.check(Signals(deleted={"p1"})) == ""
    beside = Host(story)
    beside.start("q1")
    beside.start("q2", job="job-2")
    assert "started while ['q1'] ran" in beside.check()
    often = Host(story)
    for pod in ("r1", "r2", "r3"):
        often.start(pod)
        often.end(pod, outcome="failed:1")
    assert "had 3 attempts, 2 allowed" in often.check()
    order = Host(story)
    order.start("s1", "config")
    assert "without an apply" in order.check()
