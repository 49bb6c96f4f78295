"""Faulty specs, malformed state, and others who write to the same objects (LIF-1, LIF-4, CON-11, B07, B124)."""

import asyncio
import json
from typing import Any

from controller_runtime.cache import Change
from tests.cluster.observer import JOB, KEY, NAMESPACE, NODE, NODEWRIGHT, Recorder, Thing
from tests.cluster.scenario import Scenario, package, scenario


@scenario()
async def test_fields_without_behaviour_are_named_and_their_packages_not_started(s: Scenario) -> None:
    """Never half-obeyed: condition Unsupported names each field; packages without one go on."""
    (node,) = await s.nodes(1)
    packages = {
        "plain": package(),
        "rebooting": package(interrupt={"type": "reboot"}),
        "removable": package(uninstall={"enabled": True}),
    }
    await s.apply(packages)
    condition = await s.until_condition("Unsupported")
    for field in ("spec.packages[rebooting].interrupt", "spec.packages[removable].uninstall.enabled"):
        assert field in condition["message"]
    await s.until(lambda: s.entry(node, "plain|1.0.0") == ("config", "complete"), "the plain one is complete")
    await s.never(lambda: len(s.jobs()) > 2, "a package with such a field starts", during=2)
    assert list(s.node_state(node)) == ["plain|1.0.0"]
    assert s.status() != "complete"
    await s.edit(packages={"rebooting": {"interrupt": None}, "removable": {"uninstall": None}})
    await s.until_status("complete")
    assert not s.cr().is_true("Unsupported")


@scenario()
async def test_a_policy_starts_nothing_while_policies_are_not_supported(s: Scenario) -> None:
    """A field of the whole spec holds every package."""
    await s.nodes(1)
    await s.apply({"tuning": package()}, deploymentPolicy="some-policy")
    condition = await s.until_condition("Unsupported")
    assert "spec.deploymentPolicy" in condition["message"]
    await s.never(lambda: s.jobs(), "something starts", during=3)


@scenario()
async def test_a_dependency_cycle_holds_the_packages_in_it(s: Scenario) -> None:
    """LIF-4, ROL-22a: the CRD cannot see a cycle; Stalled/InvalidSpec does, and the rest goes on."""
    (node,) = await s.nodes(1)
    one, two = package(dependsOn={"two": "1.0.0"}), package(dependsOn={"one": "1.0.0"})
    await s.apply({"one": one, "two": two, "free": package()})
    condition = await s.until_condition("Stalled")
    assert condition["reason"] == "InvalidSpec"
    assert "one" in condition["message"]
    await s.until(lambda: s.entry(node, "free|1.0.0") == ("config", "complete"), "the free one is complete")
    assert list(s.node_state(node)) == ["free|1.0.0"]
    await s.edit(packages={"two": {"dependsOn": None}})
    await s.until_status("complete", within=45)
    assert not s.cr().is_true("Stalled")


@scenario()
async def test_a_dependency_that_is_not_there_holds_the_package(s: Scenario) -> None:
    """LIF-4."""
    await s.nodes(1)
    await s.apply({"one": package(dependsOn={"missing": "1.0.0"})})
    condition = await s.until_condition("Stalled")
    assert condition["reason"] == "InvalidSpec"
    assert "missing" in condition["message"]
    assert not s.jobs()


@scenario()
async def test_malformed_node_state_stops_its_own_node_only(s: Scenario) -> None:
    """LIF-4, B07, ROL-20: named in the condition, left alone until it is repaired."""
    nodes = await s.nodes(3)
    broken = nodes[1]
    await s.patch_node(broken, {f"nodeState_{s.name}": "{not json"})
    await s.apply({"tuning": package()})
    await s.until(lambda: s.cr().status.get("completeNodes") == "2/3", "the others are complete")
    condition = await s.until_condition("NodeStateMalformed")
    assert broken in condition["message"]
    assert nodes[0] not in condition["message"]
    await s.until_node(broken, "unknown")
    assert s.node(broken).key(f"nodeState_{s.name}") == "{not json"
    assert not s.jobs(node=broken)
    stalled = await s.until_condition("Stalled")
    assert stalled["reason"] == "NodeStateMalformed"
    await s.patch_node(broken, {f"nodeState_{s.name}": None})
    await s.until_status("complete")
    assert not s.cr().is_true("NodeStateMalformed")


