"""The way out: of a CR, and of a node that leaves it (CHG-11 to CHG-13, ROL-1)."""

import pytest

from nodewright.api import keys
from nodewright.model.plan import FinalizerChange, Plan
from tests.unit.engine.machines import replace
from tests.unit.engine.world import CR_NAME, World, package

APPLY = "n1:kernel-1.0.0:apply"


def key_names(world: World, node: str) -> set[str]:
    meta = world.nodes[node].metadata
    return {k.removeprefix(keys.PREFIX) for k in (*meta.annotations, *meta.labels)}


def running(*names: str) -> World:
    """A rollout in the middle."""
    world = World(*(names or ("n1", "n2")))
    world.cr(packages={"kernel": package(configMap={"a.conf": "x"})})
    world.settle()
    return world


def test_the_finalizer_comes_before_any_other_write() -> None:
    """CHG-11."""
    world = World("n1")
    cr = world.cr(packages={"kernel": package()})
    world.crs[CR_NAME] = type(cr)(replace(cr.meta, finalizers=("example.com/other",)), cr.spec, cr.faults, cr.published)
    assert world.plan() == Plan(finalizer=FinalizerChange.ADD)
    world.settle()
    assert world.crs[CR_NAME].meta.finalizers == ("example.com/other", keys.FINALIZER)


def test_jobs_go_first_then_nodes_then_configmaps_then_the_finalizer() -> None:
    """CHG-11, B109."""
    world = running("n1")
    world.turn()
    world.delete_cr()
    start = len(world.log)
    world.settle()
    assert world.log[start:] == ["delete Job n1:kernel-1.0.0:apply: its NodeWright is being deleted"]
    world.finish_deletions()
    start = len(world.log)
    world.settle()
    steps = [line.split(" ")[0] + ("" if "ConfigMap" not in line else " ConfigMap") for line in world.log[start:]]
    assert steps == ["patch", "conditions", "delete ConfigMap", "delete ConfigMap", "finalizer"]
    assert CR_NAME not in world.crs
    assert key_names(world, "n1") == {"nodeState_tuning", "version_tuning"}
    assert [c.type for c in world.nodes["n1"].status.conditions] == ["Ready"]


def test_nothing_of_the_install_lane_starts_in_deletion() -> None:
    """CHG-11."""
    world = running("n1")
    world.turn()
    world.delete_cr()
    world.succeed(APPLY)
    world.settle()
    assert [w for w, _ in world.started] == [APPLY]


def test_state_without_entries_goes_and_other_keys_are_never_touched() -> None:
    """CHG-11, B71: never by suffix match."""
    world = World("n1")
    world.annotate(
        "n1",
        **{
            keys.node_state_key(CR_NAME): "{}",
            keys.status_key(f"b_{CR_NAME}"): "x",
            keys.auto_taint_key(CR_NAME): "true",
            f"{keys.PREFIX}team_{CR_NAME}": "y",
        },
    )
    world.cr(packages={"kernel": package()})
    world.order(disable="true")
    world.settle()
    world.delete_cr()
    world.settle()
    assert CR_NAME not in world.crs
    assert key_names(world, "n1") == {
        f"status_b_{CR_NAME}",
        f"autoTaint_{CR_NAME}",
        f"team_{CR_NAME}",
        "version_tuning",
    }


@pytest.mark.parametrize(
    ("others", "schedulable"), [((), True), (("cordon_other",), False), (("runtimeRequiredCordon",), False)]
)
def test_the_cordon_is_released_and_the_node_schedulable_when_no_other_is_left(
    others: tuple[str, ...], schedulable: bool
) -> None:
    """CHG-11, B148."""
    world = running("n1")
    world.annotate("n1", **{keys.cordon_key(CR_NAME): "true", **{keys.PREFIX + other: "true" for other in others}})
    node = world.nodes["n1"]
    world.nodes["n1"] = replace(node, spec=replace(node.spec, unschedulable=True))
    world.delete_cr()
    world.settle()
    world.finish_deletions()
    world.settle()
    assert world.nodes["n1"].spec.unschedulable is not schedulable
    assert f"cordon_{CR_NAME}" not in key_names(world, "n1")


def test_a_cordon_of_somebody_else_stays() -> None:
    """B47."""
    world = running("n1")
    node = world.nodes["n1"]
    world.nodes["n1"] = replace(node, spec=replace(node.spec, unschedulable=True))
    world.delete_cr()
    world.run()
    assert world.nodes["n1"].spec.unschedulable is True


