"""The floor of a case: a fresh control plane, the same nodes, the same account, and the script that only creates the same Jobs."""

import time

import msgspec

from controller_runtime.testing.control_plane import ControlPlane
from nodewright.simulator.installation import install
from nodewright.simulator.processes import ProcessError, Processes
from tests.benchmarks import probes
from tests.benchmarks.cases import HEARTBEAT_SECONDS, STEP_SECONDS, Case
from tests.benchmarks.floor import FloorResult


class MeasuredFloor(msgspec.Struct, kw_only=True):
    """What the floor took, in seconds.

    The clock runs from its first Job to its last. `servers_cpu_seconds` and `all_cpu_seconds` begin before that, with the
    ConfigMaps, so that they are for the same work as a rollout's. `strangers` is how many cores other programs of this machine kept busy.
    """

    wall_seconds: float
    cpu_seconds: float
    servers_cpu_seconds: dict[str, float]
    all_cpu_seconds: float
    strangers: float


def measure_floor(case: Case) -> MeasuredFloor:
    """Run it. Raises ProcessError when it fails, or when a Job did."""
    with ControlPlane(audit=True, **case.kcm_limits()) as cluster, Processes() as processes:
        kubeconfig = install(cluster)
        timing = ["--step-seconds", str(STEP_SECONDS), "--heartbeat-seconds", str(HEARTBEAT_SECONDS)]
        kubelets = processes.start_kubelets(cluster.admin_kubeconfig, nodes=case.nodes, arguments=timing)
        time.sleep(1.0)
        meter = probes.Meter({**probes.servers_of(cluster.folder), "kubelets": kubelets})
        options = {
            "kubeconfig": kubeconfig, "nodes": case.nodes, "packages": case.packages, "timeout": case.deadline_seconds
        }  # fmt: skip
        arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        processes.start("floor", ["-m", "tests.benchmarks.floor", *arguments])
        deadline = time.monotonic() + case.deadline_seconds + 60.0
        while processes.exit_code("floor") is None:
            if time.monotonic() > deadline:
                raise ProcessError(f"the floor of case {case.name} does not end.\n{processes.log_tail('floor')}")
            time.sleep(0.1)
        cpu_during, strangers = meter.read(), meter.strangers(0.0)
        if processes.exit_code("floor") != 0:
            raise ProcessError(f"the floor of case {case.name} failed.\n{processes.log_tail('floor')}")
        result = msgspec.json.decode(processes.log("floor").read_bytes().splitlines()[-1], type=FloorResult)
    if result.failed or result.jobs != case.jobs:
        raise ProcessError(f"the floor of case {case.name}: {result.failed} of {result.jobs} Jobs failed")
    return MeasuredFloor(
        wall_seconds=result.wall_seconds,
        cpu_seconds=result.cpu_seconds,
        servers_cpu_seconds=cpu_during,
        all_cpu_seconds=sum(cpu_during.values()) + result.cpu_seconds,
        strangers=strangers,
    )
