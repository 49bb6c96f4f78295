"""Nodes that cannot be worked on: ignored, tainted, with unreadable state (ROL-2 to ROL-4, LIF-4)."""

import pytest

from nodewright.api import keys
from nodewright.engine.conditions import names_or_count
from tests.unit.engine.world import CR_NAME, World, package

NOT_READY = ("node.kubernetes.io/not-ready", "NoExecute")
UNREACHABLE = ("node.kubernetes.io/unreachable", "NoSchedule")
NETWORK = ("network", "NoSchedule")
APPLY = "n1:kernel-1.0.0:apply"


def one_at_a_time(*names: str) -> World:
    world = World(*(names or ("n1", "n2")))
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    return world


@pytest.mark.parametrize(
    ("taint", "status"),
    [
        (NETWORK, "blocked"),
        (("network", "NoExecute"), "blocked"),
        (("network", "PreferNoSchedule"), "complete"),
        (("node.kubernetes.io/unschedulable", "NoSchedule"), "complete"),
        (("mine", "NoSchedule"), "complete"),
        (NOT_READY, "blocked"),  # admission to a fresh batch has no exemption
        (UNREACHABLE, "blocked"),
    ],
)
def test_a_taint_that_is_not_tolerated_blocks(taint: tuple[str, str], status: str) -> None:
    """ROL-3."""
    world = World("n1")
    world.cr(packages={"kernel": package()}, additionalTolerations=[{"key": "mine", "operator": "Exists"}])
    world.taint("n1", taint)
    world.run()
    assert world.status("n1") == status
    shown = world.condition("TaintNotTolerable")
    assert (shown is not None) is (status == "blocked")
    if shown:
        assert "node n1" in shown["message"]
        world.taint("n1")
        world.run()
        assert world.status("n1") == "complete"
        assert world.condition("TaintNotTolerable") == {
            **shown,
            "status": "False",
            "reason": "Resolved",
            "message": "",
        } | {
            "lastTransitionTime": world.condition("TaintNotTolerable")["lastTransitionTime"]  # type: ignore[index]
        }


def test_a_tainted_complete_node_is_complete() -> None:
    """ROL-3: only a node that is not complete."""
    world = one_at_a_time("n1")
    world.run()
    world.taint("n1", NETWORK)
    world.settle()
    assert world.status("n1") == "complete"
    assert world.condition("TaintNotTolerable") is None


@pytest.mark.parametrize("taint", [NOT_READY, UNREACHABLE])
def test_a_reboot_does_not_release_the_slot_of_a_member_at_work(taint: tuple[str, str]) -> None:
    """ROL-3: a member with an entry in progress is exempt, also between two stages."""
    world = one_at_a_time()
    world.settle()
    world.turn()
    world.taint("n1", taint)
    world.settle()
    assert world.statuses() == {"n1": "in_progress", "n2": "waiting"}
    world.succeed(APPLY)
    world.settle()
    assert world.running() == ["n1:kernel-1.0.0:config"]


def test_a_failed_member_that_is_away_reads_erroring_and_is_definite() -> None:
    """ROL-3: the exemption only keeps it from reading blocked."""
    world = one_at_a_time()
    world.settle()
    world.fail(APPLY)
    world.taint("n1", NOT_READY)
    world.settle()
    assert world.statuses() == {"n1": "erroring", "n2": "in_progress"}


def test_a_member_that_lost_its_slot_before_any_stage_has_no_exemption() -> None:
    """ROL-3: its only entry is gone with a reset."""
    world = one_at_a_time()
    world.settle()
    world.taint("n1", NOT_READY)
    world.reset("n1")
    world.step()
    world.finish_deletions()
    world.settle()
    assert world.statuses() == {"n1": "blocked", "n2": "in_progress"}


def test_a_member_released_from_another_taint_while_away_goes_on() -> None:
    """ROL-3, ROL-10a: of the current batch, with an entry in progress."""
    world = one_at_a_time("n1")
    world.settle()
    world.taint("n1", NETWORK)
    world.drop(world.job(APPLY).metadata.name)
    world.settle()
    assert world.status("n1") == "blocked"
    world.taint("n1", NOT_READY)
    world.settle()
    assert world.status("n1") == "in_progress"
    assert world.running() == [APPLY]


def test_a_member_with_a_job_keeps_its_slot_under_another_taint_until_the_job_ends() -> None:
    """ROL-3: it reads blocked meanwhile."""
    world = one_at_a_time()
    world.settle()
    world.turn()
    world.taint("n1", NETWORK)
    world.settle()
    assert (world.statuses(), world.running()) == ({"n1": "blocked", "n2": "waiting"}, [APPLY])
    world.succeed(APPLY)
    world.settle()
    assert (world.statuses(), world.running()) == ({"n1": "blocked", "n2": "in_progress"}, ["n2:kernel-1.0.0:apply"])
    assert world.stages("n1") == {"kernel|1.0.0": "apply/complete"}


@pytest.mark.parametrize("value", ["false", "True", "", "1"])
def test_any_other_value_is_not_ignored(value: str) -> None:
    """ROL-2."""
    world = one_at_a_time("n1")
    world.label("n1", **{keys.IGNORE_LABEL: value})
    world.run()
    assert world.status("n1") == "complete"


