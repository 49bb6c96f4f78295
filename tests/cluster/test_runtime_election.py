"""Two electors and one Lease of a real API server; metrics by its word."""

import asyncio
import json
import uuid

import pytest

from controller_runtime.election import LeaderElector
from controller_runtime.observability.authorization import ApiServerAuthorizer, Verdict
from controller_runtime.testing.control_plane import Cluster
from controller_runtime.transport import Client, ClientConfig, load_config


def elector(config: ClientConfig, name: str, identity: str) -> LeaderElector:
    return LeaderElector(
        config, "default", name, identity, lease_duration=12, renew_deadline=8, retry_period=0.5, user_agent="test"
    )


@pytest.mark.needs("kubectl")
async def test_a_lease_passes_from_one_to_the_other_by_release_and_by_theft(cluster: Cluster) -> None:
    """Traps 27, 29, 32."""
    config = await load_config(cluster.admin_kubeconfig)
    name = f"lease-{uuid.uuid4().hex[:8]}"

    def spec() -> dict[str, object]:
        lease: dict[str, dict[str, object]] = json.loads(cluster.kubectl("get", "lease", name, "-o", "json"))
        return lease["spec"]

    one, two = elector(config, name, "one"), elector(config, name, "two")
    async with asyncio.timeout(60):
        await one.wait_leading()
        assert spec()["holderIdentity"] == one.identity
        waiting = asyncio.create_task(two.wait_leading())
        cluster.kubectl("label", "lease", name, "touched=yes")
        await asyncio.sleep(3)
        assert one.is_leading, "a label is no loss, and a candidate waits"
        assert not waiting.done()
        one.fence.check()
        await one.stop()
        await waiting
        assert spec()["holderIdentity"] == two.identity
        assert spec()["leaseTransitions"] == 1
        cluster.kubectl("patch", "lease", name, "--type=merge", "-p", '{"spec":{"holderIdentity":"thief"}}')
        assert "thief" in await two.wait_lost()
        assert not two.fence.is_open
        await two.stop()
    assert spec()["holderIdentity"] == "thief", "nothing of another is released"


@pytest.mark.needs("authorisation", "kubectl")
async def test_a_token_of_a_service_account_is_judged_by_its_rights(cluster: Cluster) -> None:
    """OBS-3."""
    name = f"scraper-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "serviceaccount", name)
    token = cluster.kubectl("create", "token", name).strip()
    config = await load_config(cluster.admin_kubeconfig)
    async with Client(config, user_agent="test") as client:
        assert await ApiServerAuthorizer(client).judge("nonsense") is Verdict.UNKNOWN
        assert await ApiServerAuthorizer(client).judge(token) is Verdict.FORBIDDEN
        cluster.kubectl("create", "clusterrole", name, "--verb=get", "--non-resource-url=/metrics")
        cluster.kubectl(
            "create", "clusterrolebinding", name, f"--clusterrole={name}", f"--serviceaccount=default:{name}"
        )
        verdict = Verdict.FORBIDDEN
        async with asyncio.timeout(20):
            while verdict is Verdict.FORBIDDEN:
                await asyncio.sleep(0.2)
                verdict = await ApiServerAuthorizer(client).judge(token)
    assert verdict is Verdict.ALLOWED
