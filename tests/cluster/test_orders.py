"""What people order: pause, disable, ignore, taints, labels, nodes that come and go (ROL-1 to ROL-4, ROL-18, ROL-19, JOB-11, JOB-16)."""

from tests.cluster.observer import KEY, NODE
from tests.cluster.scenario import Scenario, package, scenario

FOREIGN = {"key": "example.com/maintenance", "value": "now", "effect": "NoSchedule"}


@scenario()
async def test_pause_suspends_what_runs_and_clearing_it_resumes(s: Scenario) -> None:
    """ROL-18, JOB-16, CON-7a: no attempt is spent."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,attempt=1,container=~.*-apply:hang")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("apply") == 1, "the step runs")
    await s.annotate(pause="true")
    await s.until(lambda: s.job().spec.get("suspend") is True, "the Job is suspended")
    await s.until(lambda: not s.pods(), "its pod is gone")
    await s.until_status("paused")
    assert s.node_status(node) == "paused"
    await s.never(lambda: s.pods(), "a paused CR has a pod", during=3)
    await s.annotate(pause=None)
    await s.until_status("complete", within=60)
    assert s.ran("apply") == 2
    assert "restarts" not in s.node_state(node)["tuning|1.0.0"]


@scenario()
async def test_disable_lets_what_runs_run_on_and_starts_nothing_new(s: Scenario) -> None:
    """ROL-18: reads disabled; goes on when it is cleared."""
    (node,) = await s.nodes(1)
    s.rules("container=~.*-apply:succeed=3")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("apply") == 1, "the step runs")
    await s.annotate(disable="true")
    await s.until_status("disabled")
    await s.until(lambda: s.entry(node, "tuning|1.0.0") == ("apply", "complete"), "apply ends")
    await s.never(lambda: s.jobs(stage="config"), "a disabled CR starts a stage", during=3)
    assert s.node_status(node) == "disabled"
    await s.annotate(disable=None)
    await s.until_status("complete")
    assert s.ran("apply") == 1


@scenario()
async def test_with_pause_and_disable_it_reads_disabled_and_resumes_when_both_are_cleared(s: Scenario) -> None:
    """ROL-18, JOB-16: whatever the order of clearing."""
    await s.nodes(1)
    s.rules("stage=apply,attempt=1,container=~.*-apply:hang")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("apply") == 1, "the step runs")
    await s.annotate(pause="true")
    await s.until(lambda: s.job().spec.get("suspend") is True, "the Job is suspended")
    await s.annotate(disable="true")
    await s.until_status("disabled")
    await s.annotate(pause=None)
    await s.never(lambda: s.job().spec.get("suspend") is not True, "resumed while still disabled", during=3)
    await s.annotate(disable=None)
    await s.until_status("complete", within=60)


@scenario()
async def test_only_the_exact_value_true_pauses(s: Scenario) -> None:
    """ROL-18."""
    await s.nodes(1)
    await s.apply({"tuning": package()}, annotations={f"{KEY}/pause": "True", f"{KEY}/disable": "yes"})
    await s.until_status("complete")


@scenario()
async def test_a_paused_nodewright_that_is_complete_reads_complete(s: Scenario) -> None:
    """ROL-20, ROL-21."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package()})
    await s.until_status("complete")
    await s.annotate(pause="true")
    await s.never(lambda: s.status() != "complete" or s.node_status(node) != "complete", "it changed", during=3)


@scenario()
async def test_an_ignored_node_is_left_alone_until_the_label_goes(s: Scenario) -> None:
    """ROL-2, ROL-4: blocked, named in NodesIgnored; a value other than true is none."""
    first, second, third = await s.nodes(3)
    await s.patch_node(first, labels={f"{KEY}/ignore": "true"})
    await s.patch_node(third, labels={f"{KEY}/ignore": "yes"})
    await s.apply({"tuning": package()})
    await s.until(lambda: s.cr().status.get("completeNodes") == "2/3", "the others are complete")
    assert s.node_status(second) == s.node_status(third) == "complete"
    await s.until_status("blocked")
    assert s.node_status(first) == "blocked"
    condition = await s.until_condition("NodesIgnored")
    assert first in condition["message"]
    assert third not in condition["message"]
    assert not s.jobs(node=first)
    await s.patch_node(first, labels={f"{KEY}/ignore": None})
    await s.until_status("complete")
    assert (s.cr().condition("NodesIgnored") or {})["reason"] == "Resolved"


