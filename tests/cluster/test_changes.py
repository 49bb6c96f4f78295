"""Resets, versions, packages that come and go, deletion (CHG-4 to CHG-6, CHG-11 to CHG-14)."""

import json

from tests.cluster.observer import CONFIG_MAP, JOB, KEY
from tests.cluster.scenario import Scenario, package, scenario


def work(s: Scenario) -> list[tuple[str, str]]:
    """(version, stage) of each work container that was started, in order."""
    return [(e.version, e.stage) for e in s.ledger() if e.container.endswith(f"-{e.stage}")]


@scenario()
async def test_removing_an_entry_runs_the_package_again_on_that_node(s: Scenario) -> None:
    """CHG-14: the retained Jobs of the removed entry are replaced, other packages and nodes are left alone."""
    first, second = await s.nodes(2)
    await s.apply({"tuning": package(), "drivers": package("2.0.0")})
    await s.until_status("complete")
    old = {job.metadata.uid for job in s.jobs(node=first)}
    state = s.node_state(first)
    del state["tuning|1.0.0"]
    await s.patch_node(first, {f"nodeState_{s.name}": json.dumps(state)})
    await s.until(lambda: s.ran("config", node=first, package="tuning") == 2, "it ran again")
    await s.until(lambda: s.entry(first, "tuning|1.0.0") == ("config", "complete"), "complete again")
    await s.until_status("complete")
    assert s.ran("apply", node=first, package="drivers") == 1
    assert s.ran("apply", node=second) == 2
    assert len([j for j in s.jobs(node=first) if j.metadata.uid in old]) == 2
    assert len(s.jobs(node=first)) == 4


@scenario()
async def test_removing_the_whole_node_state_runs_everything_again(s: Scenario) -> None:
    """CHG-14."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package(), "drivers": package("2.0.0")})
    await s.until_status("complete")
    await s.patch_node(node, {f"nodeState_{s.name}": None})
    await s.until(lambda: s.ran("config") == 4, "all ran again")
    await s.until_status("complete")
    assert s.ran("apply") == 4


@scenario()
async def test_a_reset_while_a_job_runs_replaces_that_job(s: Scenario) -> None:
    """CHG-14, LIF-12a: the old Job speaks for nothing any more; never two pods of the stage at once."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,attempt=1,container=~.*-apply:succeed=6")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("apply") == 1, "apply runs")
    old = s.job().metadata.uid
    await s.patch_node(node, {f"nodeState_{s.name}": None})
    await s.until(lambda: s.ran("apply") == 2, "it runs again", within=40)
    await s.until_status("complete")
    assert old not in {job.metadata.uid for job in s.jobs()}
    begun = s.ledger(container="-apply")
    ended = {e.pod_uid: e for e in s.ledger(event="end", container="-apply")}
    assert ended[begun[0].pod_uid].outcome.startswith("killed")
    assert ended[begun[0].pod_uid].time <= begun[1].time


@scenario()
async def test_a_raised_version_is_upgraded(s: Scenario) -> None:
    """CHG-6, LIF-5: upgrade, then config; the old entry goes when the upgrade stage completed."""
    (node,) = await s.nodes(1)
    s.rules("stage=upgrade,container=~.*-upgrade:succeed=3")
    await s.apply({"tuning": package("1.0.0", configMap={"a": "1"})})
    await s.until_status("complete")
    await s.edit(packages={"tuning": {"version": "1.1.0"}})
    await s.until(lambda: s.entry(node, "tuning|1.1.0") == ("upgrade", "in_progress"), "the upgrade is under way")
    assert s.entry(node, "tuning|1.0.0") == ("config", "complete")
    await s.until_status("complete")
    assert work(s) == [("1.0.0", "apply"), ("1.0.0", "config"), ("1.1.0", "upgrade"), ("1.1.0", "config")]
    assert list(s.node_state(node)) == ["tuning|1.1.0"]
    assert s.cr().status["packageList"] == "tuning:1.1.0"
    names = [one.name for one in s.config_maps() if one.label("name")]
    await s.until(lambda: f"{s.name}-tuning-1.0.0" not in [c.name for c in s.config_maps()], f"CHG-5: {names}")
    assert f"{s.name}-tuning-1.1.0" in [c.name for c in s.config_maps()]


