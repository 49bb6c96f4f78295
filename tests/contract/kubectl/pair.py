"""kubectl against two clusters at once, and what it said made comparable: names of moments, versions and luck are taken out.

The real cluster is the run's control plane, the embedded one a process of its own; both have the same simulated nodes.
"""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_runtime.testing.control_plane import Cluster

SECONDS: Final = 90
_SHELL: Final = re.compile(r"(^|[ ;|&])kubectl ")
_LOG: Final = re.compile(r"[IWE]\d{4} .* reflector\.go:")
"""What kubectl's watches say to themselves of having been short, or ended by their own deadline."""
_SUBSTITUTES: Final = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"\b[0-9a-f]{32}\B", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"(resource ?version\W+)\d+", r"\1VERSION"),
    (r"(?<![\w.-])(\d+m)?\d+s(?![\w.-])", "AGE"),
    (r"(?<=job-)[a-z0-9]{5}\b", "XXXXX"),
    (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-XXXXX"),
    (r"(LIVE|MERGED)-\d+", r"\1"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
    (r"kubectl-edit-\d+", "kubectl-edit-FILE"),
    (r"[ \t]+", " "),
)


@dataclass(frozen=True)
class Said:
    """How one call ended."""

    code: int
    out: str
    err: str

    def lines(self) -> list[str]:
        """Comparable; errors sorted, since a real server finds several in an order of luck."""
        return [f"exit code {self.code}", *_plain(self.out), "--- standard error", *sorted(_plain(self.err))]


def _plain(text: str) -> list[str]:
    for pattern, substitute in _SUBSTITUTES:
        text = re.sub(pattern, substitute, text, flags=re.IGNORECASE if "version" in pattern else 0)
    return [line.rstrip() for line in text.splitlines() if not _LOG.match(line)]


class Pair:
    """Two clusters."""

    def __init__(self, real: Cluster, embedded: Cluster) -> None:
        self._clusters = (real, embedded)
        self._threads = ThreadPoolExecutor(2)
        for cluster in self._clusters:
            _write_kubectl(cluster)

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown()

    def run(self, line: str, folder: Path, namespace: str) -> tuple[Said, Said]:
        """One line of shell with the word `kubectl` in it, or the arguments of kubectl alone."""
        real, embedded = self._threads.map(lambda cluster: _run(cluster, line, folder, namespace), self._clusters)
        return real, embedded


def _programs(cluster: Cluster) -> Path:
    return cluster.folder / "kubectl-of-scripts"


def _write_kubectl(cluster: Cluster) -> None:
    """A program that a line of shell finds by its name alone, and ends by its process id."""
    _programs(cluster).mkdir()
    path = _programs(cluster) / "kubectl"
    flags = f"--kubeconfig={cluster.admin_kubeconfig} --cache-dir={cluster.folder / 'cache'}"
    path.write_text(f'#!/bin/sh\nexec {cluster.kubectl_program} {flags} "--namespace=$NS" "$@"\n', encoding="utf-8")
    path.chmod(0o700)


def _run(cluster: Cluster, line: str, folder: Path, namespace: str) -> Said:
    path = f"{_programs(cluster)}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "KUBECTL_KUBERC": "false", "NS": namespace, "PATH": path}
    command = line if _SHELL.search(line) else f"kubectl {line}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)
