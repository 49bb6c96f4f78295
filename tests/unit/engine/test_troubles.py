"""What a person hears of a stage that waits (JOB-1, JOB-14 to JOB-15a): each said once while it lasts."""

import pytest

from nodewright.model.objects import ContainerState, ContainerStatus, ContainerWaiting
from tests.unit.engine.machines import RUNNING, replace
from tests.unit.engine.world import World, package

APPLY = "n1:kernel-1.0.0:apply"


def started() -> World:
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    return world


def warnings(world: World) -> list[str]:
    return [e.reason for e in world.events if e.type.value == "Warning"]


def waits(world: World, reason: str) -> None:
    """The newest pod's first container waits."""
    name = list(world.pods)[-1]
    status = ContainerStatus(
        name="init",
        image="registry/pkg:1.0.0",
        state=ContainerState(waiting=ContainerWaiting(reason=reason, message="no such tag")),
    )
    pod = world.pods[name]
    world.pods[name] = replace(pod, status=replace(pod.status, init_container_statuses=(status,)))


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImagePull", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled_shows_at_once_and_clears(reason: str) -> None:
    """JOB-14, B29: once per node, package and image."""
    world = started()
    world.start(APPLY)
    waits(world, reason)
    world.settle()
    world.now += 60
    waits(world, "ErrImagePull")
    world.settle()
    assert warnings(world) == ["ImagePullFailed"]
    assert all(part in world.events[0].note for part in ("n1", "kernel-1.0.0", "registry/pkg:1.0.0"))
    assert world.condition("ImagePullFailed")["status"] == "True"  # type: ignore[index]
    assert world.status("n1") == "in_progress"
    world.run()
    assert world.condition("ImagePullFailed")["status"] == "False"  # type: ignore[index]


def test_a_pod_that_waits_for_its_configuration_shows() -> None:
    """JOB-15a."""
    world = started()
    world.start(APPLY)
    waits(world, "CreateContainerConfigError")
    world.settle()
    assert warnings(world) == ["PodWaiting"]


def test_a_job_without_a_pod_shows_after_half_a_minute() -> None:
    """JOB-15a, B112: quota, pod security, a webhook."""
    world = started()
    assert world.plan().wake_at is not None
    world.now = world.plan().wake_at or 0.0
    world.settle()
    assert warnings(world) == ["PodNotCreated"]
    world.run()
    assert world.status("n1") == "complete"


def test_a_pod_the_kubelet_never_acknowledges_is_left_alone() -> None:
    """JOB-15: in progress, no event; explain names it."""
    world = started()
    pod = world.start(APPLY)
    world.pods[pod.metadata.name] = replace(
        pod, status=replace(pod.status, start_time=None, init_container_statuses=())
    )
    world.settle()
    world.now += 3600
    world.settle()
    assert (warnings(world), world.status("n1")) == ([], "in_progress")
    assert world.running() == [APPLY]


def test_a_stage_past_its_timeout_by_our_clock_shows() -> None:
    """JOB-1: only the kubelet enforces it."""
    world = started()
    pod = world.start(APPLY)
    running = ContainerStatus(name="init", state=RUNNING)
    status = replace(pod.status, phase="Running", init_container_statuses=(running,))
    world.pods[pod.metadata.name] = replace(pod, spec=replace(pod.spec, active_deadline_seconds=600), status=status)
    world.settle()
    world.now += 629
    world.settle()
    assert warnings(world) == []
    world.now += 31
    world.settle()
    assert warnings(world) == ["StageOverdue"]


@pytest.mark.parametrize(("ready", "fresh"), [("True", True), ("Unknown", False)])
def test_a_resumed_job_without_a_pod_is_made_anew_on_a_ready_node(ready: str, fresh: bool) -> None:
    """JOB-15a, B139: after two minutes."""
    world = started()
    world.order(pause="true")
    world.settle()
    world.order(pause=None)
    world.settle()
    node = world.nodes["n1"]
    conditions = tuple(replace(c, status=ready) if c.type == "Ready" else c for c in node.status.conditions)
    world.nodes["n1"] = replace(node, status=replace(node.status, conditions=conditions))
    world.now += 110
    world.settle()
    assert world.job(APPLY).metadata.deletion_timestamp is None
    world.now += 10
    world.step()
    assert (world.job(APPLY).metadata.deletion_timestamp is not None) is fresh


def test_a_trouble_that_comes_back_is_said_again() -> None:
    """JOB-15a."""
    world = started()
    world.start(APPLY)
    waits(world, "ErrImagePull")
    world.settle()
    ((name, pod),) = world.pods.items()
    world.pods[name] = replace(
        pod, status=replace(pod.status, init_container_statuses=(ContainerStatus(state=RUNNING),))
    )
    world.settle()
    waits(world, "ErrImagePull")
    world.settle()
    assert warnings(world) == ["ImagePullFailed"] * 2


def test_the_action_of_an_event_about_a_stage_is_the_stage() -> None:
    """OBS-6a."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    world.now += 31
    world.settle()
    assert [(event.reason, event.action) for event in world.events if event.type == "Warning"] == [
        ("PodNotCreated", "apply")
    ]