@scenario()
async def test_a_version_raised_while_the_old_one_is_applied_goes_on_with_the_new(s: Scenario) -> None:
    """CHG-6, JOB-10: in whatever state the old entry is; its Job is deleted."""
    (node,) = await s.nodes(1)
    s.rules("version=1.0.0,stage=apply,container=~.*-apply:hang")
    await s.apply({"tuning": package("1.0.0")})
    await s.until(lambda: s.ran("apply") == 1, "the old one runs")
    await s.edit(packages={"tuning": {"version": "1.1.0"}})
    await s.until_status("complete", within=40)
    assert work(s) == [("1.0.0", "apply"), ("1.1.0", "upgrade"), ("1.1.0", "config")]
    assert list(s.node_state(node)) == ["tuning|1.1.0"]


@scenario()
async def test_a_lowered_version_is_applied_and_the_other_becomes_a_marker(s: Scenario) -> None:
    """CHG-6; and returning to the higher one applies it again."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package("1.1.0")})
    await s.until_status("complete")
    await s.edit(packages={"tuning": {"version": "1.0.0"}})
    await s.until(lambda: s.entry(node, "tuning|1.0.0") == ("config", "complete"), "the lower one is there")
    await s.until_status("complete")
    assert s.node_state(node)["tuning|1.1.0"]["state"] == "unknown"
    assert work(s)[2:] == [("1.0.0", "apply"), ("1.0.0", "config")]
    await s.edit(packages={"tuning": {"version": "1.1.0"}})
    await s.until(lambda: s.entry(node, "tuning|1.1.0") == ("config", "complete"), "the higher one is back", within=40)
    await s.until_status("complete")
    assert len(work(s)) == 6


@scenario()
async def test_build_metadata_alone_counts_as_an_increase(s: Scenario) -> None:
    """CHG-6."""
    await s.nodes(1)
    await s.apply({"tuning": package("1.0.0+one")})
    await s.until_status("complete")
    await s.edit(packages={"tuning": {"version": "1.0.0+two"}})
    await s.until_status("complete", within=40)
    assert work(s)[2:] == [("1.0.0+two", "upgrade"), ("1.0.0+two", "config")]


@scenario()
async def test_a_package_that_is_added_runs_and_one_that_is_removed_leaves_a_marker(s: Scenario) -> None:
    """LIF-10, ROL-15, CHG-5."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package(configMap={"a": "1"})})
    await s.until_status("complete")
    before = s.cr().status["rollout"]
    await s.edit(packages={"drivers": package("2.0.0")})
    await s.until(lambda: s.entry(node, "drivers|2.0.0") == ("config", "complete"), "the new one is there")
    await s.until_status("complete")
    assert s.ran("apply", package="tuning") == 1
    assert s.cr().status["rollout"] > before
    await s.edit(packages={"tuning": None})
    await s.until(lambda: s.cr().status.get("packageList") == "drivers:2.0.0", "the list follows")
    await s.until_status("complete")
    assert s.entry(node, "tuning|1.0.0") == ("config", "complete")
    await s.until(lambda: not [c for c in s.config_maps() if c.label("name")], "its ConfigMap goes")


@scenario()
async def test_a_removed_package_that_still_runs_loses_its_job(s: Scenario) -> None:
    """JOB-10."""
    await s.nodes(1)
    s.rules("package=tuning,stage=apply,container=~.*-apply:hang")
    await s.apply({"tuning": package(), "drivers": package("2.0.0")})
    await s.until(lambda: s.ran("apply", package="tuning") == 1, "it runs")
    await s.edit(packages={"tuning": None})
    await s.until_status("complete", within=40)
    assert not [job for job in s.jobs() if job.label("package") == "tuning-1.0.0"]


@scenario()
async def test_edits_in_quick_sequence_end_at_the_last(s: Scenario) -> None:
    """B154, B155: passes coalesce; the end state is the last edit's, and nothing of the others is left."""
    nodes = await s.nodes(3)
    await s.apply({"tuning": package("1.0.0", configMap={"a": "0"})})
    for number in range(1, 9):
        await s.edit(packages={"tuning": {"version": f"1.{number}.0", "configMap": {"a": str(number)}}})
    await s.until_status("complete", within=60)
    for node in nodes:
        assert list(s.node_state(node)) == ["tuning|1.8.0"], node
        assert s.entry(node, "tuning|1.8.0") == ("config", "complete")
    wanted = f"{s.name}-tuning-1.8.0"
    await s.until(lambda: [c.name for c in s.config_maps() if c.label("name")] == [wanted], "one ConfigMap")
    assert next(c for c in s.config_maps() if c.name == wanted).data == {"a": "8"}
    for node in nodes:
        runs = [(e.version, e.stage, e.run) for e in s.ledger() if e.node == node and e.container.endswith(e.stage)]
        assert len(runs) == len(set(runs)), "a stage ran twice"


