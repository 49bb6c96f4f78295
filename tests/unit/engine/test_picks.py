"""Which nodes are picked, go on and are counted (ROL-5, ROL-10 to ROL-14)."""

from typing import Any

import pytest

from nodewright.api import keys
from nodewright.model.pick import Pick, dump
from nodewright.model.snapshot import Answer
from tests.unit.engine.world import CR_NAME, World, package


def batched(count: int | None, *names: str, **fields: Any) -> World:
    """Nodes under a budget; nothing has run yet."""
    world = World(*names)
    budget = {} if count is None else {"interruptionBudget": {"count": count}}
    world.cr(**{"packages": {"kernel": package()}, **budget, **fields})
    return world


def fail_first(world: World, node: str) -> None:
    """The node's apply fails for good and is recorded."""
    world.fail(f"{node}:kernel-1.0.0:apply")
    world.settle()


def working(world: World) -> list[str]:
    return sorted({line.split(":")[0] for line in world.running()})


def test_without_a_budget_every_node_is_picked_and_one_that_joins_at_once() -> None:
    """ROL-5: nothing is batched."""
    world = batched(None, "n1", "n2")
    world.step()
    assert working(world) == ["n1", "n2"]
    world.add_node("n3")
    world.step()
    assert working(world) == ["n1", "n2", "n3"]
    fail_first(world, "n1")
    world.add_node("n4")
    world.step()
    assert working(world) == ["n2", "n3", "n4"]
    assert world.batch()["evaluated"] is False


@pytest.mark.parametrize(
    ("budget", "nodes"), [({"count": 2}, 2), ({"percent": 50}, 2), ({"percent": 10}, 1), ({"count": 0}, 0), ({}, 5)]
)
def test_a_budget_picks_so_many_at_once(budget: dict[str, int], nodes: int) -> None:
    """ROL-5, ROL-7."""
    world = World("n1", "n2", "n3", "n4", "n5")
    world.cr(packages={"kernel": package()}, interruptionBudget=budget)
    world.settle()
    assert len(working(world)) == nodes


def test_no_other_node_is_picked_between_two_packages_of_a_member() -> None:
    """ROL-10, B11: one at a time means one."""
    world = batched(1, "n1", "n2", packages={"aa": package(), "bb": package(dependsOn={"aa": "1.0.0"})})
    while world.status("n1") != "complete":
        world.settle()
        assert world.status("n1") == "complete" or working(world) == ["n1"]
        world.turn()
    assert working(world) == ["n2"] or working(world) == []


def test_no_new_node_is_picked_while_a_member_is_not_definite() -> None:
    """ROL-10, B14: members go on whatever the others do."""
    world = batched(2, "n1", "n2", "n3", "n4")
    world.settle()
    world.outcomes = {"n1:kernel-1.0.0:apply": "hang"}
    world.run()
    assert world.statuses() == {"n1": "in_progress", "n2": "complete", "n3": "waiting", "n4": "waiting"}
    world.outcomes.clear()
    world.run()
    assert set(world.statuses().values()) == {"complete"}


def test_a_batch_is_evaluated_once_before_the_next_pick() -> None:
    """ROL-11: no new pick before the evaluation's patch has landed."""
    world = batched(1, "n1", "n2")
    world.settle()
    world.turn()
    world.turn()
    world.status_lost = True
    world.settle()
    world.turn()
    world.turn()
    world.settle()
    assert world.status("n1") == "complete"
    assert working(world) == []
    world.status_lost = False
    world.step()
    assert (world.batch()["evaluated"], world.batch()["currentBatch"], working(world)) == (True, 1, [])
    world.step()
    assert (world.batch()["evaluated"], world.batch()["currentBatch"], working(world)) == (False, 2, ["n2"])


