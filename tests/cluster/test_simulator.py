"""Simulated kubelets on a real API server with a real Job controller."""

import asyncio
import contextlib
import json
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from controller_runtime.transport import Client, NotFound, Resource, TooManyRequests, load_config
from nodewright.simulator.kubelets import Kubelets, NodeTemplate, Timing
from nodewright.simulator.kubelets.nodes import LEASE, LEASE_NAMESPACE
from nodewright.simulator.kubelets.pod_view import CONFIG_MAP, NODE, POD
from nodewright.simulator.ledger import Event, Ledger, read_ledger
from nodewright.simulator.rules import parse_rule
from nodewright.simulator.workload_pods import bare_pod, create, create_daemon_set, disruption_budget, owned_pods
from tests.unit.simulator.pods import REBOOT_ARGS

NAMESPACE = Resource(group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False)
JOB = Resource(group="batch", version="v1", plural="jobs", kind="Job", namespaced=True)
FAST = Timing(step_seconds=0.05, look_seconds=0.3, boot_seconds=0.2, mount_retry_seconds=0.3)


class Place:
    """A namespace of its own, nodes with names of their own, and a client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.tag = uuid.uuid4().hex[:8]
        self.namespace = f"sim-{self.tag}"
        self.ledger = Ledger()

    def node(self, number: int = 0) -> str:
        return f"{self.tag}-{number}"

    @contextlib.asynccontextmanager
    async def kubelets(self, *rules: str, nodes: int = 1, **options: Any) -> AsyncIterator[Kubelets]:
        kubelets = Kubelets(
            self.client,
            nodes=[self.node(number) for number in range(nodes)],
            namespace=self.namespace,
            rules=[parse_rule(rule) for rule in rules],
            **{"ledger": self.ledger, "timing": FAST, "heartbeat_seconds": 0.0, **options},
        )
        task = asyncio.create_task(kubelets.run(), name="kubelets")
        try:
            async with asyncio.timeout(20):
                await kubelets.wait_ready()
            yield kubelets
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def get(self, resource: Resource, name: str) -> dict[str, Any]:
        namespace = self.namespace if resource.namespaced else None
        found: dict[str, Any] = json.loads(await self.client.get(resource, name, namespace=namespace))
        return found

    async def pods(self, selector: str | None = None) -> list[dict[str, Any]]:
        raw = await self.client.list(POD, namespace=self.namespace, label_selector=selector)
        found: list[dict[str, Any]] = json.loads(raw)["items"]
        return found

    async def until(self, what: Callable[[list[dict[str, Any]]], bool], seconds: float = 20.0) -> list[dict[str, Any]]:
        """Read the namespace's pods until they are as wanted."""
        deadline = time.monotonic() + seconds
        while not what(pods := await self.pods()):
            if time.monotonic() > deadline:
                states = [(pod["metadata"]["name"], pod.get("status")) for pod in pods]
                raise AssertionError(f"not so within {seconds:g} s: {states}")
            await asyncio.sleep(0.1)
        return pods

    async def job(self, name: str, *, restart: str = "Never", inits: tuple[str, ...] = ("a", "b"), **spec: Any) -> None:
        images = [{"name": init, "image": "registry.example/x:1"} for init in inits]
        template = {
            "nodeName": self.node(),
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 5,
            "initContainers": images,
            "containers": [{"name": "done", "image": "registry.example/x:1"}],
            **spec,
        }
        limit = (
            0 if restart == "Never" else 3
        )  # restarts in place count too, if the Job is looked at before the pod ends
        body = {"metadata": {"name": name}, "spec": {"backoffLimit": limit, "template": {"spec": template}}}
        await self.client.create(JOB, body, namespace=self.namespace)

    async def job_ends(self, name: str, seconds: float = 30.0) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for condition in (await self.get(JOB, name))["status"].get("conditions", []):
                if condition["status"] == "True" and condition["type"] in ("Complete", "Failed"):
                    return str(condition["type"])
            await asyncio.sleep(0.1)
        raise AssertionError(f"job {name} did not end in {seconds:g} s: {await self.pods()}")

    def starts(self) -> list[tuple[str, int]]:
        return [(one.container, one.attempt) for one in self.ledger.entries if one.event is Event.START]


