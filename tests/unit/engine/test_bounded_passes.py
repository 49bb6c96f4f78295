"""A pass is synchronous, so what it does at a time is bounded; the next one follows at once (design: the loop is never blocked > 50 ms)."""

from typing import Any

from nodewright.engine.memory import MOST_MET, MOST_PLANNED
from nodewright.model.plan import Plan
from nodewright.model.snapshot import Answer
from tests.unit.engine.world import CR_NAME, World, package


def world_of(count: int, **fields: Any) -> World:
    world = World(*(f"node-{index:04}" for index in range(count)))
    world.cr(packages={"kernel": package()}, **fields)
    return world


def started(plan: Plan) -> list[str]:
    return sorted(node.node.name for node in plan.nodes if node.creates)


def test_nothing_is_decided_before_every_node_is_known() -> None:
    """Design; ROL-10: what is under way on a node that was not looked at yet counts."""
    world = world_of(2 * MOST_MET + 1)
    plans = [world.plan() for _ in range(3)]
    assert plans[:2] == [Plan(wake_at=world.now)] * 2
    assert started(plans[2])


def test_without_a_budget_nodes_are_picked_in_portions_and_numbered_by_name_within_each() -> None:
    """ROL-5, ROL-14: 0, 1, 2 … without a gap, one pass after the other, and each node is written once for it."""
    world = world_of(MOST_MET)
    sizes = []
    while len(world.jobs) < MOST_MET:
        plan = world.plan()
        sizes.append(len(started(plan)))
        assert len(plan.nodes) == sizes[-1]
        assert plan.wake_at == world.now or len(world.jobs) + sizes[-1] == MOST_MET
        world.apply(CR_NAME, plan)
    assert len(sizes) > 1
    assert max(sizes) <= MOST_PLANNED
    orders = [pick.order for name in sorted(world.nodes) if (pick := world.pick(name)) is not None]
    assert orders == list(range(MOST_MET))
    world.settle()
    assert world.crs[CR_NAME].published["nodeOrderOffset"] == MOST_MET


def test_a_batch_is_picked_as_a_whole() -> None:
    """ROL-10: once it has members it is closed, so a portion of it would be all of it."""
    world = world_of(MOST_PLANNED + 60, interruptionBudget={"count": MOST_PLANNED + 50})
    assert len(started(world.plan())) == MOST_PLANNED + 50


def test_nodes_whose_writes_do_not_go_through_keep_the_others_back_in_no_portion() -> None:
    """LIF-4: more of them than a pass plans; and they ask for no pass before their time."""
    world = world_of(MOST_PLANNED + 50, interruptionBudget={"count": 0})
    names = list(world.nodes)
    world.refused = {f"Node/{name}": Answer(text="denied", at=world.now) for name in names[: MOST_PLANNED + 10]}
    plan = world.plan()
    assert set(names[MOST_PLANNED + 10 :]) <= {node.node.name for node in plan.nodes}
    assert plan.wake_at is None


def test_a_rollout_of_many_nodes_ends() -> None:
    """Every portion comes, and the engine is silent at the end."""
    world = world_of(MOST_MET + 1)
    while True:
        world.settle(limit=100)
        if not world.turn():
            break
    assert set(world.statuses().values()) == {"complete"}
    assert world.plan().wake_at is None
