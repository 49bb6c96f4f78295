"""What is published: Statuses, conditions, their times, and its size (ROL-20 to ROL-24, CON-5, CON-6, CON-8)."""

from typing import Any

import msgspec
import pytest

from nodewright.api import keys
from nodewright.engine.conditions import Wanted, merge
from nodewright.engine.node_plan import Mode, Status
from nodewright.engine.status import MAX_BYTES, cr_status
from nodewright.model.node_state import Entry, Stage, State
from nodewright.model.plan import StatusDraft
from nodewright.model.snapshot import PlanSettings
from tests.unit.engine.world import CR_NAME, World, package

S = Status


@pytest.mark.parametrize(
    ("nodes", "mode", "barrier", "status"),
    [
        ((), Mode.RUN, False, S.COMPLETE),  # also with zero nodes
        ((S.COMPLETE,), Mode.PAUSED, True, S.COMPLETE),
        ((S.COMPLETE, S.DISABLED), Mode.DISABLED, True, S.DISABLED),
        ((S.COMPLETE, S.PAUSED), Mode.PAUSED, True, S.PAUSED),
        ((S.IN_PROGRESS, S.WAITING), Mode.RUN, True, S.WAITING),
        ((S.WAITING, S.BLOCKED, S.ERRORING, S.IN_PROGRESS), Mode.RUN, False, S.IN_PROGRESS),
        ((S.WAITING, S.BLOCKED, S.ERRORING), Mode.RUN, False, S.ERRORING),
        ((S.WAITING, S.BLOCKED, S.UNKNOWN), Mode.RUN, False, S.BLOCKED),
        ((S.WAITING, S.UNKNOWN, S.COMPLETE), Mode.RUN, False, S.WAITING),
        ((S.UNKNOWN, S.COMPLETE), Mode.RUN, False, S.UNKNOWN),
    ],
)
def test_the_crs_status_is_the_first_that_holds(
    nodes: tuple[Status, ...], mode: Mode, barrier: bool, status: Status
) -> None:
    """ROL-21."""
    assert cr_status(nodes, mode=mode, barrier=barrier) is status


def test_a_cr_without_packages_is_complete() -> None:
    """LIF-9, ROL-21."""
    world = World("n1")
    world.cr(packages={})
    world.run()
    assert (world.status("n1"), world.crs[CR_NAME].published["status"]) == ("complete", "complete")
    assert world.started == []


def test_a_missing_policy_reads_blocked_even_when_all_are_complete() -> None:
    """ROL-21."""
    assert cr_status((S.COMPLETE,), mode=Mode.RUN, barrier=False, policy_missing=True) is S.BLOCKED


def mixed() -> World:
    """One node of each kind: complete, failed, running, ignored, waiting."""
    world = World("n1", "n2", "n3", "n4", "n5")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 3})
    world.ignore("n4")
    world.outcomes = {"n2:kernel-1.0.0:apply": "fail", "n3:kernel-1.0.0:apply": "hang"}
    world.run()
    return world


def test_ready_lists_the_nodes_by_bucket() -> None:
    """ROL-22."""
    world = mixed()
    ready = world.condition("Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "Progressing")
    assert (
        ready["message"]
        == "1/5 nodes complete (n1), 1 in progress (n3), 1 blocked (n4), 1 erroring (n2), 1 waiting (n5)"
    )


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, "0/0 nodes complete"),
        (2, "0/2 nodes complete, 2 disabled (n00, n01)"),
        (10, f"0/10 nodes complete, 10 disabled ({', '.join(f'n{i:02}' for i in range(10))})"),
        (11, "0/11 nodes complete, 11 disabled (list truncated; see controller logs)"),
    ],
)
def test_long_lists_are_left_out_and_handed_over(count: int, message: str) -> None:
    """ROL-22: over 10 names; the full list goes to the log."""
    names = [f"n{i:02}" for i in range(count)]
    world = World(*reversed(names))
    world.cr(packages={"kernel": package()})
    world.order(disable="true")
    draft = world.plan().status
    assert draft is not None
    ready = next(c for c in draft.build()["conditions"] if c["type"] == "Ready")
    assert ready["message"] == message
    assert draft.long_lists() == ({"disabled": tuple(names)} if count > 10 else {})


