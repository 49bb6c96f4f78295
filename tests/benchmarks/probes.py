"""What the kernel knows of processes and of this machine, read from /proc (Linux)."""

import os
import platform
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
