"""How many nodes at once, and in which order (ROL-5 to ROL-15), watched at every instant."""

import json
from typing import Any

from controller_runtime.cache import Change
from tests.cluster.observer import JOB, NAMESPACE, Recorder, Thing
from tests.cluster.scenario import Scenario, package, scenario


def watch_unfinished(s: Scenario) -> Recorder:
    """Records, after each change of a Job, the nodes with unfinished Jobs of the scenario's CR."""
    unfinished: dict[str, str] = {}

    def look(change: Change[Thing]) -> frozenset[str] | None:
        job = change.new or change.old
        if job is None or job.label("name") != s.name:
            return None
        if change.new is None or job.finished:
            unfinished.pop(job.metadata.uid, None)
        else:
            unfinished[job.metadata.uid] = job.label("node") or ""
        return frozenset(unfinished.values())

    return Recorder(s.observer.jobs, look)


def watch_batches(s: Scenario) -> Recorder:
    """Records each published batch number and size of the default compartment."""

    def look(change: Change[Thing]) -> int | None:
        if change.new is None or change.new.name != s.name:
            return None
        default = change.new.status.get("compartmentStatuses", {}).get("__default__")
        return None if default is None else int(default["batchState"].get("currentBatch", 1))

    return Recorder(s.observer.crs, look)


async def orders(s: Scenario) -> dict[str, set[str]]:
    """Every SKYHOOK_NODE_ORDER of each node's Jobs."""
    found: dict[str, set[str]] = {}
    for job in s.jobs():
        body: dict[str, Any] = json.loads(await s.client.get(JOB, job.name, namespace=NAMESPACE))
        containers = body["spec"]["template"]["spec"]["initContainers"]
        given = {e["value"] for c in containers for e in c.get("env", ()) if e["name"] == "SKYHOOK_NODE_ORDER"}
        found.setdefault(job.label("node") or "", set()).update(given)
    return found


@scenario(within=120)
async def test_a_count_of_two_never_has_three_nodes_at_work(s: Scenario) -> None:
    """ROL-5, ROL-10, ROL-13, ROL-14, invariant 1: three batches of two, by name, numbered through."""
    nodes = await s.nodes(6)
    with watch_unfinished(s) as at_work, watch_batches(s) as batches:
        await s.apply({"aa": package(), "bb": package(dependsOn={"aa": "1.0.0"})}, interruptionBudget={"count": 2})
        await s.until_status("complete", within=100)
    assert max(len(some) for some in at_work.seen) == 2
    for first, second in (nodes[0:2], nodes[2:4], nodes[4:6]):
        together = [some for some in at_work.seen if some & {first, second}]
        assert together  # ROL-13: by name
        assert all(some <= {first, second} for some in together)  # ROL-10: no new pick while a member is not definite
    assert await orders(s) == {node: {str(number)} for number, node in enumerate(nodes)}  # ROL-14
    assert [batch for batch in dict.fromkeys(batches.seen) if batch] == [1, 2, 3]
    picks = [json.loads(s.node(node).key(f"pick_{s.name}") or "{}") for node in nodes]
    assert [pick["batch"] for pick in picks] == [1, 1, 2, 2, 3, 3]
    assert all(pick["completed"] for pick in picks)


@scenario(within=100)
async def test_a_percentage_is_rounded_down_and_at_least_one(s: Scenario) -> None:
    """ROL-5, ROL-7: 30% of 5 nodes is 1."""
    await s.nodes(5)
    with watch_unfinished(s) as at_work:
        await s.apply({"aa": package()}, interruptionBudget={"percent": 30})
        await s.until_status("complete", within=90)
    assert max(len(some) for some in at_work.seen) == 1


@scenario()
async def test_a_count_of_zero_admits_none(s: Scenario) -> None:
    """ROL-5, ROL-21: every node waits, with its Status and condition (ROL-20), and goes on when the count is raised."""
    (node,) = await s.nodes(1)
    await s.apply({"aa": package()}, interruptionBudget={"count": 0})
    await s.until_status("waiting")
    await s.until_node(node, "waiting")
    assert s.node(node).label(f"status_{s.name}") == "waiting"
    await s.until(lambda: s.node(node).is_true(f"nodewright.nvidia.com/{s.name}/NotReady"), "NotReady")
    assert not s.jobs()
    await s.edit(interruptionBudget={"count": 1})
    await s.until_status("complete")


@scenario()
async def test_without_a_budget_all_nodes_are_worked_on_at_once(s: Scenario) -> None:
    """ROL-5."""
    nodes = await s.nodes(5)
    s.rules("container=~.*-apply:succeed=3")
    await s.apply({"aa": package()})
    await s.until(lambda: len(s.jobs(stage="apply")) == 5, "five Jobs")
    await s.until(lambda: s.cr().status.get("nodesInProgress") == 5, "five in progress")
    assert sorted(s.cr().status["nodeOrder"].values()) == [0, 1, 2, 3, 4]
    assert sorted(s.cr().status["nodePriority"]) == nodes
    await s.until_status("complete", within=45)


@scenario(within=100)
async def test_a_failed_node_gives_its_place_to_others_and_goes_on_when_its_job_is_deleted(s: Scenario) -> None:
    """ROL-10, ROL-10a, ROL-11: a budget has no failure threshold; the rollout goes on past the failed node."""
    nodes = await s.nodes(3)
    s.rules(f"node={nodes[0]},stage=apply,attempt=1-2:fail=1")
    with watch_unfinished(s) as at_work:
        await s.apply({"aa": package()}, interruptionBudget={"count": 1})
        await s.until_node(nodes[0], "erroring", within=60)
        await s.until_node(nodes[2], "complete", within=60)
        await s.until_status("erroring")
        await s.delete(JOB, s.job(node=nodes[0]).name)
        await s.until_status("complete", within=40)
    assert max(len(some) for some in at_work.seen) == 1
