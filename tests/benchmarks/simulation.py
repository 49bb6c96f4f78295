"""``python -m tests.benchmarks.simulation``: what `nodewright simulate` costs, by number of nodes.

Three packages, two of them in a chain, with a ConfigMap: six Jobs a node, ten percent of the nodes at once. Each run is a process of its
own. Target: 1,000 nodes in under a minute.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

JOBS_A_NODE = 6
TARGET_NODES, TARGET_SECONDS = 1000, 60.0
MANIFEST = """\
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: fleet
spec:
  nodeSelectors:
    matchLabels:
      pool: gpu
  interruptionBudget:
    percent: 10
  packages:
    tuning:
      version: 1.2.3
      image: ghcr.io/nvidia/skyhook-packages/tuning
      configMap:
        tuning.conf: vm.swappiness=1
    drivers:
      version: 2.0.0
      image: ghcr.io/nvidia/skyhook-packages/drivers
      dependsOn:
        tuning: 1.2.3
    agents:
      version: 0.9.1
      image: ghcr.io/nvidia/skyhook-packages/agents
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """One run: wall and CPU seconds, peak memory in MiB."""

    nodes: int
    wall: float
    cpu: float
    peak: float


def measure(manifest: Path, nodes: int) -> Cost:
    """Simulate so many nodes. Raises RuntimeError when the rollout did not end well."""
    command = [sys.executable, "-m", "nodewright", "simulate", str(manifest), "--nodes", str(nodes), "-o", "json"]
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(nodes, time.monotonic() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line and runs; 1 if the target was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.simulation", description=__doc__)
    parser.add_argument("--nodes", default="100,300,1000", help="numbers of nodes, separated by commas")
    options = parser.parse_args(arguments)
    table = Table("nodes", "Jobs", "wall s", "CPU s", "CPU ms a Job", "peak MiB", "target")
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "fleet.yaml"
        manifest.write_text(MANIFEST, encoding="utf-8")
        for nodes in map(int, options.nodes.split(",")):
            cost = measure(manifest, nodes)
            target = ""
            if nodes == TARGET_NODES:
                missed = cost.wall >= TARGET_SECONDS
                target = f"{TARGET_SECONDS:.0f} s: {'not reached' if missed else 'reached'}"
            jobs = nodes * JOBS_A_NODE
            row = (f"{cost.wall:.1f}", f"{cost.cpu:.1f}", f"{cost.cpu * 1000 / jobs:.1f}", f"{cost.peak:.0f}", target)
            table.add_row(str(nodes), str(jobs), *row)
    Console().print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