def test_failed_batches_are_counted_and_passed_ones_set_back() -> None:
    """ROL-11."""
    world = batched(1, "n1", "n2", "n3", "n4")
    world.settle()
    world.turn()
    fail_first(world, "n1")
    assert world.batch() | {"lastBatchSize": 1} == {
        "currentBatch": 2, "evaluated": False, "consecutiveFailures": 1, "completedNodes": 0, "failedNodes": 1, "shouldStop": False,
        "lastBatchSize": 1, "lastBatchFailed": True,
    }  # fmt: skip
    world.outcomes = {"n3:kernel-1.0.0:apply": "hang"}
    world.run()
    assert (world.batch()["consecutiveFailures"], world.batch()["completedNodes"], world.batch()["currentBatch"]) == (
        0,
        1,
        3,
    )


def test_a_retried_failure_fails_no_batch() -> None:
    """B05."""
    world = batched(1, "n1", "n2")
    world.settle()
    world.turn()
    world.fail_attempt("n1:kernel-1.0.0:apply")
    world.settle()
    assert (world.stages("n1"), world.status("n1")) == ({"kernel|1.0.0": "apply/erroring"}, "in_progress")
    assert working(world) == ["n1"]
    while world.status("n2") == "waiting":
        world.turn()
        world.settle()
    assert (world.batch()["failedNodes"], world.batch()["consecutiveFailures"]) == (0, 0)


def test_when_nobody_succeeded_or_failed_others_take_the_place_in_the_same_batch() -> None:
    """ROL-10a, B16: all members are blocked; no division by zero, no evaluation."""
    world = batched(2, "n1", "n2", "n3", "n4")
    world.settle()
    for name in ("n1", "n2"):
        world.taint(name, ("network", "NoSchedule"))
        world.drop(world.job(f"{name}:kernel-1.0.0:apply").metadata.name)
    world.settle()
    assert world.statuses() == {"n1": "blocked", "n2": "blocked", "n3": "in_progress", "n4": "in_progress"}
    assert (world.batch()["currentBatch"], world.batch()["evaluated"]) == (1, False)
    assert {n: p.batch for n in world.nodes if (p := world.pick(n))} == dict.fromkeys(world.nodes, 1)


def test_a_released_member_goes_on_before_any_new_pick_once_there_is_room() -> None:
    """ROL-10a: until then it reads waiting; it keeps its number, and its outcome counts in the batch that is current then."""
    world = batched(1, "n1", "n2", "n3")
    world.settle()
    world.turn()
    fail_first(world, "n1")
    assert working(world) == ["n2"]
    world.drop(world.job("n1:kernel-1.0.0:apply").metadata.name)
    world.settle()
    assert (world.status("n1"), working(world)) == ("waiting", ["n2"])
    world.outcomes = {"n1:kernel-1.0.0:apply": "hang"}
    world.run()
    assert world.statuses() == {"n1": "in_progress", "n2": "complete", "n3": "waiting"}
    assert world.pick("n1") == Pick(1, 2, "__default__", 0, world.crs[CR_NAME].published["nodePriority"]["n1"])
    assert world.batch()["failedNodes"] == 0  # ROL-12: it leaves failedNodes


def test_a_stopped_compartment_lets_released_members_go_on_and_picks_nobody() -> None:
    """ROL-10a, ROL-11: until its batch state is reset."""
    world = batched(1, "n1", "n2")
    world.settle()
    world.turn()
    fail_first_and_stop(world)
    assert working(world) == []
    assert world.condition("RolloutStopped") is not None
    world.drop(world.job("n1:kernel-1.0.0:apply").metadata.name)
    world.settle()
    assert working(world) == ["n1"]
    world.run()
    assert world.statuses() == {"n1": "complete", "n2": "waiting"}


def fail_first_and_stop(world: World) -> None:
    world.fail("n1:kernel-1.0.0:apply")
    world.step()
    statuses = {
        "__default__": {
            "batchState": {
                "currentBatch": 1,
                "evaluated": True,
                "shouldStop": True,
                "failedNodes": 1,
                "lastBatchSize": 1,
            }
        }
    }
    world.publish(compartmentStatuses=statuses)
    world.settle()


