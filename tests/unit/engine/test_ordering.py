"""Order between CRs, pause and disable (ROL-17, ROL-18, JOB-16)."""

from typing import Any

import pytest

from nodewright.api import keys
from tests.unit.engine.world import CR_NAME, World, package


def two(*names: str, first: dict[str, Any] | None = None, second: dict[str, Any] | None = None) -> World:
    """`early` before `late`, on the same nodes."""
    world = World(*(names or ("n1", "n2")))
    world.cr("early", packages={"aa": package()}, priority=1, **(first or {}))
    world.cr("late", packages={"bb": package()}, priority=2, **(second or {}))
    return world


def test_a_node_is_worked_on_once_its_predecessors_are_complete_on_it() -> None:
    """ROL-17: node by node."""
    world = two(first={"interruptionBudget": {"count": 1}})
    world.settle()
    assert (world.running("early"), world.running("late")) == (["n1:aa-1.0.0:apply"], [])
    assert world.statuses("late") == {"n1": "waiting", "n2": "waiting"}
    world.outcomes = {"n2:aa-1.0.0:apply": "hang"}
    world.run()
    assert world.statuses("late") == {"n1": "complete", "n2": "waiting"}


def test_a_barrier_holds_every_node_until_all_are_complete() -> None:
    """ROL-17: the CR reads waiting, also on nodes that the predecessor does not select."""
    world = two("n1", "n2", first={"sequencing": "all", "nodeSelectors": {"matchLabels": {"pool": "a"}}})
    world.label("n1", pool="a")
    world.outcomes = {"n1:aa-1.0.0:apply": "hang"}
    world.run()
    assert (world.statuses("late"), world.crs["late"].published["status"]) == (
        {"n1": "waiting", "n2": "waiting"},
        "waiting",
    )
    world.outcomes.clear()
    world.run()
    assert world.statuses("late") == {"n1": "complete", "n2": "complete"}


def test_an_unfinished_ignored_node_keeps_a_barrier_closed() -> None:
    """ROL-2."""
    world = two(first={"sequencing": "all"})
    world.ignore("n2")
    world.run()
    assert world.statuses("early") == {"n1": "complete", "n2": "blocked"}
    assert world.running("late") == []
    world.delete_node("n2")  # a deleted node cannot hold a barrier (ROL-19)
    world.run()
    assert world.statuses("late") == {"n1": "complete"}


def test_equal_priorities_go_by_name() -> None:
    """ROL-17."""
    world = World("n1")
    world.cr("bbb", packages={"pp": package()})
    world.cr("aaa", packages={"pp": package()})
    world.settle()
    assert (world.running("aaa"), world.running("bbb")) == (["n1:pp-1.0.0:apply"], [])


def test_a_predecessor_that_opens_again_lets_running_jobs_end_and_no_stage_start() -> None:
    """ROL-17: slot kept, the node reads waiting."""
    world = two("n1", first={"nodeSelectors": {"matchLabels": {"pool": "a"}}})
    world.settle()
    assert world.running("late") == ["n1:bb-1.0.0:apply"]
    world.label("n1", pool="a")
    world.outcomes = {"n1:aa-1.0.0:apply": "hang"}
    world.run()
    assert world.stages("n1", "late") == {"bb|1.0.0": "apply/complete"}
    assert world.status("n1", "late") == "waiting"
    pick = world.pick("n1", "late")
    assert pick is not None
    assert not pick.over
    world.outcomes.clear()
    world.run()
    assert world.status("n1", "late") == "complete"


def test_a_predecessor_in_deletion_holds_a_node_only_while_a_job_is_there() -> None:
    """ROL-17, JOB-12: a finished one holds nothing."""
    world = two("n1", "n2", first={"interruptionBudget": {"count": 1}})
    world.outcomes = {"n2:aa-1.0.0:apply": "hang"}
    world.run("early")
    world.delete_cr("early")
    world.settle("late")
    assert world.running("late") == ["n1:bb-1.0.0:apply"]
    world.settle("early")
    world.finish_deletions()
    world.settle("late")
    assert world.running("late") == ["n1:bb-1.0.0:apply", "n2:bb-1.0.0:apply"]


