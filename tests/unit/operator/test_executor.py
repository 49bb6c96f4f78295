"""What the executor does with a plan, against a fake API server and real stores."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from controller_runtime.transport import Forbidden, InternalError, Invalid, TransportError
from nodewright.api import keys
from nodewright.model.objects import Node
from nodewright.model.pick import Pick
from nodewright.model.plan import (
    ConfigMapWrite,
    Event,
    EventType,
    FinalizerChange,
    JobDelete,
    JobMark,
    JobSuspend,
    NodeCondition,
    NodePatch,
    NodePlan,
    Plan,
)
from nodewright.operator import resources
from tests.unit.operator.benchtop import Bench, create, job_body
from tests.unit.operator.fake_api import refusal

pytestmark = pytest.mark.looptime
STATE = keys.node_state_key("cr")
PICK = Pick(rollout=0, batch=1, compartment="__default__", order=0, time="2026-01-02T03:04:05Z")
EVENT = Event(EventType.NORMAL, "Apply", "apply", "done")
NODE_EVENT = Event(EventType.NORMAL, "Apply", "apply", "done on n1", node="n1")


def started(node: Node, text: str = "begun", **more: Any) -> NodePlan:
    return NodePlan(node=node, patch=NodePatch(annotations={STATE: text}), pick=PICK, **more)


async def apply(bench: Bench, plan: Plan) -> Any:
    return await bench.executor.apply(bench.cr(), bench.source(), plan)


# --- order --------------------------------------------------------------------------------------------------------------------


async def test_a_nodes_writes_go_in_the_order_of_the_plan(bench: Bench) -> None:
    # LIF-12, JOB-3
    bench.add_cr()
    node, job, old = bench.add_node(), bench.add_job("done"), bench.add_job("old")
    metadata = {
        "metadata": {"name": "meta", "namespace": "nodewright", "labels": {keys.NODE_META_LABEL: "cr"}},
        "data": {},
    }
    plan = started(
        node,
        suspends=(JobSuspend(job, suspend=True),),
        metadata=ConfigMapWrite(name="meta", body=metadata),
        creates=(create("new"),),
        marks=(JobMark(job, ttl_seconds=60),),
        conditions=(NodeCondition("x/NotReady", "True", "Incomplete"),),
        job_deletes=(JobDelete(old, why="stale"),),
    )
    await apply(bench, Plan(nodes=(plan,)))
    assert [(verb, where) for verb, where, _ in bench.api.log] == [
        ("get", "nodes/n1"),
        ("patch", "jobs/done"),
        ("create", "configmaps/meta"),
        ("patch", "nodes/n1"),
        ("create", "jobs/new"),
        ("patch", "jobs/done"),
        ("patch", "nodes/n1/status"),
        ("delete", "jobs/old"),
    ]


async def test_answers_are_in_the_store_when_the_pass_ends(bench: Bench) -> None:
    # trap 36: the next pass sees its own writes
    bench.add_cr()
    await apply(bench, Plan(nodes=(started(bench.add_node(), creates=(create(),)),)))
    stored = bench.stores.nodes.get("n1")
    assert stored is not None
    assert stored.metadata.annotations == {STATE: "begun"}
    assert [job.metadata.name for job in bench.stores.jobs.by_index("cr/node", "cr/n1")] == ["j1"]


async def test_the_finalizer_is_set_before_any_other_write_and_removed_after_all(bench: Bench) -> None:
    # CHG-11
    bench.add_cr()
    await apply(bench, Plan(finalizer=FinalizerChange.ADD, nodes=(started(bench.add_node()),)))
    assert [where for _, where, _ in bench.api.writes()] == ["nodewrights/cr", "nodes/n1"]
    assert bench.source().metadata.finalizers == (keys.FINALIZER,)
    homeless = JobDelete(bench.add_job(node="gone"), why="its node is gone")
    await apply(bench, Plan(finalizer=FinalizerChange.REMOVE, job_deletes=(homeless,)))
    assert [where for _, where, _ in bench.api.writes()[2:]] == ["jobs/j1", "nodewrights/cr"]
    assert bench.source().metadata.finalizers == ()


async def test_a_finalizer_that_cannot_be_set_stops_the_pass(bench: Bench) -> None:
    bench.add_cr()
    bench.api.fail_once("patch", "nodewrights/cr", TransportError("cut", sent=None))
    await apply(bench, Plan(finalizer=FinalizerChange.ADD, nodes=(started(bench.add_node()),)))
    assert bench.api.writes("patch", "nodes/") == []
    assert bench.passes == [("cr", 0.5, "retry")]


async def test_the_finalizer_stays_while_a_write_of_the_pass_failed(bench: Bench) -> None:
    # CHG-11: last of all
    bench.add_cr()
    bench.source()
    bench.api.objects["nodewrights", "cr"]["metadata"]["finalizers"] = [keys.FINALIZER]
    bench.api.put(resources.NODEWRIGHT, bench.api.objects["nodewrights", "cr"])
    bench.stores.nodewrights.observe(bench.api.raw(resources.NODEWRIGHT, "cr"))
    bench.api.fail_once("patch", "nodes/n1", TransportError("cut", sent=None))
    await apply(bench, Plan(finalizer=FinalizerChange.REMOVE, nodes=(started(bench.add_node()),)))
    assert bench.api.writes("patch", "nodewrights/") == []


async def test_finalizer_writes_touch_metadata_only_and_keep_those_of_others(bench: Bench) -> None:
    # CHG-12
    bench.add_cr()
    bench.api.objects["nodewrights", "cr"]["metadata"]["finalizers"] = ["other/one"]
    bench.api.put(resources.NODEWRIGHT, bench.api.objects["nodewrights", "cr"])
    bench.stores.nodewrights.observe(bench.api.raw(resources.NODEWRIGHT, "cr"))
    await apply(bench, Plan(finalizer=FinalizerChange.ADD))
    ((_, _, body),) = bench.api.writes()
    assert body.keys() == {"metadata"}
    assert body["metadata"]["finalizers"] == ["other/one", keys.FINALIZER]


# --- nodes: races and refusals ------------------------------------------------------------------------------------------------


async def test_a_foreign_edit_of_our_key_is_noticed_read_live_and_planned_again(bench: Bench) -> None:
    # CON-11, trap 35
    bench.add_cr()
    node = bench.add_node(metadata={"annotations": {STATE: "seen"}})
    bench.node()["metadata"]["annotations"][STATE] = "edited"
    bench.api.put(resources.NODE, bench.node())
    await apply(bench, Plan(nodes=(started(node, creates=(create(),)),)))
    assert bench.node()["metadata"]["annotations"][STATE] == "edited"
    assert bench.api.writes("create") == []
    assert bench.passes == [("cr", 0.0, "stale")]
    stored = bench.stores.nodes.get("n1")
    assert stored is not None
    assert stored.metadata.annotations[STATE] == "edited"


async def test_a_heartbeat_or_a_foreign_key_between_read_and_write_costs_nothing(bench: Bench) -> None:
    # CON-11
    bench.add_cr()
    node = bench.add_node(metadata={"annotations": {STATE: "seen"}})
    bench.node()["metadata"]["annotations"]["other"] = "1"
    bench.api.put(resources.NODE, bench.node())
    await apply(bench, Plan(nodes=(started(node),)))
    assert bench.node()["metadata"]["annotations"] == {STATE: "begun", "other": "1"}
    assert bench.passes == []


async def test_a_node_recreated_under_its_name_is_not_written(bench: Bench) -> None:
    # trap 59
    bench.add_cr()
    node = bench.add_node()
    bench.api.put(resources.NODE, {"metadata": {"name": "n1", "uid": "another"}, "spec": {}})
    await apply(bench, Plan(nodes=(started(node),)))
    assert "annotations" not in bench.node()["metadata"]
    assert bench.passes == [("cr", 0.0, "stale")]


async def test_a_node_that_is_gone_leaves_the_store(bench: Bench) -> None:
    bench.add_cr()
    node = bench.add_node()
    del bench.api.objects["nodes", "n1"]
    await apply(bench, Plan(nodes=(started(node),)))
    assert bench.stores.nodes.get("n1") is None


async def test_a_refusal_whose_tests_hold_is_an_error_that_backs_off(bench: Bench) -> None:
    # trap 35: a wrong patch and a failed test are answered alike
    bench.add_cr()
    bench.api.fail_always("patch", "nodes/n1", refusal(Invalid, 422, "label value is bad"))
    node = bench.add_node()
    await apply(bench, Plan(nodes=(started(node),)))
    assert bench.executor.refused("cr")["Node/n1"].text == "label value is bad"
    assert bench.passes == [("cr", 0.5, "retry")]
    await apply(bench, Plan(nodes=(started(node),)))
    assert len(bench.api.writes("patch", "nodes/n1")) == 1  # held back until its time


async def test_one_nodes_failure_stops_that_node_only(bench: Bench) -> None:
    # LIF-4
    bench.add_cr()
    bench.api.fail_always("patch", "nodes/n1", refusal(InternalError, 500))
    plans = tuple(started(bench.add_node(name), creates=(create(f"job-{name}", node=name),)) for name in ("n1", "n2"))
    await apply(bench, Plan(nodes=plans))
    assert [where for _, where, _ in bench.api.writes("create")] == ["jobs/job-n2"]


async def test_backoff_of_a_node_doubles_and_ends_with_success(bench: Bench) -> None:
    bench.add_cr()
    node = bench.add_node()
    for _ in range(3):
        bench.api.fail_once("patch", "nodes/n1", TransportError("cut", sent=None))
    for _ in range(4):
        await apply(bench, Plan(nodes=(started(node),)))
        await anyio.sleep(60)
    assert [after for _, after, trigger in bench.passes if trigger == "retry"] == [0.5, 1.0, 2.0]
    assert bench.executor.refused("cr") == {}


async def test_pictures_that_stay_old_end_in_backoff_not_in_a_spin(bench: Bench) -> None:
    bench.add_cr()
    node = bench.add_node(metadata={"annotations": {STATE: "seen"}})
    bench.node()["metadata"]["annotations"][STATE] = "edited"
    bench.api.put(resources.NODE, bench.node())
    for _ in range(8):
        await apply(bench, Plan(nodes=(started(node),)))  # an engine that never looks again
    assert [trigger for _, _, trigger in bench.passes] == ["stale"] * 5 + ["retry"]


# --- conditions ---------------------------------------------------------------------------------------------------------------


async def test_conditions_are_written_one_entry_a_type_and_removed_by_patch_delete(bench: Bench) -> None:
    # CON-8
    bench.add_cr()
    ready = {"type": "Ready", "status": "True"}
    node = bench.add_node(status={"conditions": [ready, {"type": "x/Erroring", "status": "False"}]})
    conditions = (NodeCondition("x/NotReady", "True", "Incomplete"), NodeCondition("x/Erroring", None))
    await apply(bench, Plan(nodes=(NodePlan(node=node, conditions=conditions),)))
    ((_, _, body),) = bench.api.writes()
    assert body["metadata"] == {"uid": "uid-n1"}
    assert body["status"]["conditions"][1] == {"type": "x/Erroring", "$patch": "delete"}
    written = {each["type"]: each for each in bench.node()["status"]["conditions"]}
    assert written.keys() == {"Ready", "x/NotReady"}
    assert written["x/NotReady"]["lastTransitionTime"] == "2026-01-02T03:04:05Z"


async def test_the_transition_time_stays_while_the_status_stays(bench: Bench) -> None:
    bench.add_cr()
    old = {"type": "x/NotReady", "status": "True", "reason": "Old", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    node = bench.add_node(status={"conditions": [old]})
    await apply(bench, Plan(nodes=(NodePlan(node=node, conditions=(NodeCondition("x/NotReady", "True", "New"),)),)))
    (written,) = bench.node()["status"]["conditions"]
    assert (written["reason"], written["lastTransitionTime"]) == ("New", "2020-01-01T00:00:00Z")


STATUS = keys.status_key("cr")
READY = {"type": "Ready", "status": "True"}
NOT_READY = NodeCondition("x/NotReady", "True", "Incomplete")


def first(node: Node, value: str = "in_progress") -> NodePlan:
    """The first write to a node: its Status with its conditions."""
    return NodePlan(node=node, patch=NodePatch(annotations={STATUS: value}), conditions=(NOT_READY,), pick=PICK)


async def test_a_nodes_keys_and_conditions_are_one_request(bench: Bench) -> None:
    """CON-8, CON-11: appended in the patch that proves the node untouched, later replaced where they stand."""
    bench.add_cr()
    await apply(bench, Plan(nodes=(first(bench.add_node(status={"conditions": [READY]})),)))
    node = bench.stores.nodes.get("n1")
    assert node is not None
    done = NodeCondition("x/NotReady", "False", "Complete")
    plan = NodePlan(node=node, patch=NodePatch(annotations={STATUS: "complete"}), conditions=(done,), pick=PICK)
    await apply(bench, Plan(nodes=(plan,)))
    assert [where for _, where, _ in bench.api.writes("patch", "nodes/")] == ["nodes/n1/status"] * 2
    assert bench.node()["metadata"]["annotations"][STATUS] == "complete"
    assert [(c["type"], c["status"]) for c in bench.node()["status"]["conditions"]] == [
        ("Ready", "True"),
        ("x/NotReady", "False"),
    ]


async def test_conditions_go_by_themselves_where_an_old_picture_would_make_two_of_a_type(bench: Bench) -> None:
    """B146: missing conditions of a node that has our keys already, and a list that names a type twice."""
    bench.add_cr()
    touched = bench.add_node(metadata={"annotations": {STATUS: "waiting"}}, status={"conditions": [READY]})
    twice = bench.add_node("n2", status={"conditions": [READY, READY]})
    await apply(bench, Plan(nodes=(first(touched), first(twice))))
    assert sorted(where for _, where, _ in bench.api.writes("patch", "nodes/")) == [
        "nodes/n1", "nodes/n1/status", "nodes/n2", "nodes/n2/status",
    ]  # fmt: skip


async def test_conditions_that_the_server_refuses_do_not_take_the_keys_with_them(bench: Bench) -> None:
    bench.add_cr()
    node = bench.add_node(status={"conditions": [READY]})
    bench.api.fail_once("patch", "nodes/n1/status", refusal(Invalid, 422, "no such condition"))
    await apply(bench, Plan(nodes=(first(node),)))
    assert [where for _, where, _ in bench.api.writes("patch", "nodes/")][-2:] == ["nodes/n1", "nodes/n1/status"]
    assert bench.node()["metadata"]["annotations"][STATUS] == "in_progress"


async def test_a_list_of_conditions_that_moved_is_planned_again(bench: Bench) -> None:
    """CON-11: a place is only as good as the picture it was read from."""
    bench.add_cr()
    old = {"type": "x/NotReady", "status": "False"}
    node = bench.add_node(status={"conditions": [old, READY]})
    bench.api.put(resources.NODE, {**bench.node(), "status": {"conditions": [READY, old]}})
    await apply(bench, Plan(nodes=(first(node),)))
    assert ("cr", 0.0, "stale") in bench.passes
    assert bench.node()["status"]["conditions"] == [READY, old]


async def test_a_rejected_conditions_patch_is_recovered_by_writing_the_list_without_duplicates(bench: Bench) -> None:
    # B146
    bench.add_cr()
    ready, twin = {"type": "Ready", "status": "True"}, {"type": "x/NotReady", "status": "False"}
    node = bench.add_node(status={"conditions": [ready, twin, twin]})
    bench.api.fail_once("patch", "nodes/n1/status", refusal(InternalError, 500, "order in patch list doesn't match"))
    await apply(bench, Plan(nodes=(NodePlan(node=node, conditions=(NodeCondition("x/NotReady", "True", "R"),)),)))
    assert [each["type"] for each in bench.node()["status"]["conditions"]] == ["Ready", "x/NotReady"]
    assert bench.passes == []


# --- Jobs -----------------------------------------------------------------------------------------------------------------------


async def test_a_create_without_an_answer_is_tried_again_under_the_same_name_and_finds_its_job(bench: Bench) -> None:
    # trap 56: the name is the claim
    bench.add_cr()
    node = bench.add_node()
    bench.api.put(resources.JOB, job_body("j1"))  # it was created, the answer was lost
    await apply(bench, Plan(nodes=(NodePlan(node=node, creates=(create(),)),)))
    assert bench.stores.jobs.get("nodewright/j1") is not None
    assert bench.executor.refused("cr") == {}


async def test_a_job_that_the_watch_brought_before_the_second_try_is_ours_by_its_run(bench: Bench) -> None:
    # JOB-9, LIF-12a
    bench.add_cr()
    node = bench.add_node()
    body = job_body("j1")
    body["metadata"]["annotations"] = {keys.RUN: "r1"}
    bench.api.put(resources.JOB, body)
    bench.stores.jobs.observe(bench.api.raw(resources.JOB, "j1"))
    assert (await apply(bench, Plan(nodes=(NodePlan(node=node, creates=(create(),)),)))).requeue_after is None
    assert bench.executor.refused("cr") == {}


async def test_a_job_of_ours_from_another_run_is_left_alone_and_shown(bench: Bench) -> None:
    # JOB-9
    bench.add_cr()
    node = bench.add_node()
    bench.add_job("j1")
    await apply(bench, Plan(nodes=(NodePlan(node=node, creates=(create(),)),)))
    assert bench.executor.refused("cr")["Job/j1"].reason == "AlreadyExists"
    assert bench.api.writes("delete") == []


async def test_a_foreign_job_of_that_name_is_never_touched_and_asked_for_ever_more_seldom(bench: Bench) -> None:
    # JOB-9, CON-13
    bench.add_cr()
    node = bench.add_node()
    bench.api.put(resources.JOB, {"metadata": {"name": "j1", "labels": {"app": "theirs"}}})
    plan = Plan(nodes=(NodePlan(node=node, creates=(create(),)),))
    assert (await apply(bench, plan)).requeue_after == 10.0
    assert bench.executor.refused("cr")["Job/j1"].reason == "AlreadyExists"
    assert bench.stores.jobs.get("nodewright/j1") is None
    await apply(bench, plan)
    assert len(bench.api.writes("create")) == 1
    for expected in (20.0, 40.0, 80.0, 160.0, 300.0, 300.0):
        await anyio.sleep(301)
        assert (await apply(bench, plan)).requeue_after == expected
    del bench.api.objects["jobs", "j1"]
    await anyio.sleep(301)
    assert (await apply(bench, plan)).requeue_after is None
    assert bench.executor.refused("cr") == {}


async def test_a_refused_create_shows_the_servers_words_and_stops_neither_marks_nor_conditions(bench: Bench) -> None:
    # JOB-15a, LIF-12: a refused create changes nothing
    bench.add_cr()
    node, job = bench.add_node(), bench.add_job("done")
    bench.api.fail_always("create", "jobs/", refusal(Forbidden, 403, "exceeded quota"))
    plan = NodePlan(node=node, creates=(create(),), marks=(JobMark(job, ttl_seconds=60),))
    applied = await apply(bench, Plan(nodes=(plan,)))
    assert applied.requeue_after == 10.0
    assert bench.executor.refused("cr")["Job/j1"].text == "exceeded quota"
    marked = bench.api.objects["jobs", "done"]
    assert marked["metadata"]["annotations"] == {keys.STATE_RECORDED: "true"}
    assert marked["spec"]["ttlSecondsAfterFinished"] == 60


async def test_unproven_failures_are_remembered_until_the_next_job_is_there(bench: Bench) -> None:
    # JOB-6
    bench.add_cr()
    node, job = bench.add_node(), bench.add_job("j1")
    await apply(bench, Plan(nodes=(NodePlan(node=node, job_deletes=(JobDelete(job, why="w", unproven=3),)),)))
    assert bench.executor.unproven("cr") == {"j1": 3}
    del bench.api.objects["jobs", "j1"]
    await apply(bench, Plan(nodes=(NodePlan(node=node, creates=(create("j1"),)),)))
    assert bench.executor.unproven("cr") == {}


async def test_a_job_is_deleted_in_the_foreground_only_as_the_plan_saw_it(bench: Bench) -> None:
    # JOB-8
    bench.add_cr()
    job = bench.add_job("j1")
    changed = bench.api.objects["jobs", "j1"]
    changed["status"] = {"active": 1}
    bench.api.put(resources.JOB, changed)
    await apply(bench, Plan(job_deletes=(JobDelete(job, why="w"),)))
    assert "deletionTimestamp" not in bench.api.objects["jobs", "j1"]["metadata"]
    assert bench.passes == [("cr", 0.0, "stale")]
    fresh = bench.stores.jobs.get("nodewright/j1")
    assert fresh is not None
    assert fresh.status.active == 1
    await apply(bench, Plan(job_deletes=(JobDelete(fresh, why="w"),)))
    left = bench.stores.jobs.get("nodewright/j1")
    assert left is not None
    assert left.metadata.deletion_timestamp is not None
    assert bench.api.log[-1][2]["propagation"] == "Foreground"


async def test_no_job_goes_for_what_an_old_picture_of_its_node_says(bench: Bench) -> None:
    # LIF-2, JOB-10: the last leader started a stage, and this one has heard of its Job, but not yet of its entry
    bench.add_cr()
    node, job = bench.add_node(metadata={"annotations": {STATE: "apply"}}), bench.add_job("j1")
    bench.node()["metadata"]["annotations"][STATE] = "config"
    bench.api.put(resources.NODE, bench.node())
    await apply(bench, Plan(nodes=(NodePlan(node=node, job_deletes=(JobDelete(job, why="another stage"),)),)))
    assert bench.api.writes() == []
    assert bench.passes == [("cr", 0.0, "stale")]
    fresh = bench.stores.nodes.get("n1")
    assert fresh is not None
    assert fresh.metadata.annotations == {STATE: "config"}
    await apply(bench, Plan(nodes=(NodePlan(node=fresh, job_deletes=(JobDelete(job, why="another stage"),)),)))
    assert "deletionTimestamp" in bench.api.objects["jobs", "j1"]["metadata"]


async def test_a_heartbeat_is_no_reason_to_keep_a_job(bench: Bench) -> None:
    bench.add_cr()
    node, job = bench.add_node(), bench.add_job("j1")
    bench.node()["status"] = {"images": [{"names": ["x"]}]}
    bench.api.put(resources.NODE, bench.node())
    await apply(bench, Plan(nodes=(NodePlan(node=node, job_deletes=(JobDelete(job, why="w"),)),)))
    assert "deletionTimestamp" in bench.api.objects["jobs", "j1"]["metadata"]


async def test_a_job_of_a_node_that_is_gone_goes_only_if_the_server_says_so_too(bench: Bench) -> None:
    # JOB-11, LIF-2: the watch of nodes lags, and the node came just now
    bench.add_cr()
    job = bench.add_job("j1", node="n9")
    bench.api.put(resources.NODE, {"metadata": {"name": "n9"}, "spec": {}})
    await apply(bench, Plan(job_deletes=(JobDelete(job, why="its node is gone"),)))
    assert bench.api.writes() == []
    assert bench.stores.nodes.get("n9") is not None
    del bench.api.objects["nodes", "n9"]
    await apply(bench, Plan(job_deletes=(JobDelete(job, why="its node is gone"),)))
    assert "deletionTimestamp" in bench.api.objects["jobs", "j1"]["metadata"]


# --- ConfigMaps -----------------------------------------------------------------------------------------------------------------


def package_configmap(name: str = "cr-p-1", **data: str) -> Mapping[str, Any]:
    return {"metadata": {"name": name, "namespace": "nodewright", "labels": {keys.LABEL_NAME: "cr"}}, "data": data}


async def test_a_configmap_that_was_not_answered_is_tried_again_and_is_no_refusal(bench: Bench) -> None:
    # CHG-5a: an API server that is away for a moment makes no package blocked, and no event
    bench.add_cr()
    bench.api.fail_once("create", "configmaps/", TransportError("cut", sent=None))
    plan = Plan(
        configmaps=(ConfigMapWrite(name="cr-p-1", body=package_configmap(), package="p"),),
        nodes=(started(bench.add_node(), creates=(create(),)),),
    )
    await apply(bench, plan)
    assert [where for _, where, _ in bench.api.writes()] == ["configmaps/cr-p-1"]
    assert "ConfigMap/cr-p-1" not in bench.executor.refused("cr")
    assert bench.passes == [("cr", 0.5, "retry")]
    assert (await apply(bench, plan)).requeue_after == pytest.approx(0.5)  # held back until its time has come
    assert len(bench.api.writes()) == 1
    await anyio.sleep(0.6)
    await apply(bench, plan)
    assert [where for _, where, _ in bench.api.writes()[1:]] == ["configmaps/cr-p-1", "nodes/n1", "jobs/j1"]


async def test_a_package_whose_configmap_is_refused_does_not_start_and_the_others_do(bench: Bench) -> None:
    # LIF-12, CON-16
    bench.add_cr()
    bench.api.put(resources.CONFIG_MAP, {"metadata": {"name": "cr-p-1"}, "data": {}})  # somebody else's
    plans = (
        started(bench.add_node("n1"), creates=(create("j1"),)),
        started(bench.add_node("n2"), creates=(create("j2", node="n2", package="q"),)),
    )
    write = ConfigMapWrite(name="cr-p-1", body=package_configmap(), package="p")
    applied = await apply(bench, Plan(configmaps=(write,), nodes=plans))
    assert applied.requeue_after == 10.0
    assert bench.executor.refused("cr")["ConfigMap/cr-p-1"].reason == "AlreadyExists"
    assert [where for _, where, _ in bench.api.writes("patch")] == ["nodes/n2"]
    assert bench.api.objects["configmaps", "cr-p-1"]["data"] == {}


async def test_an_update_makes_the_data_what_is_wanted_and_nothing_else(bench: Bench) -> None:
    bench.add_cr()
    bench.api.put(resources.CONFIG_MAP, package_configmap(a="1", b="2"))
    current = bench.stores.configmaps.observe(bench.api.raw(resources.CONFIG_MAP, "cr-p-1"))
    await apply(
        bench, Plan(configmaps=(ConfigMapWrite(name="cr-p-1", body=package_configmap(b="3"), current=current),))
    )
    assert bench.api.objects["configmaps", "cr-p-1"]["data"] == {"b": "3"}


# --- parallel writes, lateness ----------------------------------------------------------------------------------------------------


async def test_a_slow_node_is_busy_with_its_pick_and_asks_for_a_pass_when_it_is_done(bench: Bench) -> None:
    bench.add_cr()
    bench.api.delays = lambda _, where: 5.0 if where == "nodes/n1" else 0.0
    plans = (started(bench.add_node("n1")), started(bench.add_node("n2")))
    begun = anyio.current_time()
    await apply(bench, Plan(nodes=plans))
    assert anyio.current_time() - begun == pytest.approx(1.0)
    assert bench.executor.busy("cr") == {"n1": PICK}
    await apply(bench, Plan(nodes=plans[:1]))
    assert len(bench.api.writes("patch", "nodes/n1")) == 1  # never two sequences for one node
    await anyio.sleep(5)
    assert bench.executor.busy("cr") == {}
    assert bench.passes == [("cr", 0.0, "writes")]


async def test_at_most_sixteen_nodes_are_written_at_once_in_the_order_of_the_plan(bench: Bench) -> None:
    bench.add_cr()
    bench.api.delays = lambda _verb, _where: 0.1
    names = [f"n{number:02}" for number in range(40)]
    plans = tuple(started(bench.add_node(name)) for name in names)
    begun = anyio.current_time()
    await apply(bench, Plan(nodes=plans))
    assert anyio.current_time() - begun == pytest.approx(0.3)
    assert [where for _, where, _ in bench.api.writes()] == [f"nodes/{name}" for name in names]


async def test_writes_that_have_not_begun_are_dropped_when_the_cr_is_edited(bench: Bench) -> None:
    bench.add_cr()
    bench.api.delays = lambda _verb, _where: 2.0
    plans = tuple(started(bench.add_node(f"n{number:02}")) for number in range(20))
    await apply(bench, Plan(nodes=plans))
    paused = bench.api.objects["nodewrights", "cr"]
    paused["metadata"]["annotations"] = {keys.PAUSE: "true"}
    bench.api.put(resources.NODEWRIGHT, paused)
    bench.stores.nodewrights.observe(bench.api.raw(resources.NODEWRIGHT, "cr"))
    await anyio.sleep(10)
    assert len(bench.api.writes("patch", "nodes/")) == 16
    assert bench.executor.busy("cr") == {}
    assert ("cr", 0.0, "stale") in bench.passes


# --- events ---------------------------------------------------------------------------------------------------------------------


async def test_a_nodes_events_are_sent_once_its_patch_landed_and_not_otherwise(bench: Bench) -> None:
    """JOB-17: the stage's event on the Node, and the one that joins the CR's series."""
    bench.add_cr()
    bench.api.fail_once("patch", "nodes/n1", TransportError("cut", sent=None))
    node = bench.add_node()
    await apply(bench, Plan(nodes=(started(node, events=(NODE_EVENT, EVENT)),)))
    assert bench.events == []
    await anyio.sleep(1)
    await apply(bench, Plan(nodes=(started(node, events=(NODE_EVENT, EVENT)),)))
    assert bench.events == [("n1", NODE_EVENT), ("cr", EVENT)]


async def test_events_of_the_plan_are_sent_even_if_a_node_failed(bench: Bench) -> None:
    bench.add_cr()
    bench.api.fail_once("patch", "nodes/n1", TransportError("cut", sent=None))
    await apply(bench, Plan(nodes=(started(bench.add_node()),), events=(EVENT,)))
    assert bench.events == [("cr", EVENT)]


async def test_the_tally_counts_nodes_writes_and_jobs(bench: Bench) -> None:
    # OBS-4
    bench.add_cr()
    applied = await apply(bench, Plan(nodes=(started(bench.add_node(), creates=(create(),)),)))
    assert (applied.tally.nodes, applied.tally.writes, applied.tally.jobs) == (1, 2, 1)


# --- numbers ------------------------------------------------------------------------------------------------------------------


async def test_the_number_of_a_written_pick_stays_taken_when_its_node_goes(bench: Bench) -> None:
    """ROL-14: nothing else tells of it until the status has landed. A pick that was not written took none."""
    bench.add_cr()
    picks = [Pick(rollout=2, batch=1, compartment="__default__", order=order, time=PICK.time) for order in (0, 4, 9)]
    nodes = [bench.add_node(name) for name in ("n0", "n4", "n9")]
    bench.api.objects.pop(("nodes", "n9"))
    plans = [
        NodePlan(node=node, patch=NodePatch(annotations={STATE: "begun"}), pick=pick)
        for node, pick in zip(nodes, picks, strict=True)
    ]
    await apply(bench, Plan(nodes=tuple(plans)))
    bench.stores.nodes.observe_deleted("n4", nodes[1].metadata.uid)
    assert bench.executor.given("cr") == {2: 5}
    later = Pick(rollout=3, batch=1, compartment="__default__", order=0, time=PICK.time)
    patch = NodePatch(annotations={STATE: "again"})
    await apply(bench, Plan(nodes=(NodePlan(node=bench.stores.nodes.get("n0") or nodes[0], patch=patch, pick=later),)))
    assert bench.executor.given("cr") == {3: 1}


@pytest.mark.parametrize(
    ("error", "given"),
    [
        (TransportError("cut", sent=None), {2: 4}),
        (TransportError("no route", sent=False), {}),
        (refusal(InternalError, 500), {2: 4}),
        (refusal(Forbidden, 403), {}),
    ],
)
async def test_a_number_whose_write_got_no_clear_answer_is_taken(
    bench: Bench, error: Exception, given: dict[int, int]
) -> None:
    """ROL-14: the pick may have landed. One that was refused, or never left, took none."""
    bench.add_cr()
    pick = Pick(rollout=2, batch=1, compartment="__default__", order=3, time=PICK.time)
    bench.api.fail_once("patch", "nodes/n1", error)
    plan = NodePlan(node=bench.add_node("n1"), patch=NodePatch(annotations={STATE: "begun"}), pick=pick)
    await apply(bench, Plan(nodes=(plan,)))
    assert bench.executor.given("cr") == given
