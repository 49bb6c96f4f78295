"""`serial`: one package at a time on each node (LIF-7)."""

from typing import Any

from nodewright.model.node_state import Entry, Stage, State
from nodewright.model.snapshot import Answer
from tests.unit.engine.world import World, package


def serial(*names: str, **packages: dict[str, Any]) -> World:
    world = World(*names)
    world.cr(packages=packages or {"aa": package(), "bb": package(), "cc": package()}, serial=True)
    return world


def test_one_package_is_carried_to_its_end_before_another_starts() -> None:
    """LIF-7."""
    world = serial("n1")
    world.run()
    assert [what for what, _ in world.started] == [
        f"n1:{p}-1.0.0:{s}" for p in ("aa", "bb", "cc") for s in ("apply", "config")
    ]


def test_every_node_moves_in_the_same_pass() -> None:
    """B20."""
    world = serial("n1", "n2", "n3")
    world.step()
    assert world.running() == ["n1:aa-1.0.0:apply", "n2:aa-1.0.0:apply", "n3:aa-1.0.0:apply"]


def test_a_begun_package_comes_before_one_that_sorts_earlier() -> None:
    """LIF-7."""
    world = serial("n1")
    world.set_state(
        "n1", {"cc|1.0.0": Entry(name="cc", version="1.0.0", stage=Stage.APPLY, state=State.COMPLETE, run="r")}
    )
    world.settle()
    assert world.running() == ["n1:cc-1.0.0:config"]


def test_a_package_that_failed_for_good_makes_room() -> None:
    """LIF-7."""
    world = serial("n1")
    world.outcomes = {"n1:aa-1.0.0:apply": "fail"}
    world.run()
    assert world.stages("n1") == {
        "aa|1.0.0": "apply/erroring",
        "bb|1.0.0": "config/complete",
        "cc|1.0.0": "config/complete",
    }
    assert world.status("n1") == "erroring"


def test_a_begun_package_that_is_held_keeps_the_others_back() -> None:
    """LIF-7: it is carried to its end first, also while its ConfigMap is refused."""
    world = serial("n1", aa=package(configMap={"a": "1"}), bb=package())
    world.settle()
    world.turn()
    world.turn()
    world.configmaps.clear()
    world.refused["ConfigMap/tuning-aa-1.0.0"] = Answer("too large", world.now)
    world.settle()
    assert world.running() == []
    world.refused.clear()
    world.now += 20
    world.settle()
    assert world.running() == ["n1:aa-1.0.0:config"]


def test_a_begun_package_that_waits_for_a_dependency_lets_it_run() -> None:
    """LIF-7: else both would wait for ever."""
    world = serial("n1", aa=package("2.0.0"), bb=package(dependsOn={"aa": "2.0.0"}))
    world.set_state(
        "n1",
        {
            "aa|1.0.0": Entry(name="aa", version="1.0.0", stage=Stage.CONFIG, state=State.COMPLETE),
            "bb|1.0.0": Entry(name="bb", version="1.0.0", stage=Stage.APPLY, state=State.ERRORING, run="r"),
        },
    )
    world.run()
    assert world.status("n1") == "complete"