@scenario()
async def test_a_package_configmap_deleted_by_hand_comes_back(s: Scenario) -> None:
    """LIF-1, LIF-3, CON-16."""
    await s.nodes(1)
    await s.apply({"tuning": package(configMap={"a": "1"})})
    await s.until_status("complete")
    name = f"{s.name}-tuning-1.0.0"
    uid = next(c.metadata.uid for c in s.config_maps() if c.name == name)
    await s.delete(CONFIG_MAP, name)
    await s.until(lambda: any(c.name == name and c.metadata.uid != uid for c in s.config_maps()), "it is there again")


@scenario()
async def test_a_job_deleted_while_it_runs_is_made_again(s: Scenario) -> None:
    """JOB-1, LIF-12: the entry is (apply, in_progress) without a Job, which means due."""
    (node,) = await s.nodes(1)
    s.rules("stage=apply,attempt=1,container=~.*-apply:hang")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("apply") == 1, "it runs")
    run = s.node_state(node)["tuning|1.0.0"]["run"]
    await s.delete(JOB, s.job().name, propagation="Foreground")
    await s.until_status("complete", within=40)
    assert s.ran("apply") == 2
    assert s.job(stage="apply").key("run") == run


@scenario()
async def test_a_nodewright_deleted_in_the_middle_takes_its_work_with_it(s: Scenario) -> None:
    """CHG-11: Jobs, ConfigMaps, our keys but node state and version, conditions, then the finalizer."""
    first, second = await s.nodes(2)
    s.rules(f"node={second},stage=apply,container=~.*-apply:hang")
    await s.apply({"tuning": package(configMap={"a": "1"})})
    await s.until_node(first, "complete")
    await s.until(lambda: s.ran("apply", node=second) == 1, "the second is under way")
    await s.delete_cr()
    for node in (first, second):
        left = sorted(k.removeprefix(f"{KEY}/") for k in s.node(node).annotations if k.startswith(KEY))
        assert left == [f"nodeState_{s.name}", f"version_{s.name}"], left
        assert s.node(node).label(f"status_{s.name}") is None
        assert not [c for c in s.node(node).status["conditions"] if s.name in c["type"]]
    assert s.entry(second, "tuning|1.0.0") == ("apply", "in_progress")
    await s.until(lambda: not s.jobs() and not s.pods() and not s.config_maps(), "what it owned is gone", within=40)


@scenario()
async def test_a_nodewright_created_again_starts_from_the_node_state_that_is_there(s: Scenario) -> None:
    """CHG-13: what is complete stays so, without a Job; what was not is carried on by Jobs of its own."""
    first, second = await s.nodes(2)
    s.rules(f"node={second},stage=config,attempt=1,container=~.*-config:hang")
    await s.apply({"tuning": package()})
    await s.until_node(first, "complete")
    await s.until(lambda: s.ran("config", node=second) == 1, "the second is under way")
    await s.delete_cr()
    await s.apply({"tuning": package()})
    await s.until_status("complete", within=45)
    assert (s.ran("apply", node=first), s.ran("config", node=first)) == (1, 1)
    assert (s.ran("apply", node=second), s.ran("config", node=second)) == (1, 2)
    uid = s.cr().metadata.uid
    assert {o.uid for job in s.jobs() if not job.terminating for o in job.metadata.owner_references} <= {uid}


@scenario()
async def test_a_foreground_deletion_goes_through(s: Scenario) -> None:
    """JOB-1 (blockOwnerDeletion false), CHG-11."""
    await s.nodes(2)
    s.rules("stage=apply,container=~.*-apply:hang")
    await s.apply({"tuning": package(configMap={"a": "1"})})
    await s.until(lambda: s.ran("apply") == 2, "it runs")
    await s.delete_cr(propagation="Foreground", within=45)
    await s.until(lambda: not s.jobs() and not s.config_maps(), "what it owned is gone")


@scenario()
async def test_a_paused_nodewright_can_be_deleted(s: Scenario) -> None:
    """CHG-11, CHG-12: pause holds a deletion only while something has to be uninstalled."""
    await s.nodes(1)
    s.rules("stage=apply,container=~.*-apply:hang")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("apply") == 1, "it runs")
    await s.annotate(pause="true")
    await s.until_status("paused")
    await s.delete_cr()
