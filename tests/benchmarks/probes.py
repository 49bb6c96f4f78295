"""What the kernel knows of processes and of this machine, read from /proc (Linux)."""

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_SERVERS = ("etcd", "kube-apiserver", "kube-controller-manager")


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process, ended ones included, in steps of 10 ms."""
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_rss_mib(pid: int) -> float:
    """The most memory the process ever had (VmHWM), in MiB."""
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no VmHWM: it has ended")


def busy_seconds() -> float:
    """CPU seconds this machine has spent on anything since it started, and those its host took from it."""
    user, nice, system, _idle, _io_wait, irq, soft_irq, stolen = (
        int(field) for field in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + soft_irq + stolen) / _TICKS


class Meter:
    """CPU seconds from now on: of some processes by name, and of everybody else on the machine."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._began = time.monotonic()
        self._busy = busy_seconds()
        self._before = {name: cpu_seconds(pid) for name, pid in self._pids.items()}

    def read(self) -> dict[str, float]:
        """By name, in seconds."""
        return {name: round(cpu_seconds(pid) - self._before[name], 2) for name, pid in self._pids.items()}

    def strangers(self, known: float) -> float:
        """How many cores were busy on average with what is not ours, beside `known` seconds of ours that are not in `read`."""
        ours = sum(self.read().values()) + known
        return max(0.0, busy_seconds() - self._busy - ours) / (time.monotonic() - self._began)


def servers_of(folder: Path) -> dict[str, int]:
    """The process ids of the control plane that lives in `folder`, by program."""
    found: dict[str, int] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has just ended
            continue
        program = Path(command[0]).name
        if program in _SERVERS and any(str(folder) in argument for argument in command):
            found[program] = int(entry.name)
    return found


def machine() -> str:
    """One line about where this runs: what a number without it would not mean anything."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in (_PROC / "cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = int((_PROC / "meminfo").read_text().split()[1]) / 1024**2
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores ({model}), {memory:.0f} GiB, Linux {platform.release()}, Python {platform.python_version()}, "
        f"load {load:.1f} before the first case"
    )