@scenario()
async def test_a_node_with_a_taint_that_is_not_tolerated_is_blocked_until_it_goes(s: Scenario) -> None:
    """ROL-3, ROL-4, ROL-21."""
    first, second = await s.nodes(2)
    await s.taint(first, FOREIGN)
    await s.apply({"tuning": package()})
    await s.until_node(second, "complete")
    await s.until_status("blocked")
    condition = await s.until_condition("TaintNotTolerable")
    assert first in condition["message"]
    assert "example.com/maintenance" in condition["message"]
    assert not s.jobs(node=first)
    await s.taint(first)
    await s.until_status("complete")


@scenario()
async def test_cordons_and_the_runtime_required_taint_are_tolerated(s: Scenario) -> None:
    """ROL-3, CON-24: and an administrator's cordon is left as it is (B110)."""
    (node,) = await s.nodes(1)
    await s.merge(NODE, node, {"spec": {"unschedulable": True}})
    taint = {"key": "nodewright.nvidia.com", "value": "runtime-required", "effect": "NoSchedule"}
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    await s.taint(node, taint, cordon)
    await s.apply({"tuning": package()})
    await s.until_status("complete")
    assert s.node(node).spec["unschedulable"] is True
    assert taint in s.node(node).spec["taints"]


@scenario()
async def test_a_node_that_leaves_the_selection_is_let_go_and_comes_back_as_it_was(s: Scenario) -> None:
    """ROL-1: its Job is deleted, our keys but node state and version go, it is dropped from status."""
    first, second = await s.nodes(2)
    s.rules(f"node={second},stage=config,attempt=1,container=~.*-config:hang")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("config", node=second) == 1, "config runs on the second")
    await s.patch_node(second, labels={"scenario": "elsewhere"})
    await s.until(lambda: not s.jobs(node=second, stage="config"), "its unfinished Job is gone")
    await s.until_status("complete")
    assert s.cr().status["nodeStatus"] == {first: "complete"}
    ours = f"nodewright.nvidia.com/{s.name}"
    await s.until(lambda: s.node(second).condition(f"{ours}/NotReady") is None, "its conditions are gone")
    assert s.node(second).condition(f"{ours}/Erroring") is None
    left = sorted(key.removeprefix(f"{KEY}/") for key in s.node(second).annotations if key.startswith(KEY))
    assert left == [f"nodeState_{s.name}", f"version_{s.name}"]
    assert s.node(second).label(f"status_{s.name}") is None
    assert all(second not in (s.cr().status.get(key) or {}) for key in ("nodeState", "nodeOrder", "nodePriority"))

    await s.patch_node(second, labels={"scenario": s.name})
    await s.until(lambda: s.cr().status.get("completeNodes") == "2/2", "both are complete")
    assert s.ran("apply", node=second) == 1
    assert s.ran("config", node=second) == 2


@scenario(within=180)
async def test_a_node_created_again_under_its_name_is_another_node(s: Scenario) -> None:
    """JOB-11, ROL-19: the old node's Jobs go whatever their state, and the new one is installed from the start."""
    first, second = await s.nodes(2)
    s.rules(f"node={second},stage=config,attempt=1,container=~.*-config:hang")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("config", node=second) == 1, "config runs on the second")
    old = {job.metadata.uid for job in s.jobs(node=second)}
    await s.stage.kubelets.delete_node(second)
    await s.until_status("complete", within=40)
    assert s.cr().status["nodeStatus"] == {first: "complete"}
    # The pod of a node that is gone is collected by the cluster, after 40 s.
    await s.until(lambda: not s.jobs(node=second), "its Jobs are gone", within=100)
    await s.until(lambda: len(s.config_maps()) == 1, "its metadata ConfigMap is gone")

    await s.stage.kubelets.add_node(second, s.template())
    await s.until(lambda: s.cr().status.get("completeNodes") == "2/2", "both are complete", within=40)
    assert not old & {job.metadata.uid for job in s.jobs(node=second)}
    assert s.ran("apply", node=second) == 2


@scenario(within=100)
async def test_a_node_deleted_and_created_in_one_go_is_another_node(s: Scenario) -> None:
    """JOB-11: nothing of the old node's Jobs is taken for the new one's."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,attempt=1,container=~.*-apply:hang")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("apply") == 1, "apply runs")
    before = s.node(node).metadata.uid
    await s.stage.kubelets.delete_node(node)
    await s.stage.kubelets.add_node(node, s.template())
    await s.until(lambda: (new := s.observer.nodes.get(node)) and new.metadata.uid != before, "the new node is seen")
    await s.until_node(node, "complete", within=70)
    await s.until_status("complete")
    await s.until(lambda: {j.key("node-uid") for j in s.jobs()} == {s.node(node).metadata.uid}, "only Jobs of the new")
