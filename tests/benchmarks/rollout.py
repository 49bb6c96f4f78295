"""One rollout by the real operator on a fresh control plane: how long, at what cost, and how silent it is afterwards.

The operator is a process of its own with the settings of production (leader election, metrics over TLS, probes, log level info) under
its service account's token. Its requests are counted from the audit log, its CPU and memory from /proc.
"""

import asyncio
import time
from collections import Counter
from pathlib import Path

import msgspec

from controller_runtime.cache import Informer, ObjectMeta
from controller_runtime.testing.control_plane import ControlPlane
from controller_runtime.transport import Client, Resource, load_config
from nodewright.simulator.installation import NAMESPACE, SERVICE_ACCOUNT, install
from nodewright.simulator.processes import Processes
from tests.benchmarks import audit, probes
from tests.benchmarks.cases import HEARTBEAT_SECONDS, STEP_SECONDS, Case
from tests.benchmarks.operator_process import start_operator, wait_leading

USER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
NODEWRIGHTS = Resource(
    group="nodewright.nvidia.com", version="v1alpha1", plural="nodewrights", kind="NodeWright", namespaced=False
)
QUIET_SECONDS = 8.0
SETTLE_WITHIN = 120.0
"""What the operator still writes after `complete` (last events, marks) belongs to the rollout, not to the idle minute: that begins
when it wrote nothing but its lease for `QUIET_SECONDS`.
"""


class RolloutFailedError(RuntimeError):
    """The rollout did not complete, or not as it should have; the message says how far it came."""


class RolloutResult(msgspec.Struct, kw_only=True):
    """What one run took. Seconds, MiB, and requests by `verb resource`.

    `cpu_seconds` is the operator's from its start until `complete` and the settling after it; `start_cpu_seconds` of that was gone
    before the CR was applied. `late_writes` came after `complete` was published. `servers_cpu_seconds` is what the cluster's own
    processes took while the rollout ran, `all_cpu_seconds` with the operator's until then. `strangers` is how many cores other programs
    of this machine kept busy meanwhile.
    """

    wall_seconds: float
    cpu_seconds: float
    start_cpu_seconds: float
    idle_seconds: float
    idle_cpu_seconds: float
    peak_rss_mib: float
    requests: dict[str, int]
    idle_requests: dict[str, int]
    refused: dict[str, int]
    servers_cpu_seconds: dict[str, float]
    all_cpu_seconds: float
    strangers: float
    writes_per_node: float
    late_writes: dict[str, int]


def measure_rollout(case: Case, *, idle_seconds: float, profile: Path | None = None) -> RolloutResult:
    """Run one case. `profile`: the operator runs under cProfile and leaves its profile there; times mean little then.

    Raises:
        RolloutFailedError: see there; `ControlPlaneError` and `ProcessError` when something does not run.
    """
    with ControlPlane(audit=True, **case.kcm_limits()) as cluster, Processes() as processes:
        kubeconfig = install(cluster)
        timing = ["--step-seconds", str(STEP_SECONDS), "--heartbeat-seconds", str(HEARTBEAT_SECONDS)]
        kubelets = processes.start_kubelets(cluster.admin_kubeconfig, nodes=case.nodes, arguments=timing)
        operator = start_operator(processes, kubeconfig, profile=profile)
        wait_leading(cluster, processes, within=60.0)
        time.sleep(1.0)
        meter = probes.Meter({**probes.servers_of(cluster.folder), "kubelets": kubelets})
        start_cpu = probes.cpu_seconds(operator)
        wall = asyncio.run(_roll_out(case, cluster, processes))
        cpu_during, cpu_at_complete = meter.read(), probes.cpu_seconds(operator) - start_cpu
        strangers = meter.strangers(cpu_at_complete)
        late = _settle(cluster)
        idle_began, cpu = time.time(), probes.cpu_seconds(operator)
        time.sleep(idle_seconds)
        processes.check_running("operator", "kubelets")
        idle_cpu = probes.cpu_seconds(operator) - cpu
        idle_ended = time.time()
        peak = probes.peak_rss_mib(operator)
        requests = audit.requests_of(cluster.audit_log, USER)
        if profile is not None:
            processes.stop("operator")
    rollout = [one for one in requests if one.received < idle_began]
    idle = [one for one in requests if idle_began <= one.received < idle_ended]
    _check_jobs(case, rollout)
    return RolloutResult(
        wall_seconds=wall,
        cpu_seconds=cpu,
        start_cpu_seconds=start_cpu,
        idle_seconds=idle_seconds,
        idle_cpu_seconds=idle_cpu,
        peak_rss_mib=peak,
        requests=_sorted(audit.count(rollout)),
        idle_requests=_sorted(audit.count(idle)),
        refused=_sorted(Counter(f"{one.code} {one.verb} {one.resource}" for one in rollout if one.code >= 400)),
        servers_cpu_seconds=cpu_during,
        all_cpu_seconds=sum(cpu_during.values()) + cpu_at_complete,
        strangers=strangers,
        late_writes=_sorted(late),
        writes_per_node=sum(one.is_write for one in rollout) / case.nodes,
    )