@scenario()
async def test_state_that_turns_malformed_while_a_job_runs_waits_with_its_outcome(s: Scenario) -> None:
    """LIF-4, JOB-3: the Job is not marked and nothing is written over the annotation; repaired, the outcome is taken."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,container=~.*-apply:succeed=3")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("apply") == 1, "it runs")
    good = s.node(node).key(f"nodeState_{s.name}")
    await s.patch_node(node, {f"nodeState_{s.name}": "[]"})
    await s.until(lambda: s.job().is_true("Complete"), "its Job completes")
    await s.never(lambda: s.job().key("state-recorded"), "it was marked", during=2)
    assert s.node(node).key(f"nodeState_{s.name}") == "[]"
    await s.patch_node(node, {f"nodeState_{s.name}": good})
    await s.until_status("complete")
    assert s.ran("apply") == 1


@scenario()
async def test_unknown_keys_of_an_entry_survive(s: Scenario) -> None:
    """CON-10: what others wrote into an entry is kept on rewrite."""
    (node,) = await s.nodes(1)
    s.rules("container=~.*-apply:succeed=3")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.entry(node, "tuning|1.0.0") == ("apply", "in_progress"), "it runs")
    state = s.node_state(node)
    state["tuning|1.0.0"]["auditor"] = {"seen": True}
    await s.patch_node(node, {f"nodeState_{s.name}": json.dumps(state)})
    await s.until_status("complete")
    assert s.node_state(node)["tuning|1.0.0"]["auditor"] == {"seen": True}
    assert s.ran("apply") == 1


@scenario()
async def test_what_others_write_on_nodes_and_the_cr_survives(s: Scenario) -> None:
    """CON-11, B124, invariant 4: annotations, labels, taints, finalizers, while every write path of ours runs."""
    nodes = await s.nodes(3)
    taint = {"key": "example.com/gpu", "value": "yes", "effect": "PreferNoSchedule"}
    done = asyncio.Event()
    written = 0

    async def scribble() -> None:
        nonlocal written
        while not done.is_set():
            written += 1
            keys = {f"example.com/{written}": "kept"}
            meta: dict[str, Any] = {"metadata": {"annotations": keys, "labels": keys}}
            await s.merge(NODE, nodes[written % 3], {**meta, "spec": {"taints": [taint]}})
            await s.merge(NODEWRIGHT, s.name, meta)
            await asyncio.sleep(0.05)

    await s.apply({"tuning": package(), "drivers": package("2.0.0", dependsOn={"tuning": "1.0.0"})})
    await s.merge(NODEWRIGHT, s.name, {"metadata": {"finalizers": [f"{KEY}/nodewright", "example.com/kept"]}})
    scribbling = asyncio.create_task(scribble())
    try:
        await s.until_status("complete", within=60)
    finally:
        done.set()
        await scribbling
    await s.patch_node(nodes[0], {f"nodeState_{s.name}": None})
    await s.until(lambda: s.ran("config", node=nodes[0]) == 4, "a reset runs too")
    await s.until_status("complete")
    assert written > 20
    for number in range(1, written + 1):
        node = s.node(nodes[number % 3])
        assert node.annotations.get(f"example.com/{number}") == "kept", number
        assert node.labels.get(f"example.com/{number}") == "kept", number
        assert s.cr().annotations.get(f"example.com/{number}") == "kept", number
    assert all(taint in s.node(node).spec["taints"] for node in nodes)
    assert "example.com/kept" in s.cr().metadata.finalizers
    assert all(s.ran("apply", node=node, package="drivers") == 1 for node in nodes[1:])
    await s.merge(NODEWRIGHT, s.name, {"metadata": {"finalizers": [f"{KEY}/nodewright"]}})


@scenario()
async def test_status_edited_by_hand_is_corrected_and_changes_nothing(s: Scenario) -> None:
    """LIF-1: status is a published observation."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package()})
    await s.until_status("complete")
    wrong = {
        "status": "erroring",
        "completeNodes": "7/9",
        "nodesInProgress": 5,
        "nodeStatus": {"ghost": "complete", node: "erroring"},
        "nodeState": {node: {"tuning|1.0.0": {"stage": "apply", "state": "erroring"}}},
        "nodeOrder": {node: 77},
    }
    await s.merge(NODEWRIGHT, s.name, {"status": wrong}, status=True)
    await s.until(lambda: s.cr().status["nodeStatus"] == {node: "complete"}, "nodeStatus is right again")
    status = s.cr().status
    assert (status["status"], status["completeNodes"], status["nodesInProgress"]) == ("complete", "1/1", 0)
    assert status["nodeState"] == {node: s.node_state(node)}
    assert status["nodeOrder"] == {}
    assert s.ran("apply") == 1