@pytest.mark.parametrize(
    ("status", "reason"),
    [("complete", "NodesConverged"), ("paused", "Paused"), ("disabled", "Disabled"), ("waiting", "Waiting")],
)
def test_ready_mirrors_the_crs_status(status: str, reason: str) -> None:
    """ROL-22."""
    world = World("n1")
    world.cr("early", packages={"aa": package()}, priority=1, sequencing="all")
    world.cr(packages={"kernel": package()})
    if status != "complete":
        world.order("early", pause="true")
    if status in ("paused", "disabled"):
        world.order(**{status.removesuffix("d"): "true"})
    world.run()
    ready = world.condition("Ready")
    assert ready is not None
    assert (world.crs[CR_NAME].published["status"], ready["reason"], ready["status"]) == (
        status,
        reason,
        str(status == "complete"),
    )


def test_a_condition_is_written_anew_only_when_it_changes() -> None:
    """ROL-22, ROL-23a, B08: times move with the status only; one that ceased stays as Resolved."""
    first = merge(
        None, [Wanted("Ready", "a", "Progressing", status=False), Wanted("Blocked", "b")], generation=1, now=1000.0
    )
    again = merge(
        first, [Wanted("Ready", "c", "Progressing", status=False), Wanted("Blocked", "b")], generation=2, now=2000.0
    )
    assert [c["lastTransitionTime"] for c in again] == ["1970-01-01T00:16:40Z"] * 2
    assert [c["observedGeneration"] for c in again] == [2, 2]
    gone = merge(again, [Wanted("Ready", "c", "NodesConverged")], generation=2, now=3000.0)
    assert gone[0] == {
        "type": "Blocked", "status": "False", "reason": "Resolved", "message": "", "lastTransitionTime":
        "1970-01-01T00:50:00Z", "observedGeneration": 2,
    }  # fmt: skip
    assert merge(gone, [Wanted("Ready", "c", "NodesConverged")], generation=2, now=4000.0) == gone
    assert gone[1]["reason"] == "NodesConverged"
    assert (
        merge([], [Wanted("NodesIgnored", "x")], generation=1, now=0.0)[0]["reason"] == "NodesIgnored"
    )  # where no rule names a reason


def test_conditions_of_others_are_left_alone() -> None:
    """Invariant 4."""
    foreign = {
        "type": "example.com/Reviewed",
        "status": "True",
        "reason": "ByHand",
        "message": "fine",
        "lastTransitionTime": "x",
        "observedGeneration": 1,
    }
    assert foreign in merge([foreign], [Wanted("Ready")], generation=5, now=0.0)


@pytest.mark.parametrize(
    "garbage",
    [None, 7, "x", [7, None, {"type": 3}, {}], [{"type": "Ready", "status": "False", "lastTransitionTime": 5}]],
)
def test_unreadable_conditions_are_replaced(garbage: Any) -> None:
    """LIF-1."""
    ready = merge(garbage, [Wanted("Ready", "m", "Waiting", status=False)], generation=1, now=0.0)[-1]
    assert ready["lastTransitionTime"] == "1970-01-01T00:00:00Z"


def stalled(world: World) -> str | None:
    found = world.condition("Stalled")
    return found["reason"] if found is not None and found["status"] == "True" else None


