"""Fields whose behaviour is not there yet are never half-obeyed, and ConfigMaps that cannot be written hold their
package (CHG-4 to CHG-5a)."""

from typing import Any

import pytest

from nodewright.api import keys
from nodewright.model.snapshot import Answer
from tests.unit.engine.machines import replace
from tests.unit.engine.world import CR_NAME, World, package


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"deploymentPolicy": "slow"}, "spec.deploymentPolicy"),
        ({"runtimeRequired": True}, "spec.runtimeRequired"),
        ({"runtimeRequired": True, "autoTaintNewNodes": True}, "spec.autoTaintNewNodes"),
        ({"runtimeRequired": True, "runtimeRequiredCordonAfter": True}, "spec.runtimeRequiredCordonAfter"),
    ],
)
def test_an_unsupported_field_of_the_spec_starts_nothing(spec: dict[str, Any], path: str) -> None:
    world = World("n1")
    world.cr(packages={"kernel": package()}, **spec)
    world.run()
    assert (world.started, world.status("n1")) == ([], "blocked")
    assert path in world.condition("Unsupported")["message"]  # type: ignore[index]
    world.cr(packages={"kernel": package()})
    world.run()
    assert world.status("n1") == "complete"
    assert world.condition("Unsupported")["status"] == "False"  # type: ignore[index]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"interrupt": {"type": "reboot"}}, "spec.packages[kernel].interrupt"),
        (
            {"configMap": {"a": "1"}, "configInterrupts": {"a": {"type": "reboot"}}},
            "spec.packages[kernel].configInterrupts",
        ),
        ({"uninstall": {"enabled": True}}, "spec.packages[kernel].uninstall.enabled"),
        ({"uninstall": {"enabled": True, "apply": True}}, "spec.packages[kernel].uninstall.apply"),
    ],
)
def test_an_unsupported_field_of_a_package_holds_that_package_and_what_depends_on_it(
    fields: dict[str, Any], path: str
) -> None:
    world = World("n1")
    world.cr(packages={"kernel": package(**fields), "net": package(), "top": package(dependsOn={"kernel": "1.0.0"})})
    world.run()
    assert world.stages("n1") == {"net|1.0.0": "config/complete"}
    assert path in world.condition("Unsupported")["message"]  # type: ignore[index]


@pytest.mark.parametrize(
    "spec", [{"podNonInterruptLabels": {"matchLabels": {"a": "b"}}}, {"drainConfig": {"force": False}}]
)
def test_fields_that_only_concern_interrupts_are_named_and_hold_nothing_else(spec: dict[str, Any]) -> None:
    world = World("n1")
    world.cr(packages={"kernel": package()}, **spec)
    world.run()
    assert world.status("n1") == "complete"
    assert next(iter(spec)) in world.condition("Unsupported")["message"]  # type: ignore[index]


def test_a_running_stage_ends_when_its_package_becomes_unsupported() -> None:
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.settle()
    world.turn()
    world.cr(packages={"kernel": package(interrupt={"type": "noop"})})
    world.run()
    assert world.stages("n1") == {"kernel|1.0.0": "apply/complete"}


def test_a_configmap_of_a_package_that_never_began_follows_the_spec() -> None:
    """CHG-4: also when node state already notes its version as due."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.run()
    for data in ("1", "2"):
        world.cr(packages={"kernel": package("2.0.0", configMap={"a": data})}, interruptionBudget={"count": 0})
        world.settle()
        assert world.configmaps["tuning-kernel-2.0.0"].data == {"a": data}


def test_a_change_of_a_begun_packages_configmap_is_held_and_named() -> None:
    world = World("n1")
    world.cr(packages={"kernel": package(configMap={"a": "1"})})
    world.settle()
    world.cr(packages={"kernel": package(configMap={"a": "2"})})
    world.run()
    assert world.configmaps["tuning-kernel-1.0.0"].data == {"a": "1"}
    assert "spec.packages[kernel].configMap" in world.condition("Unsupported")["message"]  # type: ignore[index]
    assert world.stages("n1") == {"kernel|1.0.0": "apply/complete"}


def test_a_refused_configmap_stops_its_package_only_and_shows() -> None:
    """CHG-5a: a Warning with the server's message; tried again by itself."""
    world = World("n1")
    world.refused["ConfigMap/tuning-kernel-1.0.0"] = Answer("data is too large", world.now)
    world.cr(packages={"kernel": package(configMap={"a": "1"}), "net": package()})
    world.run()
    assert world.stages("n1") == {"net|1.0.0": "config/complete"}
    assert ["data is too large" in e.note for e in world.events if e.reason == "ConfigMapRefused"] == [True]
    world.refused.clear()
    world.run()
    assert world.status("n1") == "complete"


def test_a_configmap_with_another_claim_is_never_touched() -> None:
    """CON-16."""
    world = World("n1")
    world.cr(packages={"kernel": package(configMap={"a": "1"})})
    world.step()
    mine = world.configmaps["tuning-kernel-1.0.0"]
    foreign = replace(mine, metadata=replace(mine.metadata, owner_references=()), data={"a": "theirs"})
    world.configmaps["tuning-kernel-1.0.0"] = foreign
    world.run()
    assert world.configmaps["tuning-kernel-1.0.0"] is foreign


def test_a_removed_configmap_goes_once_nothing_mounts_it() -> None:
    """CHG-5."""
    world = World("n1")
    world.cr(packages={"kernel": package(configMap={"a": "1"})})
    world.settle()
    world.cr(packages={"kernel": package("2.0.0")})
    world.step()
    assert "tuning-kernel-1.0.0" in world.configmaps
    world.run()
    assert "tuning-kernel-1.0.0" not in world.configmaps


def test_node_metadata_is_brought_up_to_date_only_before_a_job() -> None:
    """CON-16: foreign annotations cause no writes."""
    world = World("n1")
    world.cr(packages={"kernel": package()})
    world.run()
    world.annotate("n1", **{"example.com/x": "1"})
    assert world.step() == 0
    name = keys.node_metadata_configmap_name(cr=CR_NAME, node="n1")
    assert "example.com/x" not in world.configmaps[name].data["annotations.json"]
    world.reset("n1")
    world.run()
    assert "example.com/x" in world.configmaps[name].data["annotations.json"]
    assert "nodeState_" not in world.configmaps[name].data["annotations.json"]
