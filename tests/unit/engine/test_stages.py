"""The order of stages, packages and writes on a node (LIF-5 to LIF-7, LIF-9, LIF-12)."""

import msgspec
import pytest

from nodewright.api import keys
from nodewright.engine.graph import package_order
from nodewright.model.node_state import Entry, Stage, State
from nodewright.model.snapshot import Answer
from tests.unit.engine.machines import replace
from tests.unit.engine.world import CR_NAME, World, package, spec_of


def test_a_first_install_applies_then_configures() -> None:
    """LIF-5."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.run()
    assert [what for what, _ in world.started] == ["n1:kernel-1.0.0:apply", "n1:kernel-1.0.0:config"]


def test_an_upgrade_upgrades_then_configures() -> None:
    """LIF-5."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.run()
    world.started.clear()
    world.cr(packages={"kernel": package("1.1.0")})
    world.run()
    assert [what for what, _ in world.started] == ["n1:kernel-1.1.0:upgrade", "n1:kernel-1.1.0:config"]


def test_independent_packages_run_in_parallel_and_dependents_after() -> None:
    """LIF-7."""
    world = World("n1")
    world.cr(packages={"aa": package(dependsOn={"bb": "1.0.0", "cc": "1.0.0"}), "bb": package(), "cc": package()})
    world.settle()
    assert world.running() == ["n1:bb-1.0.0:apply", "n1:cc-1.0.0:apply"]
    world.outcomes = {"n1:cc-1.0.0:config": "hang"}
    world.run()
    assert world.running() == ["n1:cc-1.0.0:config"]
    world.outcomes.clear()
    world.run()
    assert world.status("n1") == "complete"


def test_a_dependency_must_be_complete_in_the_version_named() -> None:
    """LIF-7."""
    world = World("n1")
    world.cr(packages={"aa": package(dependsOn={"bb": "2.0.0"}), "bb": package("2.0.0")})
    world.set_state("n1", {"bb|1.0.0": Entry(name="bb", version="1.0.0", stage=Stage.CONFIG, state=State.COMPLETE)})
    world.settle()
    assert world.running() == ["n1:bb-2.0.0:upgrade"]


@pytest.mark.parametrize(
    ("depends", "order"),
    [
        ({}, ("aa", "bb", "cc")),
        ({"aa": ["cc"]}, ("bb", "cc", "aa")),
        ({"aa": ["bb"], "bb": ["aa"]}, ("cc", "aa", "bb")),  # a cycle comes last: it never starts (LIF-4)
        ({"bb": ["gone"]}, ("aa", "bb", "cc")),
    ],
)
def test_packages_are_ordered_dependencies_first(depends: dict[str, list[str]], order: tuple[str, ...]) -> None:
    """LIF-7."""
    spec = spec_of(
        packages={n: package(dependsOn=dict.fromkeys(depends.get(n, []), "1.0.0")) for n in ("cc", "bb", "aa")}
    )
    assert package_order(spec.packages) == order


def test_what_the_pod_mounts_comes_first_then_the_entry_then_the_job() -> None:
    """LIF-12, with the pick in the entry's patch (ROL-13) and the run on the Job."""
    world = World("n1")
    world.cr(packages={"kernel": package(configMap={"a.conf": "x"})})
    world.step()
    assert [line.split(" [")[0] for line in world.log[:4]] == [
        "ConfigMap tuning-kernel-1.0.0",
        f"ConfigMap {keys.node_metadata_configmap_name(cr=CR_NAME, node='n1')}",
        "patch n1",
        "create Job n1:kernel:apply",
    ]
    entry = world.state("n1")["kernel|1.0.0"]
    assert entry.run
    assert world.job("n1:kernel-1.0.0:apply").metadata.annotations[keys.RUN] == entry.run
    assert world.pick("n1") is not None


@pytest.mark.parametrize("writes", range(8))
def test_a_crash_between_any_two_writes_neither_repeats_nor_skips_a_stage(writes: int) -> None:
    """LIF-2."""
    world = World("n1", "n2")
    world.cr(packages={"kernel": package()}, settled=False)
    for _ in range(12):
        world.step(writes=writes)
        world.settle()
        world.turn()
    assert sorted(what for what, _ in world.started) == [
        f"{n}:kernel-1.0.0:{s}" for n in ("n1", "n2") for s in ("apply", "config")
    ]
    assert world.statuses() == {"n1": "complete", "n2": "complete"}


