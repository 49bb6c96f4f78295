"""Deletion and ownership: what goes, in which order, and what stays."""

import asyncio
from typing import Literal

from controller_runtime.transport import PatchType
from nodewright.simulator.controllers.views import JOB, TRACKING
from nodewright.simulator.kubelets import Timing
from tests.contract.controllers.place import CONFIG_MAP, Place, owner
from tests.contract.controllers.scenes import played

SLOW_END = Timing(look_seconds=0.3, terminate_seconds=2.0)


async def delete_job(place: Place, name: str, how: Literal["Background", "Foreground", "Orphan"] | None) -> None:
    await place.client.delete(JOB, name, namespace=place.namespace, propagation=how)


@played
async def test_in_the_foreground_the_pods_go_before_the_job(place: Place) -> None:
    """JOB-8: the name is free only when the pods are gone."""
    async with place.kubelets(":hang", timing=SLOW_END):
        await place.job("first")
        await place.starts("first")
        await delete_job(place, "first", "Foreground")
        seen: set[tuple[bool, bool]] = set()

        async def all_gone() -> bool:
            job, pods = await place.find(JOB, "first"), await place.pods()
            seen.add((job is not None, bool(pods)))
            if job is not None:
                assert job["metadata"]["finalizers"] == ["foregroundDeletion"]
                assert job["metadata"]["deletionTimestamp"]
            return job is None

        await place.until(all_gone)
        assert await place.pods() == []
        assert (True, True) in seen
        assert (False, True) not in seen


@played
async def test_in_the_background_the_job_goes_at_once(place: Place) -> None:
    async with place.kubelets(":hang", timing=SLOW_END):
        await place.job("fast")
        await place.starts("fast")
        await delete_job(place, "fast", "Background")
        assert await place.find(JOB, "fast") is None
        assert len(await place.pods()) == 1

        async def no_pods() -> bool:
            return await place.pods() == []

        await place.until(no_pods)


@played
async def test_without_a_policy_a_jobs_pods_are_orphaned_and_let_go(place: Place) -> None:
    async with place.kubelets(":hang"):
        await place.job("parent")
        await place.starts("parent")
        await delete_job(place, "parent", None)
        await place.gone(JOB, "parent")

        async def free() -> bool:
            (pod,) = await place.pods()
            return "ownerReferences" not in pod["metadata"] and TRACKING not in pod["metadata"].get("finalizers", [])

        await place.until(free)
        await asyncio.sleep(1)
        (pod,) = await place.pods()
        assert "deletionTimestamp" not in pod["metadata"]


@played
async def test_what_a_deleted_owner_owned_goes(place: Place) -> None:
    parent = await place.config_map("parent")
    child = await place.config_map("child", [owner(parent, "ConfigMap")])
    await place.config_map("grandchild", [owner(child, "ConfigMap")])
    await asyncio.sleep(1)
    assert await place.find(CONFIG_MAP, "grandchild") is not None
    await place.client.delete(CONFIG_MAP, "parent", namespace=place.namespace)
    await place.gone(CONFIG_MAP, "child")
    await place.gone(CONFIG_MAP, "grandchild")


@played
async def test_orphans_stay_and_lose_their_owner(place: Place) -> None:
    parent = await place.config_map("parent")
    await place.config_map("child", [owner(parent, "ConfigMap", blockOwnerDeletion=True)])
    await asyncio.sleep(1)
    await place.client.delete(CONFIG_MAP, "parent", namespace=place.namespace, propagation="Orphan")
    await place.gone(CONFIG_MAP, "parent")
    child = await place.get(CONFIG_MAP, "child")
    assert "ownerReferences" not in child["metadata"]
    assert "deletionTimestamp" not in child["metadata"]


@played
async def test_one_living_owner_keeps_an_object_and_the_other_reference_goes(place: Place) -> None:
    parents = [await place.config_map(name) for name in ("one", "two")]
    await place.config_map("child", [owner(parent, "ConfigMap") for parent in parents])
    await asyncio.sleep(1)
    await place.client.delete(CONFIG_MAP, "one", namespace=place.namespace)

    async def names_one_owner() -> bool:
        child = await place.get(CONFIG_MAP, "child")
        return [one["name"] for one in child["metadata"]["ownerReferences"]] == ["two"]

    await place.until(names_one_owner)


@played
async def test_an_object_of_an_owner_that_never_was_goes(place: Place) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}}
    await place.config_map("child", [owner(ghost, "ConfigMap")])
    await place.gone(CONFIG_MAP, "child")


@played
async def test_an_owner_made_again_under_its_name_is_another(place: Place) -> None:
    """JOB-11, in general: UIDs, not names."""
    parent = await place.config_map("parent")
    await place.client.delete(CONFIG_MAP, "parent", namespace=place.namespace)
    await place.config_map("parent")
    await place.config_map("child", [owner(parent, "ConfigMap")])
    await place.gone(CONFIG_MAP, "child")
    assert await place.find(CONFIG_MAP, "parent") is not None


@played
async def test_a_foreground_deletion_waits_only_for_who_blocks_it(place: Place) -> None:
    """JOB-1: what the CR's Jobs have as owner does not block."""
    parent = await place.config_map("parent")
    await place.config_map(
        "blocks", [owner(parent, "ConfigMap", blockOwnerDeletion=True)], finalizers=["example.com/a"]
    )
    await place.config_map(
        "other", [owner(parent, "ConfigMap", blockOwnerDeletion=False)], finalizers=["example.com/a"]
    )
    await asyncio.sleep(1)
    await place.client.delete(CONFIG_MAP, "parent", namespace=place.namespace, propagation="Foreground")

    async def both_go() -> bool:
        found = [await place.get(CONFIG_MAP, name) for name in ("blocks", "other")]
        return "deletionTimestamp" in found[0]["metadata"]

    await place.until(both_go)
    await asyncio.sleep(1)
    assert await place.find(CONFIG_MAP, "parent") is not None
    await release(place, "blocks")
    await place.gone(CONFIG_MAP, "parent")
    await release(place, "other")
    await place.gone(CONFIG_MAP, "other")


async def release(place: Place, name: str) -> None:
    body = {"metadata": {"finalizers": None}}
    await place.client.patch(CONFIG_MAP, name, body, PatchType.MERGE, namespace=place.namespace)
