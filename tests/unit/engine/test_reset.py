"""When batch state returns to its start (ROL-15), and what a reset of a node does (CHG-14)."""

from typing import Any

import pytest

from nodewright.api import keys
from tests.unit.engine.world import CR_NAME, World, package

AT_START = {
    "currentBatch": 1, "evaluated": False, "consecutiveFailures": 0, "completedNodes": 0, "failedNodes": 0, "shouldStop": False,
    "lastBatchSize": 0, "lastBatchFailed": False,
}  # fmt: skip


def rolled_out(**fields: Any) -> World:
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1}, **fields)
    world.run()
    return world


def numbers(world: World) -> dict[str, int]:
    return {n: p.order for n in world.nodes if (p := world.pick(n)) is not None and not p.over}


def test_completion_resets_and_the_next_numbers_start_at_0() -> None:
    """ROL-15, ROL-14."""
    world = rolled_out()
    published = world.crs[CR_NAME].published
    assert (published["rollout"], published["nodeOrderOffset"], world.batch()) == (2, 0, AT_START)
    world.add_node("n3")
    world.settle()
    assert numbers(world) == {"n3": 0}


def test_completion_keeps_the_state_when_told_so() -> None:
    """ROL-15: deploymentPolicyOptions win."""
    world = rolled_out(deploymentPolicyOptions={"resetBatchStateOnCompletion": False})
    published = world.crs[CR_NAME].published
    assert (published["rollout"], published["nodeOrderOffset"], world.batch()["completedNodes"]) == (1, 2, 2)


def test_a_changed_package_list_resets_before_anything_is_picked() -> None:
    """ROL-15: a restart neither repeats nor misses it."""
    world = World("n1", "n2", "n3")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.outcomes = {"n2:kernel-1.0.0:apply": "hang"}
    world.run()
    assert world.batch()["currentBatch"] == 2
    world.cr(packages={"kernel": package("1.1.0")}, interruptionBudget={"count": 1})
    world.status_lost = True
    world.restart()
    world.settle()
    assert world.crs[CR_NAME].published["rollout"] == 1
    assert numbers(world) == {"n2": 1}
    world.status_lost = False
    world.settle()
    assert (world.crs[CR_NAME].published["rollout"], world.crs[CR_NAME].published["packageList"]) == (2, "kernel:1.1.0")
    pick = world.pick("n2")
    assert pick is not None
    assert (pick.rollout, pick.batch, pick.order) == (2, 1, 1)  # stays, with its number
    world.outcomes.clear()
    seen: dict[str, int] = {}
    while world.crs[CR_NAME].published["status"] != "complete":
        world.settle()
        seen |= numbers(world)
        world.turn()
    assert seen == {"n2": 1, "n1": 2, "n3": 3}  # new numbers start above theirs


def test_a_failed_member_stays_in_the_new_rollout() -> None:
    """ROL-15: a begun entry, a failed one too."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.settle()
    world.fail("n1:kernel-1.0.0:apply")
    world.settle()
    world.cr(packages={"kernel": package(), "net": package()}, interruptionBudget={"count": 2})
    world.settle()
    pick = world.pick("n1")
    assert pick is not None
    assert (pick.rollout, pick.order) == (2, 0)


@pytest.mark.parametrize("writes", range(6))
def test_a_crash_during_the_reset_changes_nothing_of_it(writes: int) -> None:
    """ROL-15, LIF-2."""
    world = rolled_out()
    world.cr(packages={"kernel": package("2.0.0")}, interruptionBudget={"count": 1})
    world.step(writes=writes)
    world.run()
    assert set(world.statuses().values()) == {"complete"}
    assert world.crs[CR_NAME].published["rollout"] in (3, 4)
    assert len([w for w, _ in world.started if ":upgrade" in w]) == 2


def test_a_status_that_was_wiped_starts_above_every_pick_on_a_node() -> None:
    """ROL-13: `rollout` is above any found on a node, so that old picks count in no batch."""
    world = rolled_out()
    world.publish(rollout=None, compartmentStatuses=None, nodeOrderOffset=None, packageList=None)
    world.run()
    assert world.crs[CR_NAME].published["rollout"] == 2


def test_a_rollout_below_one_on_a_node_is_corrected() -> None:
    """LIF-1, ROL-13: nodes win over status; a member at work keeps its number."""
    world = World("n1")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.settle()
    text = '{"rollout":7,"batch":1,"compartment":"__default__","order":5,"time":"t"}'
    world.annotate("n1", **{keys.pick_key(CR_NAME): text})
    world.settle()
    assert world.crs[CR_NAME].published["rollout"] == 8
    pick = world.pick("n1")
    assert pick is not None
    assert (pick.rollout, pick.order) == (8, 5)


def test_a_node_taken_in_gets_its_number_only_once_the_rollout_is_there() -> None:
    """ROL-15: its Job runs on, its next stage waits for the reset's patch."""
    world = World("n1")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.settle()
    world.turn()
    world.annotate("n1", **{keys.pick_key(CR_NAME): None})
    world.publish(rollout=None, packageList=None)
    world.status_lost = True
    world.settle()
    assert world.pick("n1") is None
    assert world.running() == ["n1:kernel-1.0.0:apply"]
    world.status_lost = False
    world.settle()
    pick = world.pick("n1")
    assert pick is not None
    assert (pick.rollout, pick.batch, pick.order) == (1, 1, 0)


def test_a_reset_node_runs_everything_again_once() -> None:
    """CHG-14, B22: the finished Jobs go first, then the stages run again."""
    world = rolled_out()
    world.started.clear()
    world.reset("n1")
    world.settle()
    assert world.running() == []  # the old Jobs still hold the names
    world.run()
    assert [what for what, _ in world.started] == ["n1:kernel-1.0.0:apply", "n1:kernel-1.0.0:config"]
    assert world.statuses() == {"n1": "complete", "n2": "complete"}


def test_one_removed_entry_reruns_that_package_alone() -> None:
    """CHG-14."""
    world = World("n1")
    world.cr(packages={"aa": package(), "bb": package()})
    world.run()
    world.started.clear()
    world.reset("n1", "aa|1.0.0")
    world.run()
    assert [what for what, _ in world.started] == ["n1:aa-1.0.0:apply", "n1:aa-1.0.0:config"]


def test_a_reset_keeps_the_cordon_annotation_so_that_the_rerun_releases_it() -> None:
    """CHG-14, B89."""
    world = rolled_out()
    world.annotate("n1", **{keys.cordon_key(CR_NAME): "true"})
    world.reset("n1")
    world.step()
    assert world.nodes["n1"].metadata.annotations[keys.cordon_key(CR_NAME)] == "true"
    world.run()
    assert keys.cordon_key(CR_NAME) not in world.nodes["n1"].metadata.annotations
