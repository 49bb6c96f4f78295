"""The world a fault test breaks: a control plane of its own, simulated kubelets with a ledger, the operator as processes, and a journal.

The operator runs as in production, under its own service account, with the production settings but for the interface it listens on and
``JOB_BACKOFF_LIMIT`` (the Job controller waits 10 s before a first retry and doubles that). What is done by hand goes through here too,
so that the claims know which second run was asked for. Sizes come from the environment, for longer runs.
"""

import asyncio
import base64
import contextlib
import json
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

from controller_runtime.testing.control_plane import ControlPlane, Programs
from controller_runtime.transport import ApiError, Client, PatchType, Resource, TransportError, load_config
from nodewright.model.objects import Job, Pod
from nodewright.simulator.installation import NAMESPACE, SERVICE_ACCOUNT, install
from nodewright.simulator.kubelets import Kubelets, NodeTemplate, Timing
from nodewright.simulator.ledger import Ledger
from nodewright.simulator.processes import Processes
from nodewright.simulator.rules import parse_rule
from tests.faults import claims, ledger_claims
from tests.faults.audit_trail import Request, requests_of
from tests.faults.journal import JSON_STORAGE, Journal, Lease
from tests.faults.reading import KEY, Signals, claimed, spec, status

USER: Final = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
NODEWRIGHT: Final = Resource(KEY, "v1alpha1", "nodewrights", "NodeWright", namespaced=False)
NODE: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
POD: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
JOB: Final = Resource("batch", "v1", "jobs", "Job", namespaced=True)
CR: Final = "faults"
BACKOFF_LIMIT: Final = 1
PLANTED: Final = {"example.com/owner": "somebody else", "nodewright.nvidia.com.example/near": "not ours"}
COUNTER: Final = "example.com/counter"
SCALE: Final = float(os.environ.get("NODEWRIGHT_FAULTS_SCALE", "1"))
"""Multiplies the number of nodes and the time that faults go on."""
SEED: Final = int(os.environ.get("NODEWRIGHT_FAULTS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
"""Of everything random in this run; printed with each test, so that a failure can be had again."""
QUIET_SECONDS: Final = 3.0
READY_SECONDS: Final = 60.0
LEASE: Final = "nodewright-operator"
FREE: Final = frozenset({"leases", "events", "tokenreviews", "subjectaccessreviews"})
"""Writes that any replica may send at any time."""
NOTED_SECONDS: Final = 0.5
"""A request that was sent in time may be noted so much later on a busy machine."""


def scaled(nodes: int) -> int:
    """So many nodes, times the scale."""
    return max(4, round(nodes * SCALE))


def package(version: str = "1.0.0", **fields: Any) -> dict[str, Any]:
    """A package as in a spec."""
    return {"version": version, "image": "registry.example/packages/sample", **fields}


class World:
    """See the module. Made by `open_world`; all methods belong to the loop of the test."""

    def __init__(
        self, plane: ControlPlane, processes: Processes, client: Client, kubelets: Kubelets, journal: Journal
    ) -> None:
        self.plane = plane
        self.processes = processes
        self.client = client
        self.kubelets = kubelets
        self.journal = journal
        self.signals = Signals()
        self.random = random.Random(SEED)
        self.failing: claims.Expectation = lambda _node: set()
        self._kubeconfigs: dict[str, Path] = {}
        self._ports: dict[str, tuple[int, int]] = {}
        self._began = time.monotonic()

    # --- operator ------------------------------------------------------------------------------------------------

    async def start_operator(self, name: str = "operator-0", *, elect: bool = True, wait: bool = True) -> None:
        """Start a replica, again too: the same pod name, token and ports. `wait`: return when it says that it is ready.

        Without election a single replica works on at once after it was killed, instead of when its own old lease has run out.
        """
        if name not in self._kubeconfigs:
            self._kubeconfigs[name] = await asyncio.to_thread(
                self.plane.service_account_kubeconfig, NAMESPACE, SERVICE_ACCOUNT
            )
            self._ports[name] = (_free_port(), _free_port())
        metrics, probes = self._ports[name]
        environment = {
            "POD_NAME": name,
            "METRICS_PORT": f"127.0.0.1:{metrics}",
            "PROBE_PORT": f"127.0.0.1:{probes}",
            "JOB_BACKOFF_LIMIT": str(BACKOFF_LIMIT),
            "LEADER_ELECT": str(elect).lower(),
        }
        await asyncio.to_thread(
            self.processes.start_operator, self._kubeconfigs[name], name=name, environment=environment
        )
        deadline = time.monotonic() + READY_SECONDS
        while wait and not await _answers_ok(probes, "/readyz"):
            await asyncio.to_thread(self.processes.check_running, name)
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is not ready within {READY_SECONDS:.0f} s\n{self.describe()}")
            await asyncio.sleep(0.1)

    async def kill_operator(self, name: str = "operator-0") -> None:
        """SIGKILL."""
        await asyncio.to_thread(self.processes.kill, name)

    def leader(self) -> str:
        """The replica that holds the lease, "" when it is free."""
        return _replica(self.journal.now.leases.get(LEASE))

    async def until_led(self, *, by: str | None = None, within: float = 60.0) -> str:
        """Wait until a replica (that one) holds the lease; its name."""
        await self.until(
            lambda: self.leader() == by if by else self.leader(), f"{by or 'a replica'} leads", within=within
        )
        return self.leader()

    def requests(self) -> list[Request]:
        """All requests of the operator's user so far."""
        return requests_of(self.plane.audit_log, USER)

    def credential(self, name: str) -> str:
        """The ID of a replica's token, as the audit log has it."""
        users = json.loads(self._kubeconfigs[name].read_text(encoding="utf-8"))["users"]
        payload = users[0]["user"]["token"].split(".")[1]
        return "JTI=" + str(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["jti"])

    def work_of(self, name: str) -> list[Request]:
        """A replica's writes that need the lease: all but the lease itself, events, and reviews of who may read metrics."""
        mine = self.credential(name)
        return [r for r in self.requests() if r.credential == mine and r.is_write and r.resource not in FREE]

    def holders(self) -> list[tuple[float, str]]:
        """Who held the lease from when on; "" is nobody."""
        found: list[tuple[float, str]] = []
        for moment in self.journal.moments:
            if moment.kind == "Lease" and moment.name == LEASE:
                holder = _replica(moment.new)
                if not found or found[-1][1] != holder:
                    found.append((moment.time, holder))
        return found

    def check_fenced(self) -> None:
        """No replica wrote work while the lease was another's (trap 33): AssertionError with each such request."""
        holders, wrong = self.holders(), []
        for name in self._kubeconfigs:
            for request in self.work_of(name):
                then = [who for since, who in holders if since < request.received - NOTED_SECONDS][-1:]
                then += [who for since, who in holders if abs(request.received - since) <= NOTED_SECONDS]
                if then and name not in then and "" not in then:
                    wrong.append(f"{name} at {request.received:.3f}, when {then[-1]} led: {request}")
        assert not wrong, "\n".join(["", *wrong[:20], f"holders: {holders}"])

    # --- nodes and the NodeWright --------------------------------------------------------------------------------

    async def add_nodes(self, *names: str) -> None:
        """Nodes that are selected, with foreign annotations and a foreign taint that repels nothing of ours."""
        taints = [{"key": "example.com/prefer", "effect": "PreferNoSchedule"}]
        template = NodeTemplate(labels={"faults": "yes"}, annotations={**PLANTED, COUNTER: "0"}, taints=taints)
        for name in names:
            await self.kubelets.add_node(name, template)

    async def apply(self, packages: Mapping[str, Any], **fields: Any) -> None:
        """Create the NodeWright."""
        body = {
            "apiVersion": f"{KEY}/v1alpha1",
            "kind": "NodeWright",
            "metadata": {"name": CR},
            "spec": {"nodeSelectors": {"matchLabels": {"faults": "yes"}}, "packages": packages, **fields},
        }
        await self.client.create(NODEWRIGHT, body)

    async def edit(self, **fields: Any) -> None:
        """Merge into its spec."""
        await self.client.patch(NODEWRIGHT, CR, {"spec": fields}, PatchType.MERGE)

    def rules(self, *texts: str) -> None:
        """What containers do; first match wins."""
        self.kubelets.set_rules([parse_rule(text) for text in texts])

    async def delete_by_hand(self, thing: Job | Pod) -> None:
        """As `kubectl delete`: the claims are told first."""
        self.signals.deleted.add(thing.metadata.uid)
        resource = JOB if isinstance(thing, Job) else POD
        propagation: Literal["Background"] | None = "Background" if isinstance(thing, Job) else None
        with contextlib.suppress(ApiError, TransportError):
            await self.client.delete(
                resource, thing.metadata.name, namespace=NAMESPACE, uid=thing.metadata.uid, propagation=propagation
            )

    async def touch_nodes(self) -> None:
        """Another writer at work on nodes, until cancelled: what it writes must never be lost."""
        number = 0
        while True:
            nodes = list(self.journal.now.nodes)
            if nodes:
                number += 1
                name = self.random.choice(nodes)
                with contextlib.suppress(ApiError, TransportError):
                    await self.client.patch(
                        NODE, name, {"metadata": {"annotations": {COUNTER: str(number)}}}, PatchType.MERGE, timeout=2.0
                    )
            await asyncio.sleep(0.1)

    # --- waiting and judging ---------------------------------------------------------------------------------------

    async def until(self, true: Callable[[], object], what: str, *, within: float) -> None:
        """AssertionError with a picture after `within` seconds."""
        if not await self.journal.until(true, within=within):
            raise AssertionError(f"not within {within:.0f} s: {what}\n{self.describe()}")

    def completed_nodes(self) -> int:
        """Nodes whose Status is complete."""
        return sum(
            n.metadata.annotations.get(f"{KEY}/status_{CR}") == "complete" for n in self.journal.now.nodes.values()
        )

    async def until_settled(self, *, within: float) -> None:
        """Wait until the CR's Status for its generation is final and every node has its outcome."""

        def settled() -> bool:
            cr = self.journal.now.crs.get(CR)
            if cr is None:
                return False
            seen = status(cr)
            if seen.get("observedGeneration") != cr.metadata.generation or seen.get("status") not in (
                "complete",
                "erroring",
            ):
                return False
            try:
                claims.check_end(self.journal.now, CR, self.failing)
            except AssertionError:
                return False
            return True

        if not await self.journal.until(settled, within=within):
            detail = ""
            with contextlib.suppress(KeyError):
                try:
                    claims.check_end(self.journal.now, CR, self.failing)
                except AssertionError as error:
                    detail = str(error)
            raise AssertionError(f"not settled within {within:.0f} s:{detail}\n{self.describe()}")

    async def check(self, *, budget: bool = True, quiet: bool = True) -> None:
        """Hold every claim against everything recorded; and idle means silent (invariant 3)."""
        if quiet:
            await self._check_quiet()
        claims.check_end(self.journal.now, CR, self.failing)
        held = claims.BudgetHolds(CR)
        jobs = claims.JobsFollowState(CR)
        all_claims: list[claims.Claim] = [
            claims.StateGoesForward(CR, self.signals),
            jobs,
            claims.OrdersAreUnique(CR),
            claims.ForeignDataSurvives(PLANTED, COUNTER),
            claims.StatusIsTrue(CR),
            *([held] if budget else []),
        ]
        moments = self.journal.moments
        errors = []
        try:
            claims.replay(moments, all_claims)
        except AssertionError as error:
            errors.append(str(error))
        try:
            ran = ledger_claims.check_ledger(
                self.kubelets.ledger.entries, moments, CR, self.signals, backoff_limit=BACKOFF_LIMIT
            )
        except AssertionError as error:
            errors.append(str(error))
        if errors:
            raise AssertionError("\n".join([*errors, self.describe()]))
        print(
            f"seed {SEED}: {len(moments)} moments, {jobs.created} Jobs, at most {held.most} nodes under way, "
            f"steps {dict(ran)}, {time.monotonic() - self._began:.0f} s"
        )

    async def _check_quiet(self) -> None:
        """Once the last events are out, only the lease is written."""
        for _ in range(5):
            await asyncio.sleep(QUIET_SECONDS)
            since = time.time() - QUIET_SECONDS
            writes = [r for r in self.requests() if r.is_write and r.received > since and r.resource != "leases"]
            if not writes:
                return
        raise AssertionError(f"the operator goes on writing when nothing changes: {writes[:10]}")

    def describe(self) -> str:
        """A picture for a person: the CR, nodes without an outcome, open Jobs, the replicas' last lines."""
        now = self.journal.now
        lines = ["", f"--- seed {SEED}, {time.monotonic() - self._began:.0f} s"]
        cr = now.crs.get(CR)
        if cr is not None:
            shown = {
                k: v
                for k, v in status(cr).items()
                if k not in ("nodeState", "conditions", "nodeStatus", "nodePriority", "nodeOrder")
            }
            lines.append(f"generation {cr.metadata.generation} {json.dumps(shown)}")
            lines += [
                f"  {c['type']}={c['status']} {c['reason']}: {c['message']}" for c in status(cr).get("conditions", ())
            ]
            lines.append(f"  spec {json.dumps(spec(cr))}")
        for node in sorted(now.nodes.values(), key=lambda one: one.name):
            if node.metadata.annotations.get(f"{KEY}/status_{CR}") != "complete":
                ours = {k.partition("/")[2]: v for k, v in node.metadata.annotations.items() if k.startswith(f"{KEY}/")}
                lines.append(f"Node {node.name} {ours}")
        for job in now.jobs.values():
            if not job.finished or job.metadata.deletion_timestamp:
                claim = claimed(job)
                conditions = [c.type for c in job.status.conditions if c.status == "True"]
                lines.append(
                    f"Job {job.metadata.name} {claim.stage} of {claim.package} on {claim.node} run {claim.run} {conditions} "
                    f"active={job.status.active} failed={job.status.failed} going={job.metadata.deletion_timestamp}"
                )
        lines = lines[:80]
        lines += [self.processes.log_tail(name, 25) for name in self._kubeconfigs]
        return "\n".join(lines)


def _replica(lease: Lease | None) -> str:
    """The pod name in front of the holder's identity."""
    return str((lease.spec if lease else {}).get("holderIdentity") or "").partition("_")[0]


async def _answers_ok(port: int, path: str) -> bool:
    try:
        async with asyncio.timeout(2.0):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@asynccontextmanager
async def open_world(programs: Programs, nodes: Sequence[str]) -> AsyncIterator[World]:
    """A world with these nodes, kubelets and journal running, and no operator yet."""
    print(f"seed {SEED}")
    plane = ControlPlane(
        programs=programs,
        audit=True,
        kcm_qps=1000,
        kcm_burst=2000,
        concurrent_job_syncs=32,
        api_server_flags=(JSON_STORAGE,),
    )
    with Processes() as processes:
        await asyncio.to_thread(plane.start)
        try:
            await asyncio.to_thread(install, plane)
            async with Client(await load_config(plane.admin_kubeconfig), user_agent="fault-tests") as client:
                timing = Timing(step_seconds=0.2, look_seconds=0.2, speed=5.0)
                kubelets = Kubelets(client, namespace=NAMESPACE, ledger=Ledger(), timing=timing, heartbeat_seconds=10.0)
                journal = Journal(plane.etcd_url)
                world = World(plane, processes, client, kubelets, journal)
                async with _running(kubelets.run(), journal.run(), world.touch_nodes()):
                    await kubelets.wait_ready()
                    await world.add_nodes(*nodes)
                    yield world
        finally:
            await asyncio.to_thread(plane.stop)


@asynccontextmanager
async def _running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Side by side with the block; a failure of one of them fails the block at its end."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        ended = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()