@pytest.fixture
async def place(admin_kubeconfig: Path) -> AsyncIterator[Place]:
    async with Client(await load_config(admin_kubeconfig), user_agent="test-simulator") as client:
        place = Place(client)
        await client.create(NAMESPACE, {"metadata": {"name": place.namespace}})
        yield place
        await client.delete(NAMESPACE, place.namespace)
        for node in json.loads(await client.list(NODE))["items"]:
            if node["metadata"]["name"].startswith(place.tag):
                await client.delete(NODE, node["metadata"]["name"])


def state(pod: dict[str, Any], container: str) -> dict[str, Any]:
    statuses = [*pod["status"].get("initContainerStatuses", []), *pod["status"].get("containerStatuses", [])]
    return next((dict(one["state"]) for one in statuses if one["name"] == container), {})


def phase(pods: list[dict[str, Any]]) -> str:
    return str(pods[0].get("status", {}).get("phase")) if pods else "none"


async def test_a_node_is_registered_as_a_kubelet_does_it(place: Place) -> None:
    template = NodeTemplate(labels={"pool": "gpu"}, taints=[{"key": "reserved", "value": "x", "effect": "NoSchedule"}])
    async with place.kubelets(template=template):
        node = await place.get(NODE, place.node())
        assert node["metadata"]["labels"]["pool"] == "gpu"
        assert "reserved" in [taint["key"] for taint in node["spec"]["taints"]]
        assert node["status"]["nodeInfo"]["bootID"]
        assert node["status"]["allocatable"]["cpu"] == "8"
        assert ("Ready", "True") in [(one["type"], one["status"]) for one in node["status"]["conditions"]]


async def test_a_job_runs_to_complete_with_five_status_patches(place: Place) -> None:
    async with place.kubelets() as kubelets:
        await place.job("good", inits=("a", "b", "c"))
        assert await place.job_ends("good") == "Complete"
        assert place.starts() == [("a", 1), ("b", 1), ("c", 1), ("done", 1)]
        assert kubelets.patches == 5


async def test_a_failing_step_fails_the_job(place: Place) -> None:
    async with place.kubelets("container=b:fail=7"):
        await place.job("bad")
        assert await place.job_ends("bad") == "Failed"
        assert state((await place.pods())[0], "b")["terminated"]["exitCode"] == 7
        assert place.starts() == [("a", 1), ("b", 1)]


async def test_a_refused_pod_fails_without_container_statuses(place: Place) -> None:
    async with place.kubelets(":refuse_admission=OutOfcpu"):
        await place.job("refused")
        assert await place.job_ends("refused") == "Failed"
        status = (await place.pods())[0]["status"]
        assert (status["reason"], "containerStatuses" in status) == ("OutOfcpu", False)


async def test_a_deleted_pod_goes_after_its_containers_ended(place: Place) -> None:
    async with place.kubelets(":hang"):
        await create(place.client, bare_pod("victim", namespace=place.namespace, node=place.node()))
        await place.until(lambda pods: phase(pods) == "Running")
        await place.client.delete(POD, "victim", namespace=place.namespace)
        await place.until(lambda pods: not pods)
        assert place.ledger.entries[-1].outcome == "killed:deleted"


async def test_a_pod_past_its_deadline_fails(place: Place) -> None:
    async with place.kubelets("container=a:hang"):
        await place.job("slow", activeDeadlineSeconds=1)
        assert await place.job_ends("slow") == "Failed"
        assert (await place.pods())[0]["status"]["reason"] == "DeadlineExceeded"