def test_stalled_only_when_nothing_moves_without_a_person() -> None:
    """ROL-22a: a failed stage, and nothing else under way."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()})
    world.outcomes = {"n1:kernel-1.0.0:apply": "fail", "n2:kernel-1.0.0:config": "hang"}
    world.run()
    assert stalled(world) is None
    world.outcomes.pop("n2:kernel-1.0.0:config")
    world.run()
    assert stalled(world) == "StageFailed"
    world.drop(world.job("n1:kernel-1.0.0:apply").metadata.name)
    world.outcomes.clear()
    world.run()
    assert stalled(world) is None


def test_stalled_names_a_stopped_rollout_and_the_condition_its_nodes() -> None:
    """ROL-22a, ROL-23."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.settle()
    world.fail("n1:kernel-1.0.0:apply")
    world.step()
    world.publish(
        compartmentStatuses={
            "__default__": {"batchState": {"currentBatch": 1, "evaluated": True, "shouldStop": True, "failedNodes": 1}}
        }
    )
    world.settle()
    assert stalled(world) == "RolloutStopped"
    message = world.condition("RolloutStopped")["message"]  # type: ignore[index]
    assert message == "compartment __default__ stopped after batch 1: failed node n1"


@pytest.mark.parametrize(
    "packages",
    [
        {"aa": package(dependsOn={"bb": "1.0.0"}), "bb": package(dependsOn={"aa": "1.0.0"})},
        {"aa": package(dependsOn={"gone": "1.0.0"})},
        {"aa": package("v1")},
    ],
)
def test_a_faulty_spec_starts_nothing_and_says_so(packages: dict[str, Any]) -> None:
    """LIF-4."""
    world = World("n1")
    world.cr(packages=packages)
    world.settle()
    assert world.running() == []
    assert (world.status("n1"), stalled(world)) == ("blocked", "InvalidSpec")
    assert "spec.packages[aa]" in world.condition("Stalled")["message"]  # type: ignore[index]
    world.cr(packages={"aa": package()})
    world.run()
    assert (world.status("n1"), stalled(world)) == ("complete", None)


def test_a_fault_holds_only_the_packages_concerned() -> None:
    """LIF-4."""
    world = World("n1")
    world.cr(packages={"aa": package("v1"), "bb": package()})
    world.run()
    assert world.stages("n1") == {"bb|1.0.0": "config/complete"}


def test_every_selected_node_carries_status_label_and_condition() -> None:
    """ROL-20, CON-7, CON-8: waiting ones too, both conditions with the first write."""
    world = mixed()
    shown = {
        n: {c.type.rsplit("/")[-1]: (c.status, c.reason) for c in world.nodes[n].status.conditions if "/" in c.type}
        for n in world.nodes
    }
    assert shown == {
        "n1": {"NotReady": ("False", "Complete"), "Erroring": ("False", "NotErroring")},
        "n2": {"NotReady": ("True", "Incomplete"), "Erroring": ("True", "Erroring")},
        "n3": {"NotReady": ("True", "Incomplete"), "Erroring": ("False", "NotErroring")},
        "n4": {"NotReady": ("True", "Incomplete"), "Erroring": ("False", "NotErroring")},
        "n5": {"NotReady": ("True", "Incomplete"), "Erroring": ("False", "NotErroring")},
    }


def test_the_version_key_changes_only_together_with_another() -> None:
    """ROL-20: an operator upgrade alone writes to no node."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.run()
    world.settings = PlanSettings(agent_image="agent:1.0.0", version="10.0.0")
    world.restart()
    assert world.step() == 0
    assert world.nodes["n1"].metadata.annotations["nodewright.nvidia.com/version_tuning"] == "9.9.9"


def test_a_published_status_that_somebody_edited_is_corrected() -> None:
    """LIF-1."""
    world = mixed()
    right = world.crs[CR_NAME].published
    world.publish(
        status="complete",
        nodeStatus={"n9": "complete"},
        completeNodes="9/9",
        nodesInProgress=7,
        nodeState={},
        packageList=right["packageList"],
    )
    world.settle()
    assert world.crs[CR_NAME].published == right


def test_observed_generation_follows_the_pass() -> None:
    """ROL-24."""
    world = mixed()
    world.cr(packages={"kernel": package(stageTimeout="3m")}, interruptionBudget={"count": 3})
    world.settle()
    assert world.crs[CR_NAME].published["observedGeneration"] == world.crs[CR_NAME].meta.generation == 2


def test_stages_that_run_show_without_blinking() -> None:
    """ROL-23: `ApplyPackage` is True from the first stage's start to the last stage's end."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    seen = []
    for _ in range(5):
        world.step()  # one pass only: it sees a stage end and starts the next
        seen.append((world.condition("ApplyPackage") or {}).get("status"))
        world.turn()
    assert seen == ["True", "True", "True", "True", "False"]
    world.step()
    assert world.crs[CR_NAME].published["status"] == "complete"