@scenario()
async def test_our_keys_edited_by_hand_on_a_complete_node_are_corrected(s: Scenario) -> None:
    """LIF-1, LIF-3, CON-7, CON-8: label and annotation of Status are recomputed."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package()})
    await s.until_status("complete")
    await s.patch_node(node, {f"status_{s.name}": "erroring"}, labels={f"{KEY}/status_{s.name}": None})
    await s.until(lambda: s.node(node).label(f"status_{s.name}") == "complete", "the label is back")
    await s.until_node(node, "complete")


@scenario()
async def test_a_job_of_somebody_else_under_our_name_is_never_touched(s: Scenario) -> None:
    """CON-13, JOB-9: Warning, the stage waits, and goes on when the name is free."""
    (node,) = await s.nodes(1)
    s.rules("stage=config,attempt=1:hang")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.jobs(stage="config"), "the name of the config Job is known")
    job = s.job(stage="config")
    await s.annotate(disable="true")
    await s.until_status("disabled")
    await s.delete(JOB, job.name, propagation="Foreground")
    await s.until(lambda: not s.jobs(stage="config"), "it is gone")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "other", "image": "busybox"}]}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job.name}, "spec": {"template": template}}
    await s.client.create(JOB, body, namespace=NAMESPACE)
    try:
        await s.annotate(disable=None)
        told = await s.until_event("JobNotCreated")
        assert told.type == "Warning"
        assert job.name in told.note
        assert s.observer.jobs.get(f"{NAMESPACE}/{job.name}") is not None
        assert s.entry(node, "tuning|1.0.0") == ("config", "in_progress")
    finally:
        await s.delete(JOB, job.name)
    await s.until_status("complete", within=60)


@scenario()
async def test_conditions_keep_their_transition_time_while_their_status_stays(s: Scenario) -> None:
    """ROL-22, B08: a new generation changes observedGeneration, not the time."""
    await s.nodes(1)
    await s.apply({"tuning": package()})
    await s.until_status("complete")

    def look(change: Change[Thing]) -> tuple[str, str] | None:
        ready = change.new.condition("Ready") if change.new is not None and change.new.name == s.name else None
        return None if ready is None else (ready["status"], ready["lastTransitionTime"])

    with Recorder(s.observer.crs, look) as seen:
        await s.edit(priority=300)
        await s.until(lambda: s.cr().status["observedGeneration"] == 2, "the new generation is observed")
        assert (s.cr().condition("Ready") or {})["observedGeneration"] == 2
    assert len(set(seen.seen)) == 1