def test_an_ignored_node_holds_no_slot_and_its_job_goes_on() -> None:
    """ROL-2: it keeps its pick and resumes in its place, once there is room (ROL-10a)."""
    world = one_at_a_time()
    world.settle()
    world.turn()
    pick = world.pick("n1")
    world.ignore("n1")
    world.settle()
    assert world.statuses() == {"n1": "blocked", "n2": "in_progress"}
    assert world.running() == [APPLY, "n2:kernel-1.0.0:apply"]
    world.succeed(APPLY)
    world.settle()
    assert world.stages("n1") == {"kernel|1.0.0": "apply/complete"}
    world.ignore("n1", on=False)
    world.settle()
    assert world.status("n1") == "waiting"
    world.run()
    assert world.statuses() == {"n1": "complete", "n2": "complete"}
    after = world.pick("n1")
    assert pick is not None
    assert after is not None
    assert after.order == pick.order


def test_every_ignored_node_is_named_and_still_counts() -> None:
    """ROL-2: also complete ones; names up to 10, else a count."""
    world = one_at_a_time()
    world.run()
    world.ignore("n1")
    world.settle()
    shown = world.condition("NodesIgnored")
    assert shown is not None
    assert "node n1" in shown["message"]
    assert world.crs[CR_NAME].published["completeNodes"] == "2/2"
    assert names_or_count([f"n{i}" for i in range(10)], "node").startswith("nodes n0, n1")
    assert names_or_count([f"n{i}" for i in range(11)], "node") == "11 nodes"


def test_blocked_shows_where_ordering_would_read_waiting() -> None:
    """ROL-4."""
    world = World("n1", "n2")
    world.cr("early", packages={"aa": package()}, priority=1)
    world.cr("late", packages={"bb": package()}, priority=2)
    world.outcomes = {"n1:aa-1.0.0:apply": "hang", "n2:aa-1.0.0:apply": "hang"}
    world.ignore("n1")
    world.run()
    assert world.statuses("late") == {"n1": "blocked", "n2": "waiting"}
    world.ignore("n1", on=False)
    world.run()
    assert world.statuses("late") == {"n1": "waiting", "n2": "waiting"}


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "7", '{"kernel|1.0.0": 1}', '{"kernel|1.0.0": {"version": "1.0.0"}}', '{"kernel|1.0.0": {"stage": "apply"}}',
        '{"kernel|1.0.0": {"stage": "apply", "version": "2.0.0"}}', '{"kernel|x": {"stage": "apply", "version": "x"}}',
        '{"kernel|1.0.0": {"stage": "nap", "version": "1.0.0"}}', '{"kernel|1.0.0": ' + "[" * 5000 + "]" * 5000 + "}",
    ],
)  # fmt: skip
def test_malformed_state_stops_its_node_only(text: str) -> None:
    """LIF-4, B07: condition and Status name it, its text is not touched; repaired it goes on."""
    world = World("n1", "n2")
    world.annotate("n1", **{keys.node_state_key(CR_NAME): text})
    world.cr(packages={"kernel": package()})
    world.run()
    assert world.statuses() == {"n1": "unknown", "n2": "complete"}
    assert world.nodes["n1"].metadata.annotations[keys.node_state_key(CR_NAME)] == text
    assert "node n1" in world.condition("NodeStateMalformed")["message"]  # type: ignore[index]
    assert world.condition("Stalled")["reason"] == "NodeStateMalformed"  # type: ignore[index]
    world.annotate("n1", **{keys.node_state_key(CR_NAME): None})
    world.run()
    assert world.statuses() == {"n1": "complete", "n2": "complete"}


def test_a_node_that_was_erroring_still_shows_it_while_its_state_cannot_be_read() -> None:
    """CON-8: what cannot be read is not recovery."""
    world = one_at_a_time("n1")
    world.settle()
    world.fail(APPLY)
    world.settle()
    shown = world.nodes["n1"].status.conditions
    world.annotate("n1", **{keys.node_state_key(CR_NAME): "{"})
    world.settle()
    assert sorted(c.type for c in world.nodes["n1"].status.conditions) == sorted(c.type for c in shown)
    erroring = keys.erroring_condition(CR_NAME)
    assert [c.status for c in world.nodes["n1"].status.conditions if c.type == erroring] == ["True"]


def test_a_member_whose_state_turns_malformed_keeps_its_slot_while_its_job_runs() -> None:
    """LIF-4; the Job waits unmarked (JOB-3) until the state is repaired."""
    world = one_at_a_time()
    world.settle()
    world.turn()
    good = world.nodes["n1"].metadata.annotations[keys.node_state_key(CR_NAME)]
    world.annotate("n1", **{keys.node_state_key(CR_NAME): "{"})
    world.settle()
    assert world.statuses() == {"n1": "unknown", "n2": "waiting"}
    world.succeed(APPLY)
    world.settle()
    assert world.statuses() == {"n1": "unknown", "n2": "in_progress"}
    assert keys.STATE_RECORDED not in world.job(APPLY).metadata.annotations
    world.annotate("n1", **{keys.node_state_key(CR_NAME): good})
    world.settle()
    assert world.stages("n1") == {"kernel|1.0.0": "apply/complete"}
    assert world.job(APPLY).metadata.annotations[keys.STATE_RECORDED] == "true"