def test_numbers_are_given_once_by_name_and_go_on_in_the_next_batch() -> None:
    """ROL-14, B13."""
    world = batched(2, "n4", "n3", "n2", "n1")
    world.settle()
    assert {n: p.order for n in world.nodes if (p := world.pick(n))} == {"n1": 0, "n2": 1}
    world.delete_node("n1")
    world.run()
    numbers = {n: p.order for n in world.nodes if (p := world.pick(n))}
    assert numbers == {"n2": 1, "n3": 2, "n4": 3}


def test_the_number_is_the_nodes_own_through_every_stage() -> None:
    """ROL-14: it reaches the Job."""
    world = batched(1, "n1", "n2")
    created: list[tuple[str, str]] = []
    for _ in range(20):
        plan = world.plan()
        for create in (c for n in plan.nodes for c in n.creates):
            env = create.body["spec"]["template"]["spec"]["initContainers"][1]["env"]
            created.append((create.stage, next(e["value"] for e in env if e["name"] == "SKYHOOK_NODE_ORDER")))
        world.apply(CR_NAME, plan)
        world.turn()
    assert created == [("apply", "0"), ("config", "0"), ("apply", "1"), ("config", "1")]


def test_numbers_of_picks_that_are_being_written_are_not_given_again() -> None:
    """ROL-14: the status with the offset may not have landed either."""
    world = batched(None, "n1", "n2")
    busy = {plan.node.name: plan.pick for plan in world.plan().nodes}
    world.busy = busy
    world.add_node("n3")
    picks = {plan.node.name: plan.pick for plan in world.plan().nodes}
    assert {p.order for p in busy.values() if p} == {0, 1}
    assert {n: p.order for n, p in picks.items() if p} == {"n3": 2}


def test_the_number_of_a_node_that_went_before_the_status_landed_is_not_given_again() -> None:
    """ROL-14: its pick went with it and the offset is not published yet; the shell knows what it wrote."""
    world = batched(None, "n1", "n2")
    world.status_lost = True
    world.step()
    picks = [p for n in world.nodes if (p := world.pick(n))]
    assert [p.order for p in picks] == [0, 1]
    world.given = {picks[0].rollout: 2, picks[0].rollout + 1: 9}
    world.delete_node("n2")
    world.add_node("n3")
    world.step()
    numbers = {n: p.order for n in world.nodes if (p := world.pick(n))}
    assert numbers == {"n1": 0, "n3": 2}


def test_a_busy_node_holds_its_slot_and_reads_as_it_will() -> None:
    """ROL-10, B160: while its first writes are under way nobody else is picked, and the CR does not read waiting."""
    world = batched(1, "n1", "n2")
    world.busy = {"n1": next(plan.pick for plan in world.plan().nodes if plan.node.name == "n1")}
    plan = world.plan()
    assert [n.node.name for n in plan.nodes if n.creates] == []
    assert "n1" not in [n.node.name for n in plan.nodes]
    assert plan.status is not None
    assert plan.status.build()["nodeStatus"] == {"n1": "in_progress", "n2": "waiting"}
    assert plan.status.build()["nodeOrder"] == {"n1": 0}


def test_waiting_nodes_come_before_others_blocked_and_erroring_last() -> None:
    """ROL-13."""
    world = batched(0, "n1", "n2", "n3", "n4")
    for name, status in {"n1": "erroring", "n2": "blocked", "n3": "unknown", "n4": "waiting"}.items():
        world.annotate(name, **{keys.status_key(CR_NAME): status})
        world.label(name, **{keys.status_key(CR_NAME): status})
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 2})
    world.step()
    assert working(world) == ["n3", "n4"]


def test_a_pick_without_entry_job_or_cordon_is_void() -> None:
    """ROL-13: it holds no slot, and the node gets a new number."""
    world = batched(1, "n1", "n2")
    world.annotate("n2", **{keys.pick_key(CR_NAME): dump(Pick(1, 1, "__default__", 7, "t"))})
    world.settle()
    assert working(world) == ["n1"]
    assert world.pick("n2") is None
    assert world.pick("n1").order == 8  # type: ignore[union-attr]


