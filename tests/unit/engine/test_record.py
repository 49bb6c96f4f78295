"""What evidence does to node state: completions, failures, runs (JOB-3 to JOB-6, LIF-11, LIF-12a)."""

import msgspec
import pytest

from nodewright.api import keys
from nodewright.model.node_state import Stage, State
from tests.unit.engine.machines import replace
from tests.unit.engine.world import World, package

APPLY = "n1:kernel-1.0.0:apply"
ENTRY = "kernel|1.0.0"


def applying(*names: str) -> World:
    """Nodes whose apply Job runs."""
    world = World(*(names or ("n1",)))
    world.cr(packages={"kernel": package()})
    world.settle()
    world.turn()
    return world


@pytest.mark.parametrize(
    ("moves", "stage", "state", "restarts"),
    [
        ((), "apply", "in_progress", 0),
        (("fail_attempt",), "apply", "erroring", 1),  # also while the Job retries
        (("fail_attempt", "start"), "apply", "in_progress", 1),  # a later attempt's step runs
        (("disrupt",), "apply", "in_progress", 0),
        (("fail",), "apply", "erroring", 4),
        (("refuse",), "apply", "in_progress", 0),  # nothing is written to node state
        (("succeed",), "config", "in_progress", 0),
    ],
)
def test_the_state_of_an_entry_follows_its_job(moves: tuple[str, ...], stage: str, state: str, restarts: int) -> None:
    """LIF-11."""
    world = applying()
    for move in moves:
        getattr(world, move)(APPLY)
    world.settle()
    entry = world.state("n1")[ENTRY]
    assert (entry.stage, entry.state, entry.restarts) == (stage, state, restarts)


def test_state_comes_first_and_the_mark_second() -> None:
    """JOB-3, B104: an operator that dies between sees the outcome and only marks."""
    world = applying()
    world.succeed(APPLY)
    assert world.step(writes=2) == 2  # the entry, the next Job; no mark
    assert world.stages("n1") == {ENTRY: "config/in_progress"}
    before = world.state("n1")
    world.settle()
    assert world.state("n1") == before
    assert world.job(APPLY).metadata.annotations[keys.STATE_RECORDED] == "true"
    assert world.job(APPLY).spec.ttl_seconds_after_finished == 3600


def test_a_failed_job_gets_the_failure_ttl_and_stays() -> None:
    """JOB-6."""
    world = applying()
    world.fail(APPLY)
    world.settle()
    assert world.job(APPLY).spec.ttl_seconds_after_finished == 86400
    assert world.status("n1") == "erroring"
    world.now += 5000
    assert world.step() == 0


def test_failure_target_is_the_verdict_and_the_mark_waits_for_failed() -> None:
    """JOB-6: a silent kubelet keeps the Job from ever reading Failed."""
    world = applying()
    for _ in range(4):
        world.fail_attempt(APPLY)
    world.settle()
    assert world.status("n1") == "erroring"
    assert keys.STATE_RECORDED not in world.job(APPLY).metadata.annotations
    world.end_failed(APPLY)
    world.settle()
    assert world.job(APPLY).metadata.annotations[keys.STATE_RECORDED] == "true"


def test_a_failure_stays_one_when_its_pods_are_gone() -> None:
    """JOB-6: its pods are gone but the entry is already erroring."""
    world = applying()
    world.fail(APPLY)
    world.settle()
    world.pods.clear()
    assert world.step() == 0
    assert world.status("n1") == "erroring"


def test_a_late_completion_creates_no_entry() -> None:
    """JOB-4, B26: after a reset it is only marked, and the stage runs again."""
    world = applying()
    world.succeed(APPLY)
    world.reset("n1")
    old = world.job(APPLY).metadata.uid
    world.step()
    assert world.state("n1") == {}
    world.run()
    assert world.stages("n1") == {ENTRY: "config/complete"}
    assert world.job(APPLY).metadata.uid != old


def test_evidence_never_moves_a_complete_entry() -> None:
    """JOB-5."""
    world = applying()
    entry = msgspec.structs.replace(world.state("n1")[ENTRY], stage=Stage.CONFIG, state=State.COMPLETE)
    world.set_state("n1", {ENTRY: entry})
    world.fail(APPLY)
    world.settle()
    assert world.stages("n1") == {ENTRY: "config/complete"}
    assert world.status("n1") == "complete"


