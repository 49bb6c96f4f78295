"""Version changes (CHG-6, LIF-10)."""

import json
from typing import Any

import msgspec
import pytest

from nodewright.api import keys
from nodewright.model.node_state import Entry, Stage, State
from tests.unit.engine.world import CR_NAME, World, package


def at(version: str, **fields: Any) -> World:
    """One node on which the package is complete in that version."""
    world = World("n1")
    world.cr(packages={"kernel": package(version, **fields)})
    world.run()
    return world


def edit(world: World, version: str) -> None:
    world.cr(packages={"kernel": package(version)})


@pytest.mark.parametrize(
    ("have", "want", "stage"),
    [
        ("1.0.0", "1.0.1", "upgrade"),
        ("1.0.0", "1.0.0+b1", "upgrade"),
        ("1.0.0", "0.9.0", "apply"),
        ("1.0.0-rc.1", "1.0.0", "upgrade"),
        ("1.0.0+b1", "1.0.0", "upgrade"),
    ],
)
def test_an_increase_upgrades_and_a_decrease_applies(have: str, want: str, stage: str) -> None:
    """CHG-6: by semver; another text of equal precedence counts as an increase."""
    world = at(have)
    edit(world, want)
    world.settle()
    assert world.stages("n1") == {f"kernel|{have}": "config/complete", f"kernel|{want}": f"{stage}/in_progress"}


def test_the_entry_is_written_on_every_node_that_has_an_older_one() -> None:
    """CHG-6: in whatever state, and also where the batch has not come yet; a node without any entry is applied to later."""
    world = World("n1", "n2", "n3")
    world.cr(packages={"kernel": package()}, interruptionBudget={"count": 3})
    world.settle()
    world.turn()
    world.fail("n2:kernel-1.0.0:apply")
    world.settle()
    world.add_node("n4")
    world.cr(packages={"kernel": package("1.1.0")}, interruptionBudget={"count": 0})
    world.settle()
    assert {n: world.stages(n).get("kernel|1.1.0") for n in world.nodes} == {
        "n1": "upgrade/in_progress", "n2": "upgrade/in_progress", "n3": "upgrade/in_progress", "n4": None,
    }  # fmt: skip


def test_older_entries_go_when_the_upgrade_completed() -> None:
    """CHG-6, LIF-10."""
    world = at("1.0.0")
    edit(world, "1.1.0")
    world.settle()
    assert "kernel|1.0.0" in world.state("n1")
    world.turn()
    world.turn()
    world.settle()
    assert world.stages("n1") == {"kernel|1.1.0": "config/in_progress"}


def test_after_a_decrease_the_other_entries_are_markers() -> None:
    """CHG-6: state unknown, never complete, not compared."""
    world = at("1.1.0")
    edit(world, "1.0.0")
    world.run()
    assert world.stages("n1") == {"kernel|1.1.0": "config/unknown", "kernel|1.0.0": "config/complete"}
    edit(world, "1.1.0")  # returning: what ran since undid it
    world.settle()
    assert world.stages("n1")["kernel|1.1.0"] == "apply/in_progress"
    world.run()
    assert world.stages("n1") == {"kernel|1.1.0": "config/complete", "kernel|1.0.0": "config/unknown"}


def test_a_version_that_never_began_leaves_nothing() -> None:
    """CHG-6: an entry without a run and without a Job is dropped when the spec returns."""
    world = at("1.0.0")
    world.cr(packages={"kernel": package("1.1.0")}, interruptionBudget={"count": 0})
    world.settle()
    assert world.stages("n1")["kernel|1.1.0"] == "upgrade/in_progress"
    edit(world, "1.0.0")
    world.settle()
    assert world.stages("n1") == {"kernel|1.0.0": "config/complete"}
    assert world.status("n1") == "complete"


def test_returning_while_the_other_version_runs_applies_again() -> None:
    """CHG-6, B128: and not before the other version's pod is gone."""
    world = at("1.0.0")
    edit(world, "1.1.0")
    world.settle()
    world.turn()
    world.drop(world.job("n1:kernel-1.0.0:apply").metadata.name)  # after its TTL: the name is free
    edit(world, "1.0.0")
    world.settle()
    assert world.stages("n1")["kernel|1.0.0"] == "apply/in_progress"
    assert world.running() == ["n1:kernel-1.1.0:upgrade"]
    world.finish_deletions()
    world.settle()
    assert world.running() == ["n1:kernel-1.0.0:apply"]
    world.run()
    assert world.stages("n1") == {"kernel|1.0.0": "config/complete", "kernel|1.1.0": "upgrade/unknown"}


def test_a_re_created_cr_notices_what_ran_meanwhile() -> None:
    """CHG-6 with CHG-13: its generations start anew, so they cannot tell alone."""
    world = at("1.0.0")
    old = world.state("n1")["kernel|1.0.0"]
    began = Entry(name="kernel", version="1.1.0", stage=Stage.UPGRADE, state=State.ERRORING, run="r", generation=1)
    world.set_state("n1", {"kernel|1.0.0": msgspec.structs.replace(old, generation=9), "kernel|1.1.0": began})
    world.settle()
    assert world.stages("n1")["kernel|1.0.0"] == "apply/in_progress"


def test_an_image_alone_changes_no_stage() -> None:
    """CHG-6: new pods use it."""
    world = at("1.0.0")
    world.cr(packages={"kernel": {**package(), "image": "registry/other"}})
    world.settle()
    assert world.stages("n1") == {"kernel|1.0.0": "config/complete"}
    assert world.running() == []


def test_a_removed_package_stays_as_a_marker_and_counts_for_nothing() -> None:
    """LIF-10."""
    world = World("n1")
    world.cr(packages={"aa": package(), "bb": package()})
    world.run()
    world.cr(packages={"aa": package()})
    world.settle()
    assert world.stages("n1") == {"aa|1.0.0": "config/complete", "bb|1.0.0": "config/complete"}
    assert world.status("n1") == "complete"


def test_unknown_keys_of_an_entry_survive() -> None:
    """CON-10."""
    world = at("1.0.0")
    entry = msgspec.structs.replace(
        world.state("n1")["kernel|1.0.0"], state=State.UNKNOWN, other=(("x-note", b'"mine"'),)
    )
    world.set_state("n1", {"kernel|1.0.0": entry})
    world.run()
    after = world.state("n1")["kernel|1.0.0"]
    assert (after.state, after.other) == (State.COMPLETE, (("x-note", b'"mine"'),))


def test_a_generation_of_a_former_cr_does_not_send_a_package_back_for_ever() -> None:
    """CHG-6, CHG-13: deleted in mid-upgrade and made anew with the old version, its generation is below that of the other entry."""
    world = World("n1")
    world.cr(packages={"kernel": package("1.2.0")})
    key = keys.node_state_key(CR_NAME)
    entry = {"name": "kernel", "image": "registry.example/kernel", "state": "in_progress"}
    state = {
        "kernel|1.2.0": {**entry, "version": "1.2.0", "stage": "apply", "run": "aa", "generation": 1},
        "kernel|1.3.0": {**entry, "version": "1.3.0", "stage": "upgrade", "run": "bb", "generation": 99},
    }
    world.annotate("n1", **{key: json.dumps(state)})
    world.run()
    assert world.status("n1") == "complete"