async def test_a_pod_waits_for_a_missing_configmap_and_goes_on_when_it_is_there(place: Place) -> None:
    async with place.kubelets():
        await place.job("waits", volumes=[{"name": "v", "configMap": {"name": "late"}}])
        pods = await place.until(lambda pods: bool(pods) and "startTime" in pods[0]["status"])
        await asyncio.sleep(1)
        assert place.starts() == []
        assert state(pods[0], "a") == {"waiting": {"reason": "PodInitializing"}}
        await place.client.create(CONFIG_MAP, {"metadata": {"name": "late"}}, namespace=place.namespace)
        assert await place.job_ends("waits") == "Complete"


async def test_an_unacknowledged_pod_keeps_the_status_the_server_gave_it(place: Place) -> None:
    async with place.kubelets(":never_ack"):
        await place.job("ignored")
        await place.until(lambda pods: bool(pods))
        await asyncio.sleep(1)
        assert "startTime" not in (await place.pods())[0]["status"]


async def test_a_reboot_brings_a_new_boot_id_and_restarts_in_place(place: Place) -> None:
    async with place.kubelets("attempt=1:hang") as kubelets:
        await place.job("interrupt", restart="OnFailure", inits=("interrupt",))
        await place.until(lambda pods: bool(pods) and "running" in state(pods[0], "interrupt"))
        old = (await place.get(NODE, place.node()))["status"]["nodeInfo"]["bootID"]
        await kubelets.reboot(place.node())
        node = await place.get(NODE, place.node())
        assert node["status"]["nodeInfo"]["bootID"] != old
        assert ("Ready", "True") in [(one["type"], one["status"]) for one in node["status"]["conditions"]]
        pods = await place.until(lambda pods: phase(pods) == "Succeeded")
        assert pods[0]["status"]["initContainerStatuses"][0]["restartCount"] == 1
        assert [one for one in place.starts() if one[0] == "interrupt"] == [("interrupt", 1), ("interrupt", 2)]


async def test_an_interrupt_that_reboots_takes_its_node_down_once(place: Place) -> None:
    """CON-19, RTR-6."""
    async with place.kubelets():
        old = (await place.get(NODE, place.node()))["status"]["nodeInfo"]["bootID"]
        container = {"name": "interrupt", "image": "registry.example/agent:1", "args": REBOOT_ARGS}
        await place.job("interrupt", restart="OnFailure", initContainers=[container])
        assert await place.job_ends("interrupt") == "Complete"
        assert (await place.get(NODE, place.node()))["status"]["nodeInfo"]["bootID"] != old
        assert [one.event for one in place.ledger.entries].count(Event.REBOOT) == 1


async def test_a_node_object_that_was_deleted_comes_back_with_the_next_boot_only(place: Place) -> None:
    """JOB-11: a node made again under its name is another node."""
    async with place.kubelets(heartbeat_seconds=0.2) as kubelets:
        old = (await place.get(NODE, place.node()))["metadata"]["uid"]
        await place.client.delete(NODE, place.node())
        await asyncio.sleep(1)
        with pytest.raises(NotFound):
            await place.get(NODE, place.node())
        await kubelets.reboot(place.node())
        assert (await place.get(NODE, place.node()))["metadata"]["uid"] != old


async def test_nodes_come_and_go_under_way(place: Place) -> None:
    async with place.kubelets("container=a:hang") as kubelets:
        await place.job("job", nodeName=place.node(1))
        await place.until(lambda pods: bool(pods))
        await kubelets.add_node(place.node(1))
        await place.until(lambda pods: "running" in state(pods[0], "a"))
        await kubelets.delete_node(place.node(1))
        with pytest.raises(NotFound):
            await place.get(NODE, place.node(1))
        assert place.ledger.entries[-1].outcome == "killed:gone"


async def test_a_restarted_kubelet_process_keeps_containers_and_boot_id(place: Place) -> None:
    async with place.kubelets("container=a:succeed=2") as kubelets:
        await place.job("job")
        await place.until(lambda pods: bool(pods) and "running" in state(pods[0], "a"))
        before = (await place.get(NODE, place.node()))["status"]["nodeInfo"]["bootID"]
        await kubelets.restart_kubelet(place.node())
        assert await place.job_ends("job") == "Complete"
        assert place.starts() == [("a", 1), ("b", 1), ("done", 1)]
        assert (await place.get(NODE, place.node()))["status"]["nodeInfo"]["bootID"] == before