def test_a_run_survives_the_refusal_of_its_job() -> None:
    """LIF-12, JOB-15a: a refused create changes nothing, and is tried again by itself."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    name = keys.job_name(cr=CR_NAME, package="kernel", version="1.0.0", stage="apply", node="n1")
    world.refused[f"Job/{name}"] = Answer("exceeded quota", world.now)
    world.settle()
    entry, pick = world.state("n1")["kernel|1.0.0"], world.pick("n1")
    assert entry.at(Stage.APPLY, State.IN_PROGRESS)
    assert entry.run
    assert pick is not None
    assert world.running() == []
    assert [e.reason for e in world.events] == ["JobNotCreated"]
    assert world.plan().wake_at == world.refused[f"Job/{name}"].at + 10
    world.now += 11
    world.settle()
    assert world.job("n1:kernel-1.0.0:apply").metadata.annotations[keys.RUN] == entry.run
    assert world.pick("n1") == pick


def test_no_stage_starts_beside_another_job_of_its_package() -> None:
    """B128: after a reset the old stage's pod may still be at work on the host."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    world.turn()
    world.turn()
    world.settle()
    assert world.running() == ["n1:kernel-1.0.0:config"]
    world.drop(world.job("n1:kernel-1.0.0:apply").metadata.name)  # after its TTL: the name is free
    world.reset("n1")
    world.settle()
    assert world.running() == ["n1:kernel-1.0.0:config"]
    world.finish_deletions()
    world.settle()
    assert world.running() == ["n1:kernel-1.0.0:apply"]


def test_a_foreign_job_under_the_name_is_never_touched_and_shows() -> None:
    """JOB-9, CON-13, CHG-13."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    job = world.job("n1:kernel-1.0.0:apply")
    world.jobs[job.metadata.name] = replace(job, metadata=replace(job.metadata, owner_references=()))
    world.settle()
    assert list(world.jobs) == [job.metadata.name]
    assert world.jobs[job.metadata.name].metadata.deletion_timestamp is None
    assert [e.reason for e in world.events if e.type.value == "Warning"] == ["JobNotCreated"]
    del world.jobs[job.metadata.name]
    world.run()
    assert world.status("n1") == "complete"


def test_an_entry_at_interrupt_of_a_package_without_one_goes_on() -> None:
    """LIF-8: removing the interrupt neither blocks nor repeats it."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.set_state(
        "n1", {"kernel|1.0.0": Entry(name="kernel", version="1.0.0", stage=Stage.INTERRUPT, state=State.SKIPPED)}
    )
    world.run()
    assert world.stages("n1") == {"kernel|1.0.0": "post-interrupt/complete"}


def test_an_owed_interrupt_is_not_completeness() -> None:
    """LIF-8, LIF-9: what this version cannot run is not done."""
    world = World("n1")
    world.cr(packages={"kernel": package(interrupt={"type": "reboot"})})
    done = Entry(name="kernel", version="1.0.0", stage=Stage.CONFIG, state=State.COMPLETE)
    world.set_state("n1", {"kernel|1.0.0": done})
    world.settle()
    assert world.status("n1") == "complete"  # without the flag it reads as already run
    world.set_state("n1", {"kernel|1.0.0": msgspec.structs.replace(done, interrupt_pending=True)})
    world.settle()
    assert world.status("n1") == "blocked"


def test_the_own_cordon_of_a_complete_node_is_released() -> None:
    """ROL-10, invariant 9: it is under way until then."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.run()
    world.annotate("n1", **{keys.cordon_key(CR_NAME): "true"})
    node = world.nodes["n1"]
    world.nodes["n1"] = replace(node, spec=replace(node.spec, unschedulable=True))
    world.settle()
    assert world.nodes["n1"].spec.unschedulable is False
    assert keys.cordon_key(CR_NAME) not in world.nodes["n1"].metadata.annotations
