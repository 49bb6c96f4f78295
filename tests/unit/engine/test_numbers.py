"""The numbers of rollouts, batches and picks: given once, without gaps that nobody took, whatever people write there (ROL-14)."""

from typing import Any

import pytest

from nodewright.api import keys
from nodewright.model.pick import Pick, dump
from nodewright.model.plan import Plan
from nodewright.model.snapshot import Answer
from tests.unit.engine.world import CR_NAME, World, package


def world_of(*names: str, count: int | None = 1) -> World:
    world = World(*names)
    budget: dict[str, Any] = {} if count is None else {"interruptionBudget": {"count": count}}
    world.cr(packages={"kernel": package()}, **budget)
    return world


def orders(world: World) -> dict[str, int]:
    return {name: pick.order for name in world.nodes if (pick := world.pick(name)) is not None}


def test_a_pick_that_did_not_land_has_taken_no_number() -> None:
    """ROL-14: the first writes are refused and the status lands; a fresh rollout starts at 0 all the same."""
    world = world_of("n1", "n2", count=None)
    for _ in range(3):
        world.apply(CR_NAME, Plan(status=world.plan().status))
        assert world.crs[CR_NAME].published["nodeOrderOffset"] == 0
    world.settle()
    assert orders(world) == {"n1": 0, "n2": 1}
    assert world.crs[CR_NAME].published["nodeOrderOffset"] == 2


def test_the_offset_stays_above_what_was_given_when_the_nodes_go() -> None:
    """ROL-14: never reused."""
    world = world_of("n1", "n2", count=None)
    world.settle()
    world.delete_node("n1")
    world.delete_node("n2")
    world.add_node("n3")
    world.restart()
    world.settle()
    assert orders(world) == {"n3": 2}


def test_a_number_whose_node_leaves_before_status_has_it_is_not_given_again() -> None:
    """ROL-14, ROL-1, seed 865 of the simulation: the operator dies after the pick, the next one finds it on a node that has left."""
    world = world_of("n1", "n2")
    for name in world.nodes:
        world.label(name, pool="a")
    world.cr(
        packages={"kernel": package()}, interruptionBudget={"count": 1}, nodeSelectors={"matchLabels": {"pool": "a"}}
    )
    while world.pick("n1") is None:
        world.status_lost = world.crs[CR_NAME].published.get("rollout") is not None
        world.step()
    assert not world.crs[CR_NAME].published.get("nodeOrderOffset")
    world.status_lost = False
    world.restart()
    world.label("n1", pool="b")
    world.settle()
    assert orders(world)["n2"] == 1
    assert world.crs[CR_NAME].published["nodeOrderOffset"] == 2
    world.run()
    assert world.pick("n1") is None


@pytest.mark.parametrize("number", [2**31, 2**31 - 1, 10**30, -1])
@pytest.mark.parametrize("field", ["rollout", "batch", "order"])
def test_an_absurd_number_in_a_pick_freezes_nothing(field: str, number: int) -> None:
    """ROL-12, ROL-13, LIF-1: beyond the limit it reads as none; just below it, nothing is given that would."""
    world = world_of("n1", "n2")
    world.settle()
    mine = world.pick("n1")
    assert mine is not None
    text = dump(mine).replace(f'"{field}":{getattr(mine, field)}', f'"{field}":{number}')
    world.annotate("n1", **{keys.pick_key(CR_NAME): text})
    world.run()
    assert world.statuses() == {"n1": "complete", "n2": "complete"}
    world.cr(packages={"kernel": package("1.1.0")}, interruptionBudget={"count": 1})
    world.run()
    assert world.statuses() == {"n1": "complete", "n2": "complete"}


@pytest.mark.parametrize("number", [2**31, 2**31 - 1, 10**30, -1, "x", True])
@pytest.mark.parametrize("field", ["rollout", "nodeOrderOffset"])
def test_an_absurd_number_in_status_freezes_nothing(field: str, number: Any) -> None:
    """ROL-12, LIF-1: the same limit as in a pick."""
    world = world_of("n1", "n2")
    world.publish(**{field: number})
    world.run()
    world.cr(packages={"kernel": package("1.1.0")}, interruptionBudget={"count": 1})
    world.run()
    assert world.statuses() == {"n1": "complete", "n2": "complete"}


def test_a_batch_keeps_its_size_at_its_evaluation() -> None:
    """ROL-11: without a strategy sizes do not change; of a batch of three one was blocked."""
    world = world_of("n1", "n2", "n3", count=3)
    world.outcomes = {"n3:kernel-1.0.0:apply": "hang"}
    world.settle()
    world.turn()
    world.ignore("n3")
    for _ in range(4):
        world.turn()
        world.step()
    assert (world.batch()["evaluated"], world.batch()["lastBatchSize"]) == (True, 3)


def test_a_node_whose_metadata_cannot_be_written_keeps_no_other_back() -> None:
    """LIF-4: its ConfigMap comes before its entry (LIF-12), so a refusal of it is one of the node."""
    world = world_of("n1", "n2")
    name = keys.node_metadata_configmap_name(cr=CR_NAME, node="n1")
    world.refused[f"ConfigMap/{name}"] = Answer(text="too large", at=world.now, count=3)
    assert [plan.node.name for plan in world.plan().nodes if plan.creates] == ["n2"]
    world.refused.clear()
    assert [plan.node.name for plan in world.plan().nodes if plan.creates] == ["n1"]


def test_completeness_is_not_remembered_of_nodes_and_predecessors_that_are_gone() -> None:
    """ROL-17, ROL-19: an operator runs for months, and an autoscaler makes names that never come back."""
    world = World("n1")
    world.cr("early", packages={"aa": package()}, priority=1)
    world.cr("late", packages={"bb": package()}, priority=2)
    for index in range(20):
        world.add_node(f"spot-{index}")
        world.step("late")
        world.delete_node(f"spot-{index}")
    world.step("late")
    assert len(world.engine._memory._complete) <= len(world.crs) * 2


def test_a_void_pick_of_an_absurd_order_is_no_number_given() -> None:
    """ROL-13, ROL-14."""
    world = world_of("n1")
    world.annotate("n1", **{keys.pick_key(CR_NAME): dump(Pick(1, 1, "__default__", 2**31, "t"))})
    world.settle()
    assert orders(world) == {"n1": 0}
