"""Builds the programs of a real control plane from Go modules, once, into a cache outside the repository.

Relies on Go and on the ``go.mod`` and ``go.sum`` files beside this module, which pin every version and every hash.
The launcher and the test fixtures rely on it. Nothing else is built than what a test needs: no scheduler and no
kubelet, since the simulator stands in for both.

Two processes that ask at once build once: the second waits for the lock. A build that was cut off leaves nothing that
would be taken for a finished one, since the folder gets its final name last.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_HERE = Path(__file__).parent
_KUBERNETES_COMMANDS = ("kube-apiserver", "kube-controller-manager", "kubectl")
_VERSION_PACKAGE = "k8s.io/component-base/version"
_SECONDS_BETWEEN_LINES = 30.0
_USUAL_GO = Path("/usr/local/go/bin/go")


class BuildError(RuntimeError):
    """A program did not build; the message ends with the last lines of Go's output."""


class GoMissingError(BuildError):
    """Nothing is in the cache and there is no Go to build with; the message is one line that says how to get it."""


@dataclass(frozen=True, slots=True)
class Programs:
    """A folder with the built programs."""

    folder: Path

    @property
    def etcd(self) -> Path:
        """The database."""
        return self.folder / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        """The API server."""
        return self.folder / "kube-apiserver"

    @property
    def kube_controller_manager(self) -> Path:
        """The controllers of Jobs, service accounts, garbage collection and the like."""
        return self.folder / "kube-controller-manager"

    @property
    def kubectl(self) -> Path:
        """The command-line client, of the API server's version."""
        return self.folder / "kubectl"


def etcd_version() -> str:
    """The pinned version of etcd, such as ``3.6.16``."""
    return _pinned("etcd", "go.etcd.io/etcd/server/v3")


def kubernetes_version() -> str:
    """The pinned version of Kubernetes, such as ``1.36.3``."""
    return _pinned("kubernetes", "k8s.io/kubernetes")


def cache_folder() -> Path:
    """Where the programs of exactly these versions are or will be.

    ``$NODEWRIGHT_CACHE``, else ``$XDG_CACHE_HOME/nodewright``, else ``~/.cache/nodewright``, and below it one folder
    per set of pinned modules, flags and platform. It may be deleted at any time.
    """
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodewright"
    root = Path(os.environ.get("NODEWRIGHT_CACHE") or default)
    return root / "control-plane" / _fingerprint()


def built_programs() -> Programs | None:
    """The programs if an earlier build left them in the cache; never builds."""
    folder = cache_folder()
    return Programs(folder) if folder.is_dir() else None


def check_buildable() -> None:
    """Raises ``GoMissingError`` if ``build_programs`` would: nothing is in the cache and there is no Go."""
    if built_programs() is None:
        _find_go()


def build_programs(*, progress: IO[str] | None = None) -> Programs:
    """The programs, built if the cache does not have them.

    That takes about five minutes on two cores with cold Go caches, seconds with warm ones. ``progress`` (standard
    error by default) gets one line that is rewritten on a terminal and repeated every 30 seconds elsewhere. Raises
    ``GoMissingError`` when there is something to build and no Go, ``BuildError`` when Go fails.
    """
    found = built_programs()
    if found is not None:
        return found
    go = _find_go()
    line = _ProgressLine(progress if progress is not None else sys.stderr)
    folder = cache_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / f"{folder.name}.lock", line):
        if not folder.is_dir():  # else the other process built it while this one waited
            _build_into(folder, go, line)
    return Programs(folder)


def _build_into(folder: Path, go: str, line: _ProgressLine) -> None:
    for stale in folder.parent.glob(f"{folder.name}.partial-*"):  # of a build that was killed; the lock is ours
        shutil.rmtree(stale, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent))
    try:
        _go_build(go, "etcd", [], ["go.etcd.io/etcd/server/v3"], partial / "etcd", line, f"etcd {etcd_version()}")
        _go_build(
            go,
            "kubernetes",
            ["-ldflags", _version_flags()],
            [f"k8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES_COMMANDS],
            f"{partial}{os.sep}",
            line,
            f"Kubernetes {kubernetes_version()}",
        )
        partial.chmod(0o755)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _go_build(
    go: str,
    module: str,
    flags: Sequence[str],
    packages: Sequence[str],
    out: Path | str,
    line: _ProgressLine,
    title: str,
) -> None:
    command = [go, "build", "-mod=readonly", "-buildvcs=false", "-trimpath", *flags, "-o", str(out), *packages]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(
            command, cwd=_HERE / module, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            line.follow(process, f"building {title} with Go, once for this machine")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if process.returncode != 0:
            log.seek(0)
            tail = "".join(log.readlines()[-30:])
            raise BuildError(f"{title} did not build: go ended with code {process.returncode}.\n{tail}")


def _version_flags() -> str:
    version = kubernetes_version()
    major, minor, _ = version.split(".", 2)
    values = {
        "gitVersion": f"v{version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "0" * 40,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    # Without the stamp the server calls itself v0.0.0 and kubectl finds itself too new for it.
    return " ".join(["-s -w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in values.items())])


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for module in ("etcd", "kubernetes"):
        for name in ("go.mod", "go.sum"):
            digest.update((_HERE / module / name).read_bytes())
    digest.update(_version_flags().encode())
    digest.update(" ".join(_KUBERNETES_COMMANDS).encode())
    digest.update(f"{platform.system()} {platform.machine()}".encode())
    return f"etcd-{etcd_version()}-kubernetes-{kubernetes_version()}-{digest.hexdigest()[:12]}"


def _pinned(module: str, dependency: str) -> str:
    text = (_HERE / module / "go.mod").read_text(encoding="utf-8")
    match = re.search(rf"^\s*{re.escape(dependency)} v(\S+)", text, re.MULTILINE)
    if match is None:
        raise BuildError(f"{module}/go.mod does not pin {dependency}.")
    return match[1]


def _find_go() -> str:
    found = shutil.which("go") or (str(_USUAL_GO) if _USUAL_GO.exists() else None)
    if found is None:
        raise GoMissingError(
            "No Go on the PATH to build the control plane with; install Go 1.26 or later: https://go.dev/dl"
        )
    return found


@contextlib.contextmanager
def _locked(path: Path, line: _ProgressLine) -> Iterator[None]:
    """Holds an exclusive lock on the file at ``path``; the kernel drops it when the process ends, however it ends."""
    with path.open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            line.say("another process is building the programs, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _ProgressLine:
    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._terminal = stream.isatty()

    def say(self, text: str) -> None:
        self._stream.write(f"control plane: {text}\n")
        self._stream.flush()

    def follow(self, process: subprocess.Popen[bytes], text: str) -> None:
        """Waits for ``process`` and shows for how many seconds it has been running."""
        began = time.monotonic()
        interval = 1.0 if self._terminal else _SECONDS_BETWEEN_LINES
        self._show(text, 0.0)
        while True:
            try:
                process.wait(timeout=interval)
            except subprocess.TimeoutExpired:
                self._show(text, time.monotonic() - began)
                continue
            break
        if self._terminal:
            self._stream.write("\n")
            self._stream.flush()

    def _show(self, text: str, seconds: float) -> None:
        start, end = ("\r", "") if self._terminal else ("", "\n")
        self._stream.write(f"{start}control plane: {text} … {seconds:.0f} s{end}")
        self._stream.flush()
