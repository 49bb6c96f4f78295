"""The operator and the simulated kubelets as processes beside a cluster, each with a log, none of which outlives its user.

Relies on the control plane's ``Keeper`` for that. The playground, the demonstration, fault tests and the benchmark rely on it: they
start, kill, pause and stop an operator as an administrator or a node failure would. Synchronous.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from controller_runtime.testing.control_plane import Keeper

AGENT_IMAGE: Final = "ghcr.io/nvidia/nodewright/agent:6.4.2"
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_NO_PORTS: Final = {"METRICS_PORT": "0", "PROBE_PORT": "0", "WEBHOOK_PORT": "0", "ENABLE_WEBHOOKS": "false"}


class ProcessError(RuntimeError):
    """A process ended or did not become ready; the message ends with the tail of its log."""


class Processes:
    """Processes by name. A context manager: at its end they get SIGTERM in reverse order of start, then SIGKILL."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nodewright-processes-"))
        self._keeper = Keeper(self._folder, remove_folder=True)
        self._names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            for name in reversed(self._names):
                self.stop(name)
        finally:
            self._keeper.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def start_operator(
        self, kubeconfig: Path, *, name: str = "operator", environment: Mapping[str, str] | None = None
    ) -> int:
        """Starts ``nodewright operator`` under ``kubeconfig``; gives its process id and does not wait.

        It gets the defaults of production but for servers: ports and webhooks are off, ``AGENT_IMAGE`` is set. ``environment`` adds
        to that and wins. The same name again starts it again, if it has ended, with the log continued.
        """
        settings = {"AGENT_IMAGE": AGENT_IMAGE, **_NO_PORTS, **(environment or {})}
        return self.start(name, ["-m", "nodewright", "operator", "--kubeconfig", str(kubeconfig)], environment=settings)

    def start_kubelets(
        self,
        kubeconfig: Path,
        *,
        nodes: int,
        arguments: Sequence[str] = (),
        name: str = "kubelets",
        within: float = 120.0,
    ) -> int:
        """Starts simulated kubelets for ``nodes`` nodes and waits until all nodes exist; gives the process id.

        ``arguments`` are more of ``python -m nodewright.simulator.kubelets``. ``ProcessError`` after ``within`` seconds.
        """
        command = [
            "-m",
            "nodewright.simulator.kubelets",
            "--kubeconfig",
            str(kubeconfig),
            "--nodes",
            str(nodes),
            *arguments,
        ]
        began = self.log(name).stat().st_size if self.log(name).exists() else 0
        pid = self.start(name, command)
        deadline = time.monotonic() + within
        while b"ready" not in self.log(name).read_bytes()[began:].split():
            self.check_running(name)
            if time.monotonic() > deadline:
                raise ProcessError(f"{name}: not ready within {within:.0f} s.\n{self.log_tail(name)}")
            time.sleep(0.05)
        return pid

    def start(self, name: str, arguments: Sequence[str], *, environment: Mapping[str, str] | None = None) -> int:
        """Starts this Python with ``arguments`` and ``environment`` added to ours; gives its process id."""
        inherited = {**os.environ, "PYTHONPATH": str(_CHECKOUT), "PYTHONUNBUFFERED": "1"}
        pid = self._keeper.start(
            name, [sys.executable, *arguments], log=self.log(name), environment={**inherited, **(environment or {})}
        )
        if name not in self._names:
            self._names.append(name)
        return pid

    def log(self, name: str) -> Path:
        """Standard output and error of that process, all its lives appended. Removed with the processes."""
        return self._folder / f"{name}.log"

    def log_tail(self, name: str, lines: int = 20) -> str:
        """The last lines of its log."""
        text = self.log(name).read_text(encoding="utf-8", errors="replace")
        return "\n".join([f"--- {name}, last lines of its log", *text.splitlines()[-lines:]])

    def exit_code(self, name: str) -> int | None:
        """How it ended (negative: by that signal), None while it runs."""
        return self._keeper.exit_code(name)

    def check_running(self, *names: str) -> None:
        """Raises ``ProcessError`` for the first of ``names`` that has ended."""
        for name in names:
            code = self.exit_code(name)
            if code is not None:
                raise ProcessError(f"{name} ended with code {code}.\n{self.log_tail(name)}")

    def kill(self, name: str) -> None:
        """Ends it with SIGKILL and returns when it is gone."""
        self._keeper.kill(name)

    def pause(self, name: str) -> None:
        """Stops it in its tracks with SIGSTOP."""
        self._keeper.signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Lets a paused one go on."""
        self._keeper.signal(name, signal.SIGCONT)

    def stop(self, name: str, *, within: float = 30.0) -> int:
        """Ends it with SIGTERM, after ``within`` seconds with SIGKILL; gives its exit code. Of one that ended: how it did."""
        self._keeper.signal(name, signal.SIGTERM)
        self._keeper.signal(name, signal.SIGCONT)  # a paused one would never see the first
        deadline = time.monotonic() + within
        while (code := self.exit_code(name)) is None:
            if time.monotonic() > deadline:
                self.kill(name)
            time.sleep(0.02)
        return code