@pytest.mark.parametrize("writes", range(9))
def test_a_deletion_survives_a_crash_between_any_two_writes(writes: int) -> None:
    """CHG-11, LIF-2: and no key is left behind."""
    world = running()
    world.delete_cr()
    for _ in range(30):
        if CR_NAME not in world.crs:
            break
        world.step(writes=writes)
        world.finish_deletions()
        if CR_NAME in world.crs:
            world.step()
    assert CR_NAME not in world.crs
    assert key_names(world, "n1") == {"nodeState_tuning", "version_tuning"}
    assert world.configmaps == {}


@pytest.mark.parametrize(
    ("annotation", "state", "reason"),
    [
        (None, None, "UninstallPending"),
        ("pause", None, "PausedWithPendingUninstall"),
        ("disable", None, "DisabledWithPendingUninstall"),
        (None, "{", "MalformedNodeState"),
    ],
)
def test_a_deletion_that_waits_says_why(annotation: str | None, state: str | None, reason: str) -> None:
    """CHG-12, B62; DeletionBlocked is the first reason of Stalled (ROL-22a)."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.run()
    world.cr(packages={"kernel": package(uninstall={"enabled": True})})
    if annotation:
        world.order(**{annotation: "true"})
    if state:
        world.annotate("n1", **{keys.node_state_key(CR_NAME): state})
    world.delete_cr()
    world.settle()
    assert world.condition("DeletionBlocked")["reason"] == reason  # type: ignore[index]
    assert world.condition("Stalled")["reason"] == "DeletionBlocked"  # type: ignore[index]
    assert "node n1" in world.condition("DeletionBlocked")["message"]  # type: ignore[index]
    world.cr(packages={"kernel": package(uninstall={"enabled": False})})
    world.settle()
    assert CR_NAME not in world.crs


def test_observed_generation_is_never_above_the_generation() -> None:
    """B79."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.run()
    world.cr(packages={"kernel": package(uninstall={"enabled": True})})
    world.delete_cr()
    world.settle()
    assert world.crs[CR_NAME].published["observedGeneration"] <= world.crs[CR_NAME].meta.generation


def test_a_cr_made_again_starts_from_the_state_that_is_there() -> None:
    """CHG-13: and takes Jobs of the old UID for nobody's."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 1})
    world.outcomes = {"n2:kernel-1.0.0:apply": "hang"}
    world.run()
    old = world.job("n2:kernel-1.0.0:apply")
    del world.crs[CR_NAME]
    world.engine.forget(CR_NAME)
    world.cr(packages={"kernel": package()}, settled=False)
    world.settle()
    assert world.statuses()["n1"] == "complete"
    assert world.jobs[old.metadata.name] is old
    world.succeed("n2:kernel-1.0.0:apply")
    world.settle()
    assert world.stages("n2") == {"kernel|1.0.0": "apply/in_progress"}
    world.outcomes.clear()
    world.drop(old.metadata.name)  # the garbage collector
    world.run()
    assert world.statuses() == {"n1": "complete", "n2": "complete"}
    assert [w for w, _ in world.started].count("n1:kernel-1.0.0:apply") == 1


def test_a_node_that_leaves_the_selection_is_left_clean_and_keeps_its_state() -> None:
    """ROL-1: the unfinished Job goes first."""
    world = World("n1", "n2")
    for name in world.nodes:
        world.label(name, pool="a")
    world.cr(packages={"kernel": package()}, nodeSelectors={"matchLabels": {"pool": "a"}})
    world.settle()
    world.label("n1", pool=None)
    world.step()
    assert world.job(APPLY).metadata.deletion_timestamp is not None
    assert "pick_tuning" in key_names(world, "n1")
    world.finish_deletions()
    world.run()
    assert key_names(world, "n1") == {"nodeState_tuning", "version_tuning"}
    assert [c.type for c in world.nodes["n1"].status.conditions] == ["Ready"]
    assert world.crs[CR_NAME].published["nodeStatus"] == {"n2": "complete"}
    world.label("n1", pool="a")
    world.run()
    assert world.status("n1") == "complete"


def test_an_idle_node_that_is_not_selected_is_never_written_to() -> None:
    """Invariant 3."""
    world = World("n1")
    world.cr(packages={"kernel": package()}, nodeSelectors={"matchLabels": {"pool": "a"}})
    before = world.nodes["n1"]
    world.run()
    assert world.nodes["n1"] is before
    assert world.crs[CR_NAME].published["status"] == "complete"
