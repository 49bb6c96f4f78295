"""``python -m nodewright.simulator.playground``: a cluster to play with, or a rollout to watch.

Starts a real control plane (or takes the cluster of ``--kubeconfig``), simulated nodes, and the operator under the token of its own
service account. Without more it prints how to reach the cluster and stays until Ctrl-C. With ``--demo`` it applies the sample, shows the
rollout until it is complete and ends with exit code 0; 1 with the reason when that does not happen in time or a process ends.
"""

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from controller_runtime.testing.control_plane import (
    BuildError,
    Cluster,
    ControlPlane,
    ControlPlaneError,
    ExistingCluster,
    KeeperError,
)
from nodewright.simulator.installation import DEPLOY, install
from nodewright.simulator.processes import ProcessError, Processes
from nodewright.simulator.rollout_view import RolloutView, summary
from nodewright.simulator.rules import parse_rule

SAMPLE: Final = DEPLOY / "samples" / "demo.yaml"
_POLL_SECONDS: Final = 0.5
_FAILURES: Final = (BuildError, ControlPlaneError, KeeperError, ProcessError, FileNotFoundError)


class RolloutError(RuntimeError):
    """The rollout did not complete; the message says how far it came."""


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line and runs; the process's exit code."""
    options = _parser().parse_args(arguments)
    console = Console(highlight=False)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.ExitStack() as stack:
            _run(options, console, stack)
    except KeyboardInterrupt:
        return 130 if options.demo else 0
    except (*_FAILURES, RolloutError) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    return 0


def _run(options: argparse.Namespace, console: Console, stack: contextlib.ExitStack) -> None:
    cluster = stack.enter_context(_cluster(options, console))
    operator_kubeconfig = install(cluster)
    processes = stack.enter_context(Processes())
    running = ["operator"]
    if options.nodes:
        console.print(f"Starting {options.nodes} simulated nodes and the operator …")
        step = ["--step-seconds", str(options.step_seconds)]
        rules = [argument for rule in options.rule for argument in ("--rule", rule)]
        processes.start_kubelets(cluster.admin_kubeconfig, nodes=options.nodes, arguments=[*step, *rules])
        running.append("kubelets")
    processes.start_operator(operator_kubeconfig, environment={"LOG_FORMAT": "console"})
    if options.demo:
        _watch_rollout(cluster, processes, running, console, within=options.within)
    else:
        _stay(cluster, processes, running, console)


def _cluster(options: argparse.Namespace, console: Console) -> ControlPlane | ExistingCluster:
    if options.kubeconfig is not None:
        return ExistingCluster(options.kubeconfig)
    console.print("Starting a control plane: etcd, kube-apiserver, kube-controller-manager …")
    # The default client limit, 20 requests a second, would be all there is to see.
    return ControlPlane(kcm_qps=200, kcm_burst=400, concurrent_job_syncs=20)


def _stay(cluster: Cluster, processes: Processes, running: list[str], console: Console) -> None:
    """Says how to reach the cluster, then waits for Ctrl-C."""
    lines = [
        "",
        "In another terminal:",
        "",
        f"  export KUBECONFIG={cluster.admin_kubeconfig}",
        f"  alias kubectl={cluster.kubectl_program}",
        f"  kubectl apply --server-side -f {SAMPLE}",
        "  kubectl get nodewrights --watch",
        f"  tail -f {processes.log('operator')}",
        "",
        "Ctrl-C ends all of it.",
    ]
    console.print("\n".join(lines), soft_wrap=True, markup=False)
    while True:
        processes.check_running(*running)
        time.sleep(1)


def _watch_rollout(
    cluster: Cluster, processes: Processes, running: list[str], console: Console, *, within: float
) -> None:
    """Applies the sample and shows its rollout until every node is complete. ``RolloutError`` after ``within`` seconds."""
    began = time.monotonic()
    cluster.apply(SAMPLE)
    console.print(f"Applied {SAMPLE.relative_to(DEPLOY.parent)}; watching its rollout …", markup=False)
    with RolloutView(console) as view:
        while True:
            demo = json.loads(cluster.kubectl("get", "nodewright", "demo", "--output=json"))
            view.show(demo)
            if _is_complete(demo):
                break
            processes.check_running(*running)
            if time.monotonic() - began > within:
                raise RolloutError(_how_far(demo, processes, within))
            time.sleep(_POLL_SECONDS)
    nodes = len(demo["status"]["nodeStatus"])
    console.print(f"The rollout is complete on {nodes} nodes after {time.monotonic() - began:.0f} s.", style="green")


def _is_complete(nodewright: Mapping[str, Any]) -> bool:
    status = nodewright.get("status", {})
    seen = status.get("observedGeneration") == nodewright["metadata"]["generation"]
    return seen and status.get("status") == "complete" and bool(status.get("nodeStatus"))


def _how_far(nodewright: Mapping[str, Any], processes: Processes, within: float) -> str:
    conditions = [
        f"  {item['type']}={item['status']} {item.get('reason', '')}: {item.get('message', '')}"
        for item in nodewright.get("status", {}).get("conditions", [])
    ]
    said = "\n".join(conditions) or "  none"
    return (
        f"The rollout is not complete after {within:.0f} s: {summary(nodewright)}.\nConditions:\n{said}\n"
        f"{processes.log_tail('operator')}"
    )


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes")
    return int(text)


def _file(text: str) -> Path:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return Path(text)


def _rule(text: str) -> str:
    """Checked before minutes go into a control plane; the kubelets read it again."""
    try:
        parse_rule(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nodewright.simulator.playground", description=__doc__)
    add = parser.add_argument
    add(
        "--demo", action="store_true", help="apply deploy/samples/demo.yaml, watch its rollout, end when it is complete"
    )
    add("--nodes", type=_count, default=20, help="simulated nodes (default 20; 0 with a cluster that has nodes)")
    add(
        "--kubeconfig",
        type=_file,
        help="of an administrator of another cluster (kind) to use instead of a new control plane",
    )
    add("--step-seconds", type=float, default=0.5, help="how long a simulated container runs (default 0.5)")
    add(
        "--rule", type=_rule, action="append", default=[], help="a behaviour rule of the simulated kubelets; repeatable"
    )
    add("--within", type=float, default=300.0, help="with --demo: seconds until it counts as failed (default 300)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
