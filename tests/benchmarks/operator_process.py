"""Starts the operator as it runs in production, only on loopback, and if asked under a profiler."""

import socket
import time
from pathlib import Path

from controller_runtime.testing.control_plane import ControlPlane
from nodewright.simulator.installation import NAMESPACE
from nodewright.simulator.processes import AGENT_IMAGE, ProcessError, Processes

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/nodewright-operator"


def start_operator(processes: Processes, kubeconfig: Path, *, profile: Path | None) -> int:
    """Starts it; gives its process id and does not wait. Nothing is changed of its defaults but for the interface it listens on."""
    ports = _free_ports(2)
    environment = {
        "METRICS_PORT": f"127.0.0.1:{ports[0]}",
        "METRICS_SECURE": "true",
        "PROBE_PORT": f"127.0.0.1:{ports[1]}",
        "WEBHOOK_PORT": "0",
        "ENABLE_WEBHOOKS": "false",
        "LOG_LEVEL": "info",
    }
    if profile is None:
        return processes.start_operator(kubeconfig, environment=environment)
    command = ["-m", "cProfile", "-o", str(profile), "-m", "nodewright.operator", "--kubeconfig", str(kubeconfig)]
    return processes.start("operator", command, environment={"AGENT_IMAGE": AGENT_IMAGE, **environment})


def wait_leading(cluster: ControlPlane, processes: Processes, *, within: float) -> None:
    """Waits until the operator holds its lease. Raises ProcessError when it ends or does not get it in time."""
    deadline = time.monotonic() + within
    while True:
        lease = cluster.request("GET", LEASE)
        if lease is not None and lease["spec"].get("holderIdentity"):
            return
        processes.check_running("operator")
        if time.monotonic() > deadline:
            raise ProcessError(f"the operator does not lead after {within:.0f} s.\n{processes.log_tail('operator')}")
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