def test_a_predecessor_nobody_can_read_holds_nothing() -> None:
    """LIF-4: one CR's fault never stops another."""
    world = two("n1")
    early = world.crs["early"]
    world.crs["early"] = type(early)(early.meta, None, early.faults, early.published)
    world.run("late")
    assert world.status("n1", "late") == "complete"


@pytest.mark.parametrize(
    ("annotations", "status", "successor"),
    [
        ({"pause": "true"}, "paused", "waiting"),
        ({"disable": "true"}, "disabled", "complete"),
        ({"pause": "true", "disable": "true"}, "disabled", "complete"),
        ({"pause": "True"}, "complete", "complete"),
        ({"disable": "yes"}, "complete", "complete"),
    ],
)
def test_only_the_exact_value_counts(annotations: dict[str, str], status: str, successor: str) -> None:
    """ROL-18, ROL-20, ROL-21."""
    world = two("n1")
    world.order("early", **annotations)
    world.run()
    assert (world.status("n1", "early"), world.crs["early"].published["status"]) == (status, status)
    assert world.status("n1", "late") == successor


def test_a_node_that_a_paused_predecessor_finished_is_past_it() -> None:
    """ROL-18."""
    world = two("n1", "n2", first={"interruptionBudget": {"count": 1}})
    world.outcomes = {"n2:aa-1.0.0:apply": "hang"}
    world.run("early")
    world.order("early", pause="true")
    world.run()
    assert world.statuses("late") == {"n1": "complete", "n2": "waiting"}
    assert world.statuses("early") == {"n1": "complete", "n2": "paused"}


def suspended(world: World) -> list[bool]:
    return [job.spec.suspend for job in world.jobs.values() if not job.finished]


@pytest.mark.parametrize(
    ("orders", "expected"),
    [
        ([{"pause": "true"}], True),
        ([{"pause": "true"}, {"pause": None}], False),
        ([{"pause": "true"}, {"pause": None, "disable": "true"}], True),  # B32: resumed only when both are cleared
        ([{"pause": "true"}, {"pause": None, "disable": "true"}, {"disable": None}], False),
        ([{"pause": "true", "disable": "true"}], True),  # whatever the order
        ([{"disable": "true"}, {"pause": "true"}], True),
        ([{"disable": "true"}], False),  # what runs, runs on
    ],
)
def test_pause_suspends_and_both_must_be_cleared_to_resume(orders: list[dict[str, str | None]], expected: bool) -> None:
    """JOB-16, ROL-18, B32."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    world.turn()
    for one in orders:
        world.order(CR_NAME, **one)
        world.settle()
    assert suspended(world) == [expected]
    world.order(pause=None, disable=None)
    world.run()
    assert world.status("n1") == "complete"
    assert len(world.started) == 2


def test_a_stale_job_is_removed_rather_than_resumed() -> None:
    """JOB-16, JOB-10."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    world.order(pause="true")
    world.settle()
    world.cr(packages={"kernel": {**package(), "image": "registry/other"}})
    world.order(pause=None)
    world.step()
    job = world.job("n1:kernel-1.0.0:apply")
    assert job.metadata.deletion_timestamp is not None
    assert job.spec.suspend is True


def test_paused_nothing_starts_and_what_ended_is_recorded() -> None:
    """ROL-18."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    world.turn()
    world.order(pause="true")
    world.succeed("n1:kernel-1.0.0:apply")
    world.settle()
    assert world.stages("n1") == {"kernel|1.0.0": "apply/complete"}
    assert world.job("n1:kernel-1.0.0:apply").metadata.annotations[keys.STATE_RECORDED] == "true"
    assert world.running() == []
