"""The CR status at its own pace (CON-6), in virtual time."""

from functools import partial
from typing import Any

import anyio
import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from controller_runtime.election import NotLeaderError
from controller_runtime.transport import TransportError
from nodewright.model.plan import Plan, StatusDraft
from nodewright.operator import resources
from tests.unit.operator.benchtop import Bench, make_bench

pytestmark = pytest.mark.looptime


class Draft:
    """A draft that counts how often it was built."""

    def __init__(self, status: str = "in_progress", *, urgent: bool = False, **fields: Any) -> None:
        self.built = 0
        self._fields = {"status": status, **fields}
        self.draft = StatusDraft(cr_status=status, build=self._build, urgent=urgent)

    def _build(self) -> dict[str, Any]:
        self.built += 1
        return self._fields


async def offer(bench: Bench, draft: Draft) -> None:
    await bench.executor.apply(bench.cr(), bench.source(), Plan(status=draft.draft))
    await anyio.sleep(0.01)  # the write itself


def status(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = bench.api.objects["nodewrights", "cr"].get("status", {})
    return found


def writes(bench: Bench) -> list[dict[str, Any]]:
    return [body for _, where, body in bench.api.writes("patch") if where == "nodewrights/cr/status"]


async def test_the_difference_is_written_with_the_version_read(bench: Bench) -> None:
    bench.add_cr()
    await offer(bench, Draft(rollout=1, nodeStatus={"n1": "x"}))
    version = bench.source().metadata.resource_version
    await anyio.sleep(2)
    await offer(bench, Draft(rollout=1, nodeStatus={"n2": "x"}))
    last = writes(bench)[-1]
    assert last["status"] == {"nodeStatus": {"n1": None, "n2": "x"}}
    assert last["metadata"] == {"uid": "uid-cr", "resourceVersion": version}


async def test_an_equal_status_is_not_written(bench: Bench) -> None:
    # trap 39
    bench.add_cr()
    for _ in range(3):
        await offer(bench, Draft(rollout=1))
        await anyio.sleep(2)
    assert len(writes(bench)) == 1


async def test_a_list_too_long_for_the_message_is_logged_once_per_change(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    # ROL-22
    caplog.set_level("INFO", logger="nodewright.operator.status_writer")
    bench.add_cr()
    many = tuple(f"n{number:02}" for number in range(11))
    for number, names in enumerate((many, many, (*many[:-1], "x"))):
        draft = Draft(rollout=number)
        draft.draft = StatusDraft("in_progress", draft.draft.build, long_lists=partial(dict, {"in progress": names}))
        await offer(bench, draft)
        await anyio.sleep(2)
    assert [record.getMessage()[:22] for record in caplog.records] == ["11 nodes in progress: "] * 2
    assert caplog.records[0].getMessage().endswith("n09, n10")


async def test_a_patch_that_the_server_took_and_that_changed_nothing_is_not_sent_again(bench: Bench) -> None:
    # trap 39: a field the server prunes would be written for ever
    bench.add_cr()
    await offer(bench, Draft())
    real = bench.api.patch

    async def pruning(resource: Any, name: str, body: Any, kind: Any, **more: Any) -> bytes:
        decoded = msgspec.json.decode(body)
        decoded["status"].pop("pruned", None)
        return await real(resource, name, decoded, kind, **more)

    bench.api.patch = pruning  # type: ignore[method-assign, assignment]
    for _ in range(4):
        await anyio.sleep(2)
        await offer(bench, Draft(pruned=1))
    assert len(writes(bench)) == 2


async def test_drafts_within_a_second_are_folded_and_only_the_last_is_built(bench: Bench) -> None:
    bench.add_cr()
    drafts = [Draft(rollout=number) for number in range(10)]
    for draft in drafts:
        await offer(bench, draft)
        await anyio.sleep(0.05)
    await anyio.sleep(2)
    assert [draft.built for draft in drafts] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert status(bench)["rollout"] == 9


async def test_a_big_status_is_written_by_its_size_and_a_changed_one_within_a_second(bench: Bench) -> None:
    # CON-6: max(1 s, size / 128 KiB)
    bench.add_cr()
    big = {f"n{number}": "x" * 1000 for number in range(512)}
    await offer(bench, Draft(nodeStatus=big))
    await offer(bench, Draft(nodeStatus=big, rollout=1))
    await anyio.sleep(3.5)
    assert len(writes(bench)) == 1
    await anyio.sleep(1)
    assert len(writes(bench)) == 2
    await offer(bench, Draft("complete", nodeStatus=big, rollout=1))
    await anyio.sleep(1.1)
    assert status(bench)["status"] == "complete"


async def test_an_urgent_draft_goes_out_within_a_second_whatever_the_size(bench: Bench) -> None:
    # ROL-11: no new pick before the evaluation's patch has landed
    bench.add_cr()
    big = {f"n{number}": "x" * 1000 for number in range(512)}
    await offer(bench, Draft(nodeStatus=big))
    await offer(bench, Draft(nodeStatus=big, rollout=1, urgent=True))
    await anyio.sleep(1.1)
    assert status(bench)["rollout"] == 1


async def test_a_status_that_somebody_else_changed_is_not_overwritten_but_planned_again(bench: Bench) -> None:
    # LIF-1: a reset of batch state by hand must not be undone by a draft made before it
    bench.add_cr()
    await offer(bench, Draft(rollout=1))
    await offer(bench, Draft(rollout=2))
    edited = bench.api.objects["nodewrights", "cr"]
    edited["status"]["rollout"] = 7
    bench.api.put(resources.NODEWRIGHT, edited)
    bench.stores.nodewrights.observe(bench.api.raw(resources.NODEWRIGHT, "cr"))
    await anyio.sleep(2)
    assert status(bench)["rollout"] == 7
    assert ("cr", 0.0, "status") in bench.passes


async def test_a_conflict_is_read_live_and_planned_again(bench: Bench) -> None:
    # trap 35
    bench.add_cr()
    edited = bench.api.objects["nodewrights", "cr"]
    edited["status"] = {"rollout": 7}
    bench.api.put(resources.NODEWRIGHT, edited)  # the watch has not told of it yet
    await offer(bench, Draft(rollout=1))
    assert status(bench)["rollout"] == 7
    assert ("cr", 0.0, "status") in bench.passes
    assert bench.cr().published["rollout"] == 7


async def test_a_failed_write_is_repeated_until_it_lands(bench: Bench) -> None:
    bench.add_cr()
    for _ in range(3):
        bench.api.fail_once("patch", "nodewrights/cr/status", TransportError("cut", sent=None))
    await offer(bench, Draft(rollout=1))
    await anyio.sleep(10)
    assert status(bench)["rollout"] == 1


async def test_a_status_that_cannot_be_built_stops_no_other_cr(bench: Bench) -> None:
    # LIF-4: an exception in a writer's task would end the leader
    bench.add_cr()
    bench.add_cr("other")

    def broken() -> dict[str, Any]:
        raise KeyError("stage")

    plan = Plan(status=StatusDraft(cr_status="in_progress", build=broken))
    await bench.executor.apply(bench.cr(), bench.source(), plan)
    await anyio.sleep(5)
    await bench.executor.apply(bench.cr("other"), bench.source("other"), Plan(status=Draft(rollout=1).draft))
    await anyio.sleep(1.1)
    assert bench.api.objects["nodewrights", "other"]["status"]["rollout"] == 1
    await offer(bench, Draft(rollout=2))
    await anyio.sleep(30)
    assert status(bench)["rollout"] == 2


async def test_a_write_belongs_to_the_trace_of_the_pass_that_made_the_draft(bench: Bench) -> None:
    # OBS-4
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")
    bench.add_cr()
    seen: list[int] = []

    def note(_verb: str, _where: str) -> float:
        seen.append(trace.get_current_span().get_span_context().span_id)
        return 0.0

    bench.api.delays = note
    passes: list[int] = []
    for number in range(3):
        with tracer.start_as_current_span("pass") as span:
            passes.append(span.get_span_context().span_id)
            await bench.executor.apply(bench.cr(), bench.source(), Plan(status=Draft(rollout=number).draft))
        await anyio.sleep(0.1)
    await anyio.sleep(2)
    assert seen == [passes[0], passes[2]]  # the second was replaced before its time came


async def test_what_waits_is_written_at_a_clean_stop() -> None:
    # CON-6: the last one is never lost
    bench = make_bench()
    bench.add_cr()
    async with anyio.create_task_group() as group:
        bench.executor.start(group)
        await offer(bench, Draft(rollout=1))
        await offer(bench, Draft(rollout=2))
        assert status(bench)["rollout"] == 1
        group.cancel_scope.cancel()
    await bench.executor.stop()
    assert status(bench)["rollout"] == 2


async def test_without_the_lease_nothing_is_written_and_the_stop_does_not_fail() -> None:
    bench = make_bench()
    bench.add_cr()
    bench.api.fail_always("patch", "nodewrights/", NotLeaderError("lost"))
    async with anyio.create_task_group() as group:
        bench.executor.start(group)
        await offer(bench, Draft(rollout=1))
        group.cancel_scope.cancel()
    await bench.executor.stop()
    assert status(bench) == {}


async def test_a_flush_that_hangs_ends_within_seconds() -> None:
    bench = make_bench()
    bench.add_cr()
    bench.api.delays = lambda _verb, _where: 1000.0
    async with anyio.create_task_group() as group:
        bench.executor.start(group)
        await offer(bench, Draft(rollout=1))
        group.cancel_scope.cancel()
    begun = anyio.current_time()
    await bench.executor.stop()
    assert anyio.current_time() - begun == pytest.approx(3.0)


async def test_every_status_that_is_built_is_given_to_the_metrics(bench: Bench) -> None:
    bench.add_cr()
    await offer(bench, Draft(rollout=1))
    assert bench.published == [("cr", {"status": "in_progress", "rollout": 1})]


async def test_metrics_count_what_was_left_out_for_size(bench: Bench) -> None:
    # OBS-1, CON-6
    bench.add_cr()
    cut = [{"type": "StatusTruncated", "status": "True"}]
    whole = {"status": "in_progress", "nodeState": {"n1": {}}}
    draft = StatusDraft("in_progress", lambda: {"status": "in_progress", "conditions": cut}, whole=lambda: whole)
    await bench.executor.apply(bench.cr(), bench.source(), Plan(status=draft))
    await anyio.sleep(0.1)
    assert bench.published == [("cr", whole)]
    assert "nodeState" not in status(bench)