async def test_a_node_that_is_down_writes_nothing_until_it_is_up(place: Place) -> None:
    async with place.kubelets() as kubelets:
        await kubelets.down(place.node(), mark_unknown=True)
        await place.job("later")
        await place.until(lambda pods: bool(pods))
        await asyncio.sleep(1)
        assert "startTime" not in (await place.pods())[0]["status"]
        await kubelets.up(place.node())
        assert await place.job_ends("later") == "Complete"


async def test_restarted_kubelets_start_nothing_twice(place: Place) -> None:
    async with place.kubelets("container=b:hang"):
        await place.job("long")
        await place.until(lambda pods: bool(pods) and "running" in state(pods[0], "b"))
        boot_id = (await place.get(NODE, place.node()))["status"]["nodeInfo"]["bootID"]
    async with place.kubelets():
        assert await place.job_ends("long") == "Complete"
        assert place.starts() == [("a", 1), ("b", 1), ("done", 1)]
        assert (await place.get(NODE, place.node()))["status"]["nodeInfo"]["bootID"] == boot_id


async def test_heartbeats_move_and_end_with_the_node(place: Place) -> None:
    async def beat() -> str:
        conditions = (await place.get(NODE, place.node()))["status"]["conditions"]
        return str(next(one["lastHeartbeatTime"] for one in conditions if one["type"] == "Ready"))

    async def renewal() -> str:
        raw = await place.client.get(LEASE, place.node(), namespace=LEASE_NAMESPACE)
        return str(json.loads(raw)["spec"]["renewTime"])

    async with place.kubelets(heartbeat_seconds=0.5, lease_seconds=0.5) as kubelets:
        first, renewed = await beat(), await renewal()
        await asyncio.sleep(2.1)
        assert await beat() > first
        assert await renewal() > renewed
        await kubelets.down(place.node())
        await asyncio.sleep(0.3)
        last = await beat()
        await asyncio.sleep(2.1)
        assert await beat() == last


@pytest.mark.needs("DaemonSet controller")
async def test_workloads_have_owners_and_budgets_that_evictions_meet(place: Place) -> None:
    async with place.kubelets():
        bodies = [
            owned_pods("Deployment", "web", namespace=place.namespace, node=place.node()),
            disruption_budget("web", namespace=place.namespace, labels={"app": "web"}, min_available=1),
        ]
        await create(place.client, *bodies)
        daemon = await create_daemon_set(place.client, "agent", namespace=place.namespace, node=place.node())
        pods = await place.until(lambda pods: [pod["status"].get("phase") for pod in pods] == ["Running", "Running"])
        kinds = {pod["metadata"]["name"]: pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods}
        assert kinds.pop(daemon) == "DaemonSet"
        (web, kind), *_ = kinds.items()
        assert kind == "ReplicaSet"
        await asyncio.sleep(1)  # the disruption controller counts the ready pod
        with pytest.raises(TooManyRequests):
            await place.client.create_subresource(
                POD, web, "eviction", {"metadata": {"name": web}}, namespace=place.namespace
            )


async def test_the_process_says_ready_keeps_a_ledger_and_ends_on_sigterm(
    place: Place, admin_kubeconfig: Path, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    options = [
        "--kubeconfig",
        admin_kubeconfig,
        "--nodes",
        "2",
        "--name-format",
        place.tag + "-{}",
        "--namespace",
        place.namespace,
    ]
    more = ["--step-seconds", "0.05", "--ledger", ledger, "--rule", "container=a,attempt=1:succeed=0.1"]
    command = [sys.executable, "-m", "nodewright.simulator.kubelets", *map(str, options), *map(str, more)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            assert await process.stdout.readline() == b"ready\n"
        await place.job("good")
        assert await place.job_ends("good") == "Complete"
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [one.container for one in read_ledger(ledger) if one.event is Event.START] == ["a", "b", "done"]