def test_a_node_at_work_without_a_pick_is_taken_in_before_any_other_and_counts() -> None:
    """ROL-13."""
    world = batched(1, "n1", "n2")
    world.settle()
    for garbage in (None, "{", '{"rollout": -1}'):
        world.annotate("n1", **{keys.pick_key(CR_NAME): garbage})
        world.settle()
        assert working(world) == ["n1"]
        assert world.pick("n1") is not None
    world.run()
    assert set(world.statuses().values()) == {"complete"}


def test_the_patch_that_completes_a_node_ends_its_pick() -> None:
    """ROL-13: the pick is over, its outcome there for the evaluation."""
    world = batched(1, "n1", "n2")
    world.outcomes = {"n2:kernel-1.0.0:apply": "hang"}
    world.run()
    pick = world.pick("n1")
    assert pick is not None
    assert (pick.completed, pick.batch, pick.rollout) == (True, 1, 1)
    assert list(world.crs[CR_NAME].published["nodeOrder"]) == ["n2"]


def test_a_deleted_member_releases_its_slot_within_a_pass() -> None:
    """ROL-19, B106."""
    world = batched(1, "n1", "n2")
    world.settle()
    world.delete_node("n1")
    world.step()
    assert working(world) == ["n1", "n2"]  # the orphan's Job is going
    assert world.job("n1:kernel-1.0.0:apply").metadata.deletion_timestamp is not None
    world.settle()
    assert world.crs[CR_NAME].published["nodeStatus"] == {"n2": "in_progress"}


@pytest.mark.parametrize(
    "garbage", [{"currentBatch": -4, "completedNodes": 99, "failedNodes": -1}, {"currentBatch": "x"}, 7, None]
)
def test_impossible_batch_state_is_corrected_and_saved(garbage: Any) -> None:
    """LIF-1, ROL-12: it never goes negative and never freezes."""
    world = batched(1, "n1", "n2")
    world.publish(
        compartmentStatuses={"__default__": {"batchState": garbage}, "gone": {"batchState": {}}}, nodeOrderOffset=-3
    )
    world.settle()
    assert (world.batch()["currentBatch"], world.batch()["completedNodes"], world.batch()["failedNodes"]) == (1, 0, 0)
    assert list(world.crs[CR_NAME].published["compartmentStatuses"]) == ["__default__"]  # B17
    world.run()
    assert set(world.statuses().values()) == {"complete"}


def test_a_node_that_cannot_be_written_keeps_no_other_back() -> None:
    """LIF-4: an admission policy refuses every write to n1; by name it would be the first to be picked in every pass."""
    world = World("n1", "n2", "n3")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.refused["Node/n1"] = Answer(text="denied by policy", at=world.now, count=3)
    assert [plan.node.name for plan in world.plan().nodes if plan.creates] == ["n2"]
    del world.refused["Node/n1"]
    assert [plan.node.name for plan in world.plan().nodes if plan.creates] == ["n1"]


def test_a_node_that_cannot_be_written_is_tried_again_when_no_other_is_left() -> None:
    """LIF-4."""
    world = World("n1")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.refused["Node/n1"] = Answer(text="denied by policy", at=world.now)
    assert [plan.node.name for plan in world.plan().nodes if plan.creates] == ["n1"]


def test_a_member_that_cannot_be_written_and_has_work_again_keeps_no_new_pick_back() -> None:
    """LIF-4, ROL-10a."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.settle()
    world.ignore("n1")
    world.settle()
    world.turn()
    world.ignore("n1", on=False)
    world.refused["Node/n1"] = Answer(text="denied by policy", at=world.now)
    world.run()
    assert world.status("n2") == "complete"


@pytest.mark.parametrize("number", [3 * 10**9, 2**31])
def test_a_batch_number_that_no_pick_can_name_is_corrected(number: int) -> None:
    """LIF-1: edited by hand; every pick of it read as none, and was given again in every pass."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.publish(compartmentStatuses={"__default__": {"batchState": {"currentBatch": number}}})
    world.run()
    assert world.statuses() == {"n1": "complete", "n2": "complete"}
