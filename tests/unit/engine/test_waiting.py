"""A deletion, or a node on its way out, that waits says so: nothing waits in silence (CHG-12, JOB-15a, invariant 6)."""

from typing import Any

import pytest

from nodewright.model.snapshot import Answer
from tests.unit.engine.world import CR_NAME, World, package

POOL: dict[str, Any] = {"nodeSelectors": {"matchLabels": {"pool": "a"}}}


def started(*names: str) -> World:
    """A rollout in the middle; what is deleted stays until `finish_deletions`, as under a kubelet that is down."""
    world = World(*(names or ("n1", "n2")))
    for name in world.nodes:
        world.label(name, pool="a")
    world.cr(packages={"kernel": package()}, **POOL)
    world.settle()
    return world


def warnings(world: World) -> list[str]:
    return [e.reason for e in world.events if e.type.value == "Warning"]


def wait(world: World) -> None:
    """Until the engine wants to look again."""
    due = world.plan().wake_at
    assert due is not None
    world.now = max(world.now, due)
    world.settle()


def test_a_job_that_does_not_go_shows_on_a_deletion_after_a_minute() -> None:
    """JOB-15a, CHG-12, B62: condition, Stalled and one Warning, which name the node."""
    world = started("n1")
    world.delete_cr()
    world.settle()
    assert warnings(world) == []
    assert world.condition("DeletionBlocked") is None
    deleted = world.now
    wait(world)
    assert 58 <= world.now - deleted <= 61
    shown = world.condition("DeletionBlocked")
    assert shown is not None
    assert (shown["status"], shown["reason"]) == ("True", "UninstallPending")
    assert "node n1" in shown["message"]
    assert "Jobs do not go away" in shown["message"]
    assert world.condition("Stalled")["reason"] == "DeletionBlocked"  # type: ignore[index]
    assert sorted(warnings(world)) == ["DeletionBlocked", "JobNotDeleted"]
    world.now += 3600
    world.settle()
    assert len(warnings(world)) == 2
    world.finish_deletions()
    world.settle()
    assert CR_NAME not in world.crs


def test_a_deletion_that_goes_on_says_that_it_is_not_blocked_any_more() -> None:
    """CHG-12, ROL-23a."""
    world = started()
    world.delete_cr()
    world.settle()
    wait(world)
    world.finish_deletions()
    world.step()
    assert world.condition("DeletionBlocked")["status"] == "False"  # type: ignore[index]
    assert world.condition("Stalled")["status"] == "False"  # type: ignore[index]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_blocked_deletion_is_said_once_whatever_its_reason(restarted: bool) -> None:
    """B62: also by the next operator, to which the condition tells it; and again when it comes back."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.run()
    world.cr(packages={"kernel": package(uninstall={"enabled": True})})
    world.delete_cr()
    world.settle()
    if restarted:
        world.restart()
    world.order(pause="true")
    world.settle()
    assert world.condition("DeletionBlocked")["reason"] == "PausedWithPendingUninstall"  # type: ignore[index]
    assert warnings(world) == ["DeletionBlocked"]


def test_a_warning_is_not_repeated_while_the_status_does_not_land() -> None:
    """B62."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.run()
    world.cr(packages={"kernel": package(uninstall={"enabled": True})})
    world.delete_cr()
    world.status_lost = True
    for _ in range(3):
        world.step()
    assert warnings(world) == ["DeletionBlocked"]


def test_a_node_that_cannot_be_cleaned_shows_on_the_deletion() -> None:
    """CHG-12, invariant 6: an admission policy refuses the patch that would release it."""
    world = started("n1")
    world.run()
    world.delete_cr()
    world.refused["Node/n1"] = Answer(text="denied by policy", at=world.now)
    plan = world.plan()
    assert plan.status is None
    assert plan.wake_at is not None
    world.now = plan.wake_at
    status = world.plan().status
    assert status is not None
    (blocked,) = (c for c in status.build()["conditions"] if c["type"] == "DeletionBlocked")
    assert "node n1" in blocked["message"]
    assert "denied by policy" in blocked["message"]


def test_a_job_that_does_not_go_shows_for_a_node_that_left() -> None:
    """JOB-15a, ROL-1: once, and the node is left clean when it has gone."""
    world = started()
    world.outcomes = {"n2:kernel-1.0.0:apply": "hang"}
    world.label("n1", pool=None)
    world.settle()
    assert world.job("n1:kernel-1.0.0:apply").metadata.deletion_timestamp is not None
    assert "JobNotDeleted" not in warnings(world)
    while world.plan().wake_at is not None and world.now < 1_750_000_600:
        wait(world)
    assert warnings(world).count("JobNotDeleted") == 1
    assert any("n1" in e.note for e in world.events if e.reason == "JobNotDeleted")
    world.finish_deletions()
    world.settle()
    assert world.status("n1") is None
    assert warnings(world).count("JobNotDeleted") == 1
