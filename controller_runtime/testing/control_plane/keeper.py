"""A process of its own that starts a control plane's servers, and ends them when who asked for them is gone.

Run as a script with the standard library only; ``Keeper`` is the other side of its pipe, for the launcher. It exists
so that no server outlives a test run, whatever ends that run:

- The launcher's process ends in any way, ``kill -9`` included: the keeper sees the end of its pipe, or of the process
  itself where the kernel has pidfds (a fork of the launcher's process could hold the pipe open), kills the servers
  and removes the folder.
- The keeper itself is killed: the kernel kills the servers, by PR_SET_PDEATHSIG (Linux).

PR_SET_PDEATHSIG counts the death of the *thread* that forked, not of its process. A server started from a worker
thread of the test run would die with that thread. The keeper has one thread, so for its children thread and process
are the same; nor can setting it between fork and exec meet a lock that another thread held. That is why the launcher
never starts a server itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_ANSWER_WITHIN = 30.0


class KeeperError(RuntimeError):
    """The keeper could not do what was asked, or has ended."""


class Keeper:
    """The launcher's handle of a keeper process. Safe to use from several threads."""

    def __init__(self, folder: Path, *, remove_folder: bool) -> None:
        self._lock = threading.Lock()
        arguments = [str(os.getpid()), str(folder), "remove" if remove_folder else "keep"]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).resolve()), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is for the launcher's process; it decides the order
            cwd="/",
        )

    @property
    def pid(self) -> int:
        """The keeper's own process id."""
        return self._process.pid

    def start(self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> int:
        """Starts a server whose output is appended to ``log``; gives its process id.

        ``KeeperError`` if a server of that name is running.
        """
        answer = self._ask(order="start", name=name, command=list(command), log=str(log), environment=dict(environment))
        return int(answer["pid"])

    def signal(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to a server; nothing happens if it has ended."""
        self._ask(order="signal", name=name, number=int(number))

    def kill(self, name: str) -> None:
        """Kills a server, stopped or not, and returns when it is gone."""
        self._ask(order="kill", name=name)

    def exit_code(self, name: str) -> int | None:
        """How a server ended (negative: by that signal), None while it runs."""
        code: int | None = self._ask(order="exit_code", name=name)["exit_code"]
        return code

    def close(self) -> None:
        """Ends all servers and the keeper, and removes the folder if that was agreed. Returns when all are gone."""
        with self._lock, contextlib.ExitStack() as stack:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None and not stream.closed:
                    stack.callback(stream.close)
            stack.callback(self._process.wait)
            if self._process.stdin is not None and not self._process.stdin.closed:
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()

    def _ask(self, **order: object) -> dict[str, Any]:
        with self._lock:
            stdin, stdout = self._process.stdin, self._process.stdout
            if stdin is None or stdout is None or stdin.closed:
                raise KeeperError("The keeper of the control plane's servers was closed.")
            try:
                stdin.write(json.dumps(order).encode() + b"\n")
                stdin.flush()
            except BrokenPipeError:
                raise KeeperError("The keeper of the control plane's servers has ended, and they with it.") from None
            ready, _, _ = select.select([stdout], [], [], _ANSWER_WITHIN)
            line = stdout.readline() if ready else b""
        if not line:
            raise KeeperError("The keeper of the control plane's servers does not answer.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise KeeperError(answer["error"])
        return answer


class _Servers:
    """Inside the keeper: the children by name."""

    def __init__(self) -> None:
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._end_with_me = _death_signal()

    def obey(self, order: Mapping[str, Any]) -> dict[str, Any]:
        name = order["name"]
        match order["order"]:
            case "start":
                return {"pid": self._start(name, order["command"], order["log"], order["environment"])}
            case "signal":
                self._children[name].send_signal(order["number"])  # does nothing to a child that was reaped
            case "kill":
                self._children[name].kill()
                self._children[name].wait()
            case "exit_code":
                return {"exit_code": self._children[name].poll()}
            case unknown:
                raise ValueError(f"unknown order {unknown}")
        return {}

    def _start(self, name: str, command: Sequence[str], log: str, environment: Mapping[str, str]) -> int:
        running = self._children.get(name)
        if running is not None and running.poll() is None:
            raise ValueError(f"{name} is running")
        with Path(log).open("ab") as output:
            child = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                preexec_fn=self._end_with_me,  # safe: this process has one thread
            )
        self._children[name] = child
        return child.pid

    def kill_all(self) -> None:
        for child in self._children.values():
            child.kill()
        for child in self._children.values():
            child.wait()


def _death_signal() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    keeper = os.getpid()

    def end_with_keeper() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != keeper:  # it died before the line above
            os._exit(1)

    return end_with_keeper


def _serve(launcher: int, servers: _Servers) -> None:
    """Obeys one order a line from standard input until that ends or the process ``launcher`` does."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            poll.register(os.pidfd_open(launcher), select.POLLIN)
    if os.getppid() != launcher:  # it ended before the lines above
        return
    pending = b""
    while True:
        ready = {number for number, _ in poll.poll()}
        if ready - {0}:
            return
        received = os.read(0, 65536)
        if not received:
            return
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            try:
                answer = servers.obey(json.loads(line))
            except (OSError, ValueError, KeyError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            os.write(1, json.dumps(answer).encode() + b"\n")


def _main(launcher: int, folder: Path, *, remove_folder: bool) -> None:
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    servers = _Servers()
    try:
        with contextlib.suppress(BrokenPipeError):
            _serve(launcher, servers)
    finally:
        servers.kill_all()
        if remove_folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), Path(sys.argv[2]), remove_folder=sys.argv[3] == "remove")
