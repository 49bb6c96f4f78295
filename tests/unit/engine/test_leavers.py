"""Jobs at the edge of a CR: of nodes that leave its selection, that do not go away, and that somebody relabelled
(ROL-1, JOB-3, JOB-15a, CON-13)."""

from typing import Any

import pytest

from nodewright.api import keys
from tests.unit.engine.machines import replace
from tests.unit.engine.world import CR_NAME, World, package

APPLY = "n1:kernel-1.0.0:apply"
POOL: dict[str, Any] = {"nodeSelectors": {"matchLabels": {"pool": "a"}}}


def started() -> World:
    world = World("n1", "n2")
    for name in world.nodes:
        world.label(name, pool="a")
    world.cr(packages={"kernel": package()}, **POOL)
    world.settle()
    return world


def warnings(world: World) -> list[str]:
    return [e.reason for e in world.events if e.type.value == "Warning"]


@pytest.mark.parametrize(("outcome", "state"), [("succeed", "apply/complete"), ("fail", "apply/erroring")])
def test_a_job_that_ends_as_its_node_leaves_is_recorded_and_marked(outcome: str, state: str) -> None:
    """JOB-3, ROL-1: node state stays, so it says what happened, and the Job gets its TTL."""
    world = started()
    getattr(world, outcome)(APPLY)
    world.label("n1", pool=None)
    world.settle()
    assert world.stages("n1") == {"kernel|1.0.0": state}
    assert world.job(APPLY).metadata.annotations[keys.STATE_RECORDED] == "true"
    assert world.job(APPLY).spec.ttl_seconds_after_finished is not None
    assert world.status("n1") is None
    assert [e.action for e in world.events if e.node == "n1"] == ["apply"]


def test_a_late_completion_of_another_run_is_only_marked() -> None:
    """JOB-3, JOB-4: on a node that left, too."""
    world = started()
    world.succeed(APPLY)
    world.label("n1", pool=None)
    world.reset("n1")
    world.settle()
    assert world.state("n1") == {}
    assert world.job(APPLY).metadata.annotations[keys.STATE_RECORDED] == "true"


def test_on_malformed_state_the_job_of_a_node_that_left_waits_unmarked() -> None:
    """JOB-3."""
    world = started()
    world.succeed(APPLY)
    world.label("n1", pool=None)
    world.annotate("n1", **{keys.node_state_key(CR_NAME): "{"})
    world.settle()
    assert keys.STATE_RECORDED not in world.job(APPLY).metadata.annotations


def relabel(world: World, what: str, **labels: str) -> str:
    job = world.job(what)
    meta = replace(world.moved(job.metadata), labels={**job.metadata.labels, **labels})
    world.jobs[job.metadata.name] = replace(job, metadata=meta)
    return job.metadata.name


@pytest.mark.parametrize(
    "labels", [{keys.LABEL_STAGE: "config"}, {keys.LABEL_PACKAGE: "other-1.0.0"}, {keys.LABEL_STAGE: "interrupt"}]
)
def test_a_job_whose_labels_say_another_claim_than_its_name_is_never_touched(labels: dict[str, str]) -> None:
    """CON-13: running, ended, and whatever the stage; it shows, and with its labels back the stage goes on."""
    world = started()
    world.start(APPLY)
    name = relabel(world, APPLY, **labels)
    kept = world.jobs[name]
    world.settle()
    assert world.jobs[name] is kept
    assert world.status("n1") == "blocked"
    assert "JobNotCreated" in warnings(world)
    world.succeed(name)
    ended = world.jobs[name]
    world.settle()
    assert world.jobs[name] is ended
    assert world.stages("n1") == {"kernel|1.0.0": "apply/in_progress"}
    relabel(world, name, **{keys.LABEL_STAGE: "apply", keys.LABEL_PACKAGE: "kernel-1.0.0"})
    world.run()
    assert world.status("n1") == "complete"


def test_a_job_of_a_version_that_left_the_spec_is_still_our_own() -> None:
    """CON-13, CON-15: its annotation says whose it is; it goes (JOB-10)."""
    world = started()
    world.start(APPLY)
    world.cr(packages={"kernel": package("1.1.0")}, **POOL)
    world.step()
    assert world.job(APPLY).metadata.deletion_timestamp is not None
