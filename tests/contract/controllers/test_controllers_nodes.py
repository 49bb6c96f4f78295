"""PodDisruptionBudgets' numbers; taints that follow readiness; who is evicted; pods whose node is gone."""

import asyncio

import pytest

from controller_runtime.transport import PatchType, TooManyRequests
from nodewright.simulator.controllers.views import BUDGET, NODE, POD
from nodewright.simulator.workload_pods import RESOURCES, bare_pod, create, disruption_budget, owned_pods
from tests.contract.controllers.place import Body, Place, disruption_target, owner
from tests.contract.controllers.scenes import played

NOT_READY = "node.kubernetes.io/not-ready"


async def budget(place: Place, name: str, **numbers: int) -> None:
    """Wait until the budget says these numbers."""

    async def says_so() -> bool:
        status = (await place.get(BUDGET, name)).get("status", {})
        return {key: status.get(key) for key in numbers} == numbers

    await place.until(says_so, say=f"budget {name}: {numbers}")


@played
async def test_a_budget_counts_ready_pods_and_an_eviction_spends_it(place: Place) -> None:
    async with place.kubelets(":hang"):
        labels = {"app": "web"}
        await create(place.client, disruption_budget("web", namespace=place.namespace, labels=labels, min_available=1))
        await budget(place, "web", currentHealthy=0, desiredHealthy=1, expectedPods=0, disruptionsAllowed=0)
        pods = [bare_pod(f"web-{n}", namespace=place.namespace, node=place.node(), labels=labels) for n in range(2)]
        await create(place.client, *pods)
        await budget(place, "web", currentHealthy=2, desiredHealthy=1, expectedPods=2, disruptionsAllowed=1)
        condition = (await place.get(BUDGET, "web"))["status"]["conditions"][0]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "DisruptionAllowed",
            "True",
            "SufficientPods",
        )
        await evict(place, "web-0")
        with pytest.raises(TooManyRequests):
            await evict(place, "web-1")
        await place.gone(POD, "web-0")
        await budget(place, "web", currentHealthy=1, desiredHealthy=1, expectedPods=1, disruptionsAllowed=0)
        assert (await place.get(BUDGET, "web"))["status"]["conditions"][0]["reason"] == "InsufficientPods"


@played
async def test_max_unavailable_counts_what_the_controllers_want(place: Place) -> None:
    """Each budget has pods of its own: where two choose one pod, kube-controller-manager tells only one of them of its changes."""
    async with place.kubelets(":hang"):
        for name, bounds in (("most", {"maxUnavailable": 1}), ("share", {"minAvailable": "50%"})):
            await replicas(place, name)
            body = disruption_budget(name, namespace=place.namespace, labels={"app": name}, min_available=0)
            del body["spec"]["minAvailable"]
            body["spec"] |= bounds
            await create(place.client, body)
        await budget(place, "most", currentHealthy=3, desiredHealthy=2, expectedPods=3, disruptionsAllowed=1)
        await budget(place, "share", currentHealthy=3, desiredHealthy=2, expectedPods=3, disruptionsAllowed=1)


async def replicas(place: Place, name: str) -> None:
    """A ReplicaSet of three pods, which the embedded cluster, having no controller for them, is given by hand."""
    replica_set = owned_pods("ReplicaSet", name, namespace=place.namespace, node=place.node(), replicas=3)
    await create(place.client, replica_set)
    if place.backend == "embedded":
        made = await place.get(RESOURCES["ReplicaSet"], name)
        for number in range(3):
            pod = bare_pod(f"{name}-{number}", namespace=place.namespace, node=place.node(), labels={"app": name})
            pod["metadata"]["ownerReferences"] = [owner(made, "ReplicaSet", "apps/v1", controller=True)]
            await create(place.client, pod)


async def evict(place: Place, name: str) -> None:
    await place.client.create_subresource(
        POD, name, "eviction", {"metadata": {"name": name}}, namespace=place.namespace
    )


# --- nodes


async def taints(place: Place, node: str) -> set[tuple[str, str]]:
    return {(one["key"], one["effect"]) for one in (await place.get(NODE, node))["spec"].get("taints", [])}