def draft_of(world: World) -> StatusDraft:
    """The status of the first pass that knows every node."""
    while (draft := world.plan().status) is None:
        pass
    return draft


def test_five_thousand_nodes_fit_and_what_is_left_out_is_said() -> None:
    """CON-6: entries of complete nodes go first."""
    world = World(*(f"node-{i:05}.eu-central-1.compute.internal" for i in range(5000)))
    names = ("kernel-settings", "network-tuning", "storage-tuning")
    world.cr(packages={name: package() for name in names}, interruptionBudget={"count": 1})
    done = {
        f"{n}|1.0.0": Entry(
            name=n,
            version="1.0.0",
            image="registry/pkg",
            stage=Stage.CONFIG,
            state=State.COMPLETE,
            run="0123456789ab",
            generation=1,
        )
        for n in names
    }
    for index, name in enumerate(world.nodes):
        if index:
            world.set_state(name, done)
            world.annotate(name, **{keys.status_key(CR_NAME): "complete"})
    draft = draft_of(world)
    status = draft.build()
    assert len(msgspec.json.encode(status)) < MAX_BYTES + 20_000
    first = next(iter(world.nodes))
    assert list(status["nodeState"]) == [first]
    assert len(status["nodeStatus"]) == 5000
    truncated = next(c for c in status["conditions"] if c["type"] == "StatusTruncated")
    assert truncated["message"] == "left out to stay below 900 KiB: nodeState of complete nodes"


def test_progress_counts_failed_nodes_too() -> None:
    """ROL-8, CON-5."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()})
    world.outcomes = {"n1:kernel-1.0.0:apply": "fail"}
    world.run()
    compartment = world.crs[CR_NAME].published["compartmentStatuses"]["__default__"]
    assert (compartment["completed"], compartment["progressPercent"]) == (1, 100)


def test_what_metrics_count_has_everything_that_a_status_leaves_out() -> None:
    """OBS-1, CON-6: 2,000 nodes with three packages are more than the object holds."""
    world = World(*[f"node-{number:04}" for number in range(2000)])
    names = ("kernel", "tuning", "drivers")
    world.cr(packages={name: package() for name in names})
    image = "registry.example/a-rather-long-name-of-a-repository/"
    state = {
        f"{name}|1.0.0": Entry(
            name=name, version="1.0.0", image=image + name, stage=Stage.CONFIG, state=State.COMPLETE, run="0123456789ab"
        )
        for name in names
    }
    for name in list(world.nodes):
        world.set_state(name, state)
    draft = draft_of(world)
    assert draft.whole is not None
    assert (len(draft.build()["nodeState"]), len(draft.whole()["nodeState"])) == (0, 2000)


def test_nothing_reads_complete_before_the_nodes_say_so() -> None:
    """B10, LIF-1: a pass that has just seen the last stage end publishes what is on the nodes, not what it is about to write."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    plan = world.plan()
    while not any(one.pick is not None and one.pick.completed for one in plan.nodes):
        world.settle()
        world.turn()
        plan = world.plan()
    assert plan.status is not None
    assert plan.status.cr_status == "in_progress"
    assert plan.status.build()["completeNodes"] == "0/1"
    world.apply(CR_NAME, plan)
    after = world.plan()
    assert after.status is not None
    assert after.status.cr_status == "complete"


def test_a_new_cr_writes_no_status_to_nodes_that_the_next_pass_picks() -> None:
    """CON-7: the first write to a node is its pick with its first entry; `waiting` in between would be a write for nothing."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()}, settled=False)
    assert world.plan().nodes == ()
    world.step()  # batch state begins
    first = world.plan()
    assert [plan.node.name for plan in first.nodes] == ["n1", "n2"]
    assert all(plan.creates for plan in first.nodes)