class _Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    status: str = ""
    observed_generation: int = 0
    complete_nodes: str = ""
    conditions: tuple["_Condition", ...] = ()


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    message: str = ""


class _NodeWright(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta
    status: _Status = _Status()


def _settle(cluster: ControlPlane) -> Counter[str]:
    """Waits until the operator is quiet; which writes came after `complete`.

    Raises:
        RolloutFailedError: it is not quiet after `SETTLE_WITHIN` seconds.
    """
    began = quiet_since = time.time()
    seen = Counter[str]()
    while time.time() - quiet_since < QUIET_SECONDS:
        time.sleep(1.0)
        requests = audit.requests_of(cluster.audit_log, USER, since=began)
        writes = audit.count(one for one in requests if one.is_write and one.resource != "leases")
        if writes != seen:
            seen, quiet_since = writes, time.time()
        if time.time() - began > SETTLE_WITHIN:
            raise RolloutFailedError(f"the operator still writes {SETTLE_WITHIN:.0f} s after `complete`")
    return seen


async def _roll_out(case: Case, cluster: ControlPlane, processes: Processes) -> float:
    """Seconds from applying the CR until a watch shows its status complete."""
    complete = asyncio.Event()
    async with Client(await load_config(cluster.admin_kubeconfig), user_agent="nodewright-bench") as client:
        watch = Informer(client, NODEWRIGHTS, _NodeWright)

        def seen(_: object) -> None:
            found = watch.store.get("bench")
            if found is not None and found.status.status == "complete" and found.status.observed_generation:
                complete.set()

        watch.store.subscribe(seen)
        running = asyncio.create_task(watch.run(), name="watch")
        try:
            await watch.wait_synced()
            began = time.perf_counter()
            deadline = began + case.deadline_seconds
            await client.create(NODEWRIGHTS, case.manifest())
            while not complete.is_set():
                try:
                    async with asyncio.timeout(2.0):
                        await complete.wait()
                except TimeoutError:
                    await asyncio.to_thread(processes.check_running, "operator", "kubelets")
                    if time.perf_counter() > deadline:
                        found = watch.store.get("bench")
                        raise RolloutFailedError(
                            f"case {case.name}: not complete after {case.deadline_seconds:.0f} s: "
                            f"{found.status if found else 'no CR'}\n{processes.log_tail('operator')}"
                        ) from None
            return time.perf_counter() - began
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _check_jobs(case: Case, rollout: list[audit.Request]) -> None:
    """Every stage once: a rollout that left stages out, or ran them twice, was not the same work as its floor."""
    created = sum(one.verb == "create" and one.resource == "jobs" and one.code < 300 for one in rollout)
    if created != case.jobs:
        raise RolloutFailedError(f"case {case.name}: {created} Jobs were created, {case.jobs} are needed")


def _sorted(counted: Counter[str]) -> dict[str, int]:
    return dict(counted.most_common())
