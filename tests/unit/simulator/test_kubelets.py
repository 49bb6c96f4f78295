"""The shell of the kubelets, in virtual time: writes that are slow, lost or refused, many nodes, and nothing at idle."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from controller_runtime.transport import Client
from nodewright.simulator.kubelets import Kubelets
from nodewright.simulator.ledger import Event
from nodewright.simulator.rules import parse_rule
from tests.unit.simulator.fake_api import FakeApi, LoopClock

pytestmark = pytest.mark.looptime


@contextlib.asynccontextmanager
async def serving(api: FakeApi, *rules: str, nodes: int = 1, **options: Any) -> AsyncIterator[Kubelets]:
    kubelets = Kubelets(
        cast("Client", api),
        nodes=[f"n{number}" for number in range(nodes)],
        rules=[parse_rule(rule) for rule in rules],
        clock=LoopClock(),
        **{"heartbeat_seconds": 0.0, **options},
    )
    task = asyncio.create_task(kubelets.run())
    try:
        await kubelets.wait_ready()
        yield kubelets
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def add_pod(api: FakeApi, name: str = "p", *, node: str = "n0", job: str = "j", **spec: Any) -> None:
    containers = {
        "initContainers": [{"name": "a"}, {"name": "b"}],
        "containers": [{"name": "done"}],
        "restartPolicy": "Never",
    }
    labels = {"batch.kubernetes.io/job-name": job}
    api.put(
        "pods",
        {
            "metadata": {"name": name, "namespace": "ns", "labels": labels},
            "spec": {"nodeName": node, **containers, **spec},
        },
    )


def events(kubelets: Kubelets) -> list[str]:
    return [f"{one.event} {one.container} {one.outcome}".strip() for one in kubelets.ledger.entries]


ALL = ["start a", "end a succeeded", "start b", "end b succeeded", "start done", "end done succeeded"]


@pytest.mark.parametrize("slow", [0.0, 0.15, 0.25, 0.55, 3.0])
async def test_what_changes_during_a_write_is_written_too(slow: float) -> None:
    """However long a write takes, the last state is written, one write of a pod at a time, and containers do not wait."""
    api = FakeApi()
    async with serving(api) as kubelets:
        api.slow = slow
        add_pod(api)
        await asyncio.sleep(0.7)
        assert events(kubelets) == ALL
        await asyncio.sleep(4 * slow + 0.1)
        assert api.phase("p") == "Succeeded"


async def test_a_lost_answer_and_a_refused_write_are_made_good() -> None:
    api = FakeApi()
    async with serving(api) as kubelets:
        api.lose, api.refuse = 2, 3
        add_pod(api)
        await asyncio.sleep(30)
        assert api.phase("p") == "Succeeded"
        assert "startTime" in api.objects["pods", "p"]["status"], "what the refused writes said is said again"
        assert events(kubelets) == ALL


async def test_registering_goes_on_through_a_server_that_fails() -> None:
    api = FakeApi()
    api.refuse = 5
    async with serving(api, nodes=40):
        assert sum(plural == "nodes" for plural, _ in api.objects) == 40


async def test_an_idle_simulation_writes_nothing_and_holds_no_task_per_node() -> None:
    api = FakeApi()
    before = len(asyncio.all_tasks())
    async with serving(api, nodes=300):
        add_pod(api, job="", restartPolicy="Always", initContainers=[])
        await asyncio.sleep(10)
        api.writes.clear()
        await asyncio.sleep(3600)
        assert api.writes == []
        assert len(asyncio.all_tasks()) - before < 40


async def test_heartbeats_of_many_nodes_are_spread_over_the_period() -> None:
    api = FakeApi()
    async with serving(api, nodes=100, heartbeat_seconds=10.0):
        api.writes.clear()
        counts = []
        for _ in range(10):
            before = len(api.writes)
            await asyncio.sleep(1)
            counts.append(len(api.writes) - before)
        assert 95 <= sum(counts) <= 105
        assert max(counts) <= 14


async def test_a_retry_of_a_job_is_the_next_attempt() -> None:
    api = FakeApi()
    async with serving(api, "attempt=1:fail", "attempt=2:refuse_admission") as kubelets:
        for name in ("p1", "p2", "p3"):
            add_pod(api, name)
            await asyncio.sleep(2)
        assert [api.phase(name) for name in ("p1", "p2", "p3")] == ["Failed", "Failed", "Succeeded"]
        assert {one.attempt for one in kubelets.ledger.entries if one.pod == "p3"} == {3}


async def test_rules_that_change_under_way_count_for_what_starts_later() -> None:
    api = FakeApi()
    async with serving(api, ":pull_failure") as kubelets:
        add_pod(api)
        await asyncio.sleep(5)
        assert events(kubelets) == []
        kubelets.set_rules([])
        await asyncio.sleep(60)
        assert events(kubelets) == ALL


async def test_a_pod_deleted_by_force_is_killed_and_recorded() -> None:
    api = FakeApi()
    async with serving(api, ":hang") as kubelets:
        add_pod(api)
        await asyncio.sleep(1)
        api.remove("pods", "p")
        await asyncio.sleep(1)
        assert kubelets.ledger.entries[-1].outcome == "killed:gone"


async def test_a_deletion_that_meets_a_finished_pod_is_completed() -> None:
    api = FakeApi()
    async with serving(api):
        add_pod(api)
        await asyncio.sleep(2)
        body = api.objects["pods", "p"]
        api.put("pods", body | {"metadata": body["metadata"] | {"deletionTimestamp": "2027-01-15T08:00:30Z"}})
        await asyncio.sleep(1)
        assert ("pods", "p") not in api.objects


class SlowReads(FakeApi):
    """Answers what was true a second ago."""

    async def get(self, *arguments: Any, **options: Any) -> bytes:
        answer = await super().get(*arguments, **options)
        await asyncio.sleep(1)
        return answer


async def test_a_deletion_during_the_read_of_an_earlier_kubelets_pod_is_completed() -> None:
    api = SlowReads()
    async with serving(api, ":hang") as kubelets:
        add_pod(api)
        await asyncio.sleep(3)
        assert api.phase("p") == "Pending"
        await kubelets.delete_node("n0")
        await kubelets.add_node("n0")
        await asyncio.sleep(0.5)
        body = api.objects["pods", "p"]
        api.put("pods", body | {"metadata": body["metadata"] | {"deletionTimestamp": "2027-01-15T08:00:30Z"}})
        await asyncio.sleep(60)
        assert ("pods", "p") not in api.objects


async def test_a_reboot_by_rule_ends_what_runs_on_that_node_only() -> None:
    api = FakeApi()
    async with serving(api, "container=a,job=j:reboot=1,times=1", "job=other:hang", nodes=2) as kubelets:
        add_pod(api)
        add_pod(api, "same", job="other")
        add_pod(api, "elsewhere", job="other", node="n1")
        boots = [api.objects["nodes", name]["status"]["nodeInfo"]["bootID"] for name in ("n0", "n1")]
        await asyncio.sleep(10)
        assert [api.phase(name) for name in ("p", "same", "elsewhere")] == ["Failed", "Failed", "Pending"]
        after = [api.objects["nodes", name]["status"]["nodeInfo"]["bootID"] for name in ("n0", "n1")]
        assert [old == new for old, new in zip(boots, after, strict=True)] == [False, True]
        assert [one.event for one in kubelets.ledger.entries].count(Event.REBOOT) == 1


@pytest.mark.parametrize("up", [True, False])
async def test_readiness_that_the_node_controller_took_is_given_back_once_the_kubelet_runs(up: bool) -> None:
    """A real kubelet writes its own conditions over what others wrote, with the times they had."""
    api = FakeApi()
    async with serving(api, "container=done:hang") as kubelets:
        add_pod(api)
        await asyncio.sleep(30)
        before = condition(api, "Ready")
        assert before["status"] == "True"
        written = kubelets.patches
        if not up:
            await kubelets.down("n0")
        pod = api.objects["pods", "p"]
        ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        others = [one for one in pod["status"]["conditions"] if one["type"] != "Ready"]
        api.put("pods", {**pod, "status": {**pod["status"], "conditions": [*others, ready]}})
        await asyncio.sleep(30)
        if not up:
            assert condition(api, "Ready") == ready, "a kubelet that is down writes nothing"
            await kubelets.up("n0")
            await asyncio.sleep(30)
        assert condition(api, "Ready") == before
        assert kubelets.patches == written + 1


def condition(api: FakeApi, kind: str) -> dict[str, Any]:
    found = [one for one in api.objects["pods", "p"]["status"]["conditions"] if one["type"] == kind]
    assert len(found) == 1
    return {key: value for key, value in found[0].items() if value is not None}  # the fake one keeps nulls
