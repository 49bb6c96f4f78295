"""The controllers while requests fail, answers are lost and the controllers themselves are killed: every count comes out right.

One embedded cluster per seed, in virtual time. The kubelets' requests go well, since they are not what is tested.
"""

import asyncio
import collections
import contextlib
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller_runtime.cache import Change, Informer
from controller_runtime.events.event import EVENTS
from controller_runtime.testing.api_server import ApiRequest, ApiResponse, ApiServer, EmbeddedClient, Fault
from controller_runtime.transport import Resource
from nodewright.simulator.controllers import Controllers
from nodewright.simulator.controllers.views import JOB, POD, Pod, controller_of
from nodewright.simulator.kubelets import Kubelets, Timing
from nodewright.simulator.rules import parse_rule
from tests.unit.simulator.fake_api import LoopClock

pytestmark = pytest.mark.looptime(resolution=2**-20)
"""Times that binary floats hold exactly: `now + 60` is then met when 60 s are over, and not a last bit earlier."""

SEEDS = range(12)
RULES = ("job=bad:fail=1", "job=flaky,attempt=1:fail=1", "job=disturbed,attempt=1:evict", "job=late:hang")
IGNORE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
JOBS: dict[str, dict[str, Any]] = {
    "good": {"backoffLimit": 0},
    "bad": {"backoffLimit": 2},
    "flaky": {"backoffLimit": 3},
    "disturbed": {"backoffLimit": 0},
    "late": {"backoffLimit": 3, "activeDeadlineSeconds": 20},
}
OUTCOMES = {  # condition, succeeded, failed
    "good": ("Complete", 1, 0),
    "bad": ("Failed", 0, 3),
    "flaky": ("Complete", 1, 1),
    "disturbed": ("Complete", 1, 0),
    "late": ("Failed", 0, 1),
}