@pytest.mark.parametrize(
    ("stage", "keys_held", "matches", "adopts"),
    [
        ("apply", (), True, True),
        ("config", (), True, True),
        ("config", ("a.conf",), True, False),
        ("apply", (), False, False),
    ],
)
def test_an_entry_without_a_run_takes_over_an_unfinished_job(
    stage: str, keys_held: tuple[str, ...], matches: bool, adopts: bool
) -> None:
    """LIF-12a: as people and older software write it."""
    world = applying()
    if stage == "config":
        world.succeed(APPLY)
        world.settle()
    what = f"n1:kernel-1.0.0:{stage}"
    run = world.job(what).metadata.annotations[keys.RUN]
    if not matches:
        job = world.job(what)
        world.jobs[job.metadata.name] = replace(
            job, metadata=replace(job.metadata, annotations={**job.metadata.annotations, keys.INPUTS: "{}"})
        )
    world.set_state("n1", {ENTRY: msgspec.structs.replace(world.state("n1")[ENTRY], run="", config_keys=keys_held)})
    world.step()
    assert (world.state("n1")[ENTRY].run == run) is adopts
    assert (world.job(what).metadata.deletion_timestamp is None) is adopts


def test_no_finished_job_speaks_for_an_entry_without_a_run() -> None:
    """LIF-12a, B22: a rerun by hand is not completed by the Job of the run before; that one goes, and a new one comes."""
    world = applying()
    world.run()
    old = world.job(APPLY).metadata.uid
    world.set_state(
        "n1",
        {ENTRY: msgspec.structs.replace(world.state("n1")[ENTRY], stage=Stage.APPLY, state=State.IN_PROGRESS, run="")},
    )
    world.settle()
    assert world.state("n1")[ENTRY].run == ""
    assert world.job(APPLY).metadata.deletion_timestamp is not None
    world.run()
    assert world.stages("n1") == {ENTRY: "config/complete"}
    assert world.job(APPLY).metadata.uid != old


def test_a_job_deleted_by_hand_is_made_again_under_the_same_run() -> None:
    """LIF-12: (S, in_progress) with a run and no Job keeps it."""
    world = applying()
    run = world.state("n1")[ENTRY].run
    world.drop(world.job(APPLY).metadata.name)
    world.settle()
    assert world.job(APPLY).metadata.annotations[keys.RUN] == run == world.state("n1")[ENTRY].run


def test_a_failed_stage_runs_anew_once_its_job_is_gone() -> None:
    """JOB-6, B113: deleted by hand or by its TTL, under a new run, exactly once."""
    world = applying()
    world.fail(APPLY)
    world.settle()
    run = world.state("n1")[ENTRY].run
    world.drop(world.job(APPLY).metadata.name)
    world.settle()
    assert world.state("n1")[ENTRY].run != run
    assert world.stages("n1") == {ENTRY: "apply/in_progress"}
    assert world.started.count((APPLY, run)) == 1


def test_a_completion_and_another_packages_start_share_one_patch() -> None:
    """B01: evidence of one package is never lost to the change of another."""
    world = World("n1")
    world.cr(packages={"aa": package(), "bb": package()})
    world.settle()
    world.succeed("n1:aa-1.0.0:apply")
    world.settle()
    assert world.stages("n1") == {"aa|1.0.0": "config/in_progress", "bb|1.0.0": "apply/in_progress"}


def test_one_event_on_the_node_and_one_on_the_cr_end_a_stage() -> None:
    """JOB-17."""
    world = applying()
    world.succeed(APPLY)
    world.settle()
    world.succeed("n1:kernel-1.0.0:config")
    world.settle()
    seen = [(e.type.value, e.reason, e.node) for e in world.events]
    assert seen == [
        ("Normal", "Apply", "n1"),
        ("Normal", "Apply", None),
        ("Normal", "State", "n1"),
        ("Normal", "State", None),
    ]


def test_a_failure_for_good_is_a_warning_said_once() -> None:
    """JOB-17."""
    world = applying()
    world.fail(APPLY)
    world.settle()
    assert [(e.type.value, e.reason, e.node) for e in world.events] == [
        ("Warning", "Apply", "n1"),
        ("Warning", "Apply", None),
    ]