@played
async def test_cordons_and_readiness_show_as_taints(place: Place) -> None:
    async with place.kubelets(nodes=2) as kubelets:
        name = place.node()
        await place.client.patch(NODE, name, {"spec": {"unschedulable": True}}, PatchType.MERGE)
        cordoned = ("node.kubernetes.io/unschedulable", "NoSchedule")

        async def cordon_shows() -> bool:
            return await taints(place, name) == {cordoned}

        await place.until(cordon_shows)
        await set_ready(place, name, "False")

        async def both_effects() -> bool:
            return await taints(place, name) == {cordoned, (NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}

        await place.until(both_effects, 40)
        await set_ready(place, name, "Unknown")
        unreachable = "node.kubernetes.io/unreachable"

        async def exchanged() -> bool:
            return await taints(place, name) == {cordoned, (unreachable, "NoSchedule"), (unreachable, "NoExecute")}

        await place.until(exchanged, 20)
        await kubelets.up(name)
        await place.until(cordon_shows, 20)
        await place.client.patch(NODE, name, {"spec": {"unschedulable": None}}, PatchType.MERGE)

        async def none() -> bool:
            return await taints(place, name) == set()

        await place.until(none)


@played
async def test_a_pod_leaves_an_unready_node_when_its_toleration_is_over(place: Place) -> None:
    """B145: what tolerates for good stays."""
    async with place.kubelets(":hang", nodes=2):
        name = place.node()
        forever: Body = {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}
        for pod, tolerations in (
            ("stays", [forever]),
            ("leaves", [{**forever, "tolerationSeconds": 2}]),
        ):
            body = bare_pod(pod, namespace=place.namespace, node=name, tolerations=tolerations)
            await create(place.client, body)
        await set_ready(place, name, "False")
        reasons: list[str | None] = []

        async def has_left() -> bool:
            pod = await place.find(POD, "leaves")
            if pod is not None and "deletionTimestamp" in pod["metadata"]:
                reasons.append(disruption_target(pod))
            return pod is None

        await place.until(has_left, 40)
        assert set(reasons) <= {"DeletionByTaintManager"}
        assert "deletionTimestamp" not in (await place.get(POD, "stays"))["metadata"]


async def set_ready(place: Place, node: str, status: str) -> None:
    stamp = place.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": status, "lastTransitionTime": stamp, "lastHeartbeatTime": stamp}
    body = {"status": {"conditions": [ready]}}
    await place.client.patch(NODE, node, body, PatchType.STRATEGIC, subresource="status")


@pytest.mark.slow
@played
async def test_the_pods_of_a_node_that_is_gone_are_disrupted_and_go(place: Place) -> None:
    """JOB-11: the Job retries, and its attempt is not spent."""
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    async with place.kubelets(":hang", nodes=2) as kubelets:
        await place.job("lost", backoffLimit=0, podFailurePolicy=policy)
        first = await place.starts("lost")
        await kubelets.delete_node(place.node())
        await place.gone(POD, first["metadata"]["name"], 90)
        await asyncio.sleep(2)
        assert place.stories["lost"].last.failed == 0
        assert place.stories["lost"].conditions == []


@played
async def test_a_silent_node_becomes_unknown_and_its_pods_are_not_ready(place: Place) -> None:
    """Virtual time only: nodes of the control plane of tests may be silent for ever."""
    if place.backend != "embedded":
        pytest.skip("its controller-manager runs with a grace of 1000 hours")
    async with place.kubelets(":hang", nodes=2, heartbeat_seconds=10.0) as kubelets:
        await create(place.client, bare_pod("app", namespace=place.namespace, node=place.node()))
        await asyncio.sleep(300)
        assert await taints(place, place.node()) == set()
        await kubelets.down(place.node())
        await asyncio.sleep(70)
        conditions = {one["type"]: one for one in (await place.get(NODE, place.node()))["status"]["conditions"]}
        assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert ("node.kubernetes.io/unreachable", "NoExecute") in await taints(place, place.node())
        app = await place.get(POD, "app")
        assert {one["type"]: one["status"] for one in app["status"]["conditions"]}["Ready"] == "False"
        assert await taints(place, place.node(1)) == set()
        await kubelets.up(place.node())
        await asyncio.sleep(10)
        assert await taints(place, place.node()) == set()
        app = await place.get(POD, "app")
        assert {one["type"]: one["status"] for one in app["status"]["conditions"]}["Ready"] == "True"
