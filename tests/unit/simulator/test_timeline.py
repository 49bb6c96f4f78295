"""What happened is kept as it happened: spans of attempts, sayings of nodes, batches; and the figures made of them."""

from typing import Any

import pytest

from nodewright.simulator.ledger import Entry, Event
from nodewright.simulator.outcome import Ending, Outcome, cr_outcome, of_any_node
from nodewright.simulator.timeline import Saying, Timeline


class Story:
    def __init__(self) -> None:
        self.now = 0.0
        self.timeline = Timeline(lambda: self.now, epoch=1000.0)

    def ran(
        self, at: float, event: Event, *, pod: str = "p", outcome: str = "", container: str = "x", attempt: int = 1
    ) -> Any:
        return self.timeline.ran(
            Entry(
                time=1000.0 + at, event=event, node="n", pod_uid=pod, cr="c", package="a", version="1", stage="apply",
                container=container, attempt=attempt, outcome=outcome,
            )
        )  # fmt: skip

    def said(self, at: float, status: str, code: str = "", text: str = "") -> Saying | None:
        self.now = at
        return self.timeline.said("c", "n", status=status, code=code, text=text, release="")


@pytest.fixture
def story() -> Story:
    return Story()


def test_an_attempt_is_one_span_from_first_to_last_container(story: Story) -> None:
    story.ran(1.0, Event.START)
    assert story.ran(5.0, Event.END, outcome="succeeded") is None
    story.ran(5.0, Event.START, container="done")
    ended = story.ran(6.0, Event.END, outcome="succeeded", container="done")
    assert (ended.start, ended.end, ended.outcome, ended.failed) == (1.0, 6.0, "succeeded", False)
    assert list(story.timeline.spans("c")) == [ended]


def test_an_attempt_that_failed_stays_failed(story: Story) -> None:
    story.ran(1.0, Event.START)
    failed = story.ran(2.0, Event.END, outcome="failed:3")
    assert (failed.failed, failed.outcome) == (True, "failed:3")
    story.ran(9.0, Event.START, pod="q", attempt=2)
    assert [span.attempt for span in story.timeline.spans("c")] == [1, 2]


def test_a_refused_pod_is_an_attempt_without_length(story: Story) -> None:
    refused = story.ran(3.0, Event.REFUSED, outcome="OutOfcpu", container="")
    assert (refused.start, refused.end, refused.outcome) == (3.0, 3.0, "refused:OutOfcpu")


def test_only_news_is_a_saying(story: Story) -> None:
    assert story.said(1.0, "waiting", "BatchFull", "3 are under way") is not None
    assert story.said(2.0, "waiting", "BatchFull", "2 are under way") is None
    assert story.said(3.0, "in_progress") is not None
    first, second = story.timeline.track("c", "n").sayings
    assert (first.at, first.text, second.at) == (1.0, "2 are under way", 3.0)
    assert story.timeline.changed_at == 3.0


def test_a_batch_begins_with_its_first_pick(story: Story) -> None:
    begun = [story.timeline.picked("c", node, compartment="d", batch=1) for node in ("a", "b", "a")]
    assert [one is not None for one in begun] == [True, False, False]


def test_the_outcome_says_why_a_node_is_not_complete(story: Story) -> None:
    story.ran(1.0, Event.START)
    story.ran(2.0, Event.END, outcome="failed:3")
    story.said(2.0, "erroring", "StageFailed", "failed for good")
    cr = cr_outcome("c", {"status": "erroring", "conditions": [{"type": "Stalled", "status": "True"}]}, story.timeline)
    plain = Outcome(seed=1, nodes=1, ending=Ending.STUCK, seconds=2.0, crs=(cr,)).to_plain()
    (one,) = plain["nodewrights"][0]["unfinished"]
    assert (one["node"], one["reason"], one["since"]) == ("n", "StageFailed", 2.0)
    assert one["failures"][0]["outcome"] == "failed:3"
    assert plain["nodewrights"][0]["stages"][0]["failed"] == 1
    assert plain["succeeded"] is False


def test_the_median_is_of_successful_attempts_only(story: Story) -> None:
    for index, (took, outcome) in enumerate([(10.0, "succeeded"), (30.0, "succeeded"), (1.0, "failed:1")]):
        story.ran(0.0, Event.START, pod=str(index), container="done")
        story.ran(took, Event.END, pod=str(index), outcome=outcome, container="done")
    (figures,) = cr_outcome("c", {}, story.timeline).stages
    assert (figures.succeeded, figures.failed, figures.p50, figures.longest) == (2, 1, 20.0, 30.0)


@pytest.mark.parametrize(
    ("text", "general"),
    [
        ("failed on node n-1; delete Job c-a-n-1-0f", "failed on the node; delete its Job"),
        ("n-1 waits", "the node waits"),
        ("n-10 waits for Job other", "n-10 waits for Job other"),
    ],
)
def test_what_is_said_of_one_node_reads_the_same_for_all(text: str, general: str) -> None:
    assert of_any_node(text, "n-1") == general