class Trouble:
    """Faults for the controllers' requests, drawn from a seed, for as long as it is `on`."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.on = True
        self.hits: collections.Counter[str] = collections.Counter()
        self.writes = 0

    def before(self, request: ApiRequest) -> Fault | None:
        if request.user_agent != "controllers":
            return None
        self.writes += request.method != "GET"
        return self._draw("before", lost=0.03, answer=0.05)

    def after(self, request: ApiRequest, answer: ApiResponse) -> Fault | None:
        ours = request.user_agent == "controllers" and answer.status < 400
        return self._draw("after", lost=0.08, answer=0.0) if ours else None

    def _draw(self, where: str, *, lost: float, answer: float) -> Fault | None:
        if not self.on:
            return None
        luck = self.rng.random()
        if luck < lost:
            self.hits[f"lost {where}"] += 1
            return Fault(lost=True)
        if luck < lost + answer:
            self.hits[f"refused {where}"] += 1
            return Fault(answer=self.rng.choice((refusal(500, "InternalError"), refusal(409, "Conflict"))))
        return Fault(delay=self.rng.random() * 0.2)


def refusal(code: int, reason: str) -> ApiResponse:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": reason,
    }
    return ApiResponse(code, json.dumps(body).encode())


@contextlib.asynccontextmanager
async def background(run: Any, ready: Any) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(run)
    try:
        async with asyncio.timeout(600):
            await ready
        yield task
    finally:
        failed = task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert not failed, "it ended by itself"


async def lives(server: ApiServer, clock: LoopClock, rng: random.Random, until: float) -> None:
    """Controllers that are killed again and again, each time between two requests of its last moment."""
    while clock.monotonic() < until:
        controllers = Controllers(EmbeddedClient(server, user_agent="controllers"), clock=clock, rng=rng)
        async with background(controllers.run(), asyncio.sleep(0)):
            await asyncio.sleep(rng.uniform(1, 40))
    controllers = Controllers(EmbeddedClient(server, user_agent="controllers"), clock=clock, rng=rng)
    async with background(controllers.run(), asyncio.sleep(0)):
        await asyncio.sleep(10_000)


def job(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "work", "image": "registry.example/x:1"}
    template = {"nodeName": "node", "restartPolicy": "Never", "containers": [container]}
    common = {"podFailurePolicy": IGNORE, "podReplacementPolicy": "Failed", "template": {"spec": template}}
    return {"metadata": {"name": name}, "spec": {**common, **spec}}


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_job_ends_right_and_never_runs_two_pods(seed: int) -> None:
    """B128, JOB-4: a killed controller, a lost answer or a conflict neither loses, nor doubles, nor miscounts a pod."""
    clock, trouble = LoopClock(), Trouble(seed)
    server = ApiServer(
        clock=clock, rng=random.Random(seed), managed_fields=False, before=trouble.before, after=trouble.after
    )
    client = EmbeddedClient(server, user_agent="test")
    pods = Informer(client, POD, Pod, clock=clock)
    pods.store.add_index("job", lambda pod: (owner.name,) if (owner := controller_of(pod.metadata)) else ())
    crowds: list[str] = []

    def watch(_: Change[Pod]) -> None:
        for name in JOBS:
            live = [pod for pod in pods.store.by_index("job", name) if not pod.finished]
            if len(live) > 1:
                crowds.append(name)

    pods.store.subscribe(watch)
    rules = [parse_rule(rule) for rule in RULES]
    kubelets = Kubelets(
        client, nodes=["node"], rules=rules, timing=Timing(terminate_seconds=3.0), heartbeat_seconds=0, clock=clock
    )
    async with (
        background(pods.run(), pods.wait_synced()),
        background(kubelets.run(), kubelets.wait_ready()),
        background(lives(server, clock, random.Random(seed + 1000), 200.0), asyncio.sleep(0)),
    ):
        for name, spec in JOBS.items():
            await client.create(JOB, job(name, spec), namespace="default")
        await asyncio.sleep(900)
        assert len(trouble.hits) == 3, trouble.hits
        trouble.on = False
        await asyncio.sleep(900)
        writes = trouble.writes
        found = {one["metadata"]["name"]: one["status"] for one in await items(client, JOB)}
        assert {name: outcome(status) for name, status in found.items()} == OUTCOMES
        assert [status for status in found.values() if status["uncountedTerminatedPods"] or status["terminating"]] == []
        left = await items(client, POD)
        assert [pod["metadata"]["name"] for pod in left if pod["metadata"].get("finalizers")] == []
        assert crowds == []
        await client.delete(JOB, "flaky", namespace="default", propagation="Foreground")
        await client.delete(JOB, "bad", namespace="default", propagation="Background")
        await asyncio.sleep(60)
        names = {pod["metadata"]["labels"]["job-name"] for pod in await items(client, POD)}
        assert names.isdisjoint({"flaky", "bad"})
        assert len(await items(client, JOB)) == len(JOBS) - 2
        after_deletion = trouble.writes
        assert after_deletion > writes
        await asyncio.sleep(3600)
        assert trouble.writes == after_deletion, "idle means silent"


async def test_a_pod_that_may_not_be_created_is_told_and_tried_again() -> None:
    """JOB-15a, B112."""
    clock = LoopClock()
    refuse = True

    def before(request: ApiRequest) -> Fault | None:
        is_create = request.method == "POST" and request.path.endswith("/pods")
        return Fault(answer=refusal(403, "Forbidden")) if is_create and refuse else None

    server = ApiServer(clock=clock, rng=random.Random(0), before=before)
    client = EmbeddedClient(server, user_agent="test")
    controllers = Controllers(client, clock=clock)
    async with background(controllers.run(), controllers.wait_ready()):
        await client.create(JOB, job("good", {}), namespace="default")
        await asyncio.sleep(30)
        assert await items(client, POD) == []
        events = await items(client, EVENTS)
        assert [(one["type"], one["reason"], one["regarding"]["name"]) for one in events] == [
            ("Warning", "FailedCreate", "good")
        ]
        assert events[0]["note"].startswith("Error creating: ")
        refuse = False
        await asyncio.sleep(5)
        assert len(await items(client, POD)) == 1


async def items(client: EmbeddedClient, resource: Resource) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await client.list(resource))["items"]
    return found


def outcome(status: dict[str, Any]) -> tuple[str, int, int]:
    ended = [one["type"] for one in status.get("conditions", []) if one["type"] in ("Complete", "Failed")]
    return ended[0] if ended else "", status.get("succeeded", 0), status.get("failed", 0)
