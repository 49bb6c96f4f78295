"""Starts a real etcd, kube-apiserver and kube-controller-manager on loopback, and ends them with their user.

Relies on ``build`` for the programs and on ``keeper`` so that no server outlives the process that started it. Test
fixtures, fault tests, the benchmark and the playground rely on it. What it runs is a cluster for tests: one etcd
member that does not sync to disk, TLS and RBAC as in a real cluster, no node, no scheduler. Nodes never turn NotReady
for want of heartbeats: leases and heartbeats are the simulator's choice.

Everything here is synchronous; call it from a thread when a loop must go on.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from controller_runtime.testing.control_plane.build import Programs, build_programs
from controller_runtime.testing.control_plane.cluster import Cluster, ControlPlaneError
from controller_runtime.testing.control_plane.commands import (
    AUDIT_POLICY,
    api_server_command,
    controller_manager_command,
    etcd_command,
)
from controller_runtime.testing.control_plane.credentials import (
    write_kubeconfig,
    write_service_account_keys,
    write_serving_certificate,
)
from controller_runtime.testing.control_plane.keeper import Keeper

_READY_WITHIN = 120.0
_API_SERVER = "kube-apiserver"
_CONTROLLER_MANAGER = "kube-controller-manager"


class ControlPlane(Cluster):
    """One real control plane. A context manager; ``start`` and ``stop`` do the same.

    ``programs``: built when not given. ``kcm_qps``, ``kcm_burst``: the controller-manager's client limit (its own
    defaults 20 and 30 are right for tests of behaviour and finish about three Jobs a second).
    ``concurrent_job_syncs``: its default is 5. ``audit``: write an audit log of level Metadata. ``keep_folder``:
    leave keys, logs and data behind for a look; ``folder`` says where.
    """

    def __init__(
        self,
        *,
        programs: Programs | None = None,
        kcm_qps: float | None = None,
        kcm_burst: int | None = None,
        concurrent_job_syncs: int | None = None,
        audit: bool = False,
        keep_folder: bool = False,
        api_server_flags: Sequence[str] = (),
        controller_manager_flags: Sequence[str] = (),
    ) -> None:
        self._programs = programs
        self._audit = audit
        self._keep_folder = keep_folder
        self._api_server_flags = tuple(api_server_flags)
        limits = {"kube-api-qps": kcm_qps, "kube-api-burst": kcm_burst, "concurrent-job-syncs": concurrent_job_syncs}
        self._controller_manager_flags = (
            *(f"--{flag}={value}" for flag, value in limits.items() if value is not None),
            *controller_manager_flags,
        )
        self._folder: Path | None = None
        self._keeper: Keeper | None = None
        self._reserved: list[socket.socket] = []
        self._etcd_url = ""
        self._token = ""
        self._opener = urllib.request.build_opener()
        self.server = ""
        """The API server's URL, ``https://127.0.0.1:PORT``; the same for the whole life, restarts included."""

    # --- life

    def start(self) -> Self:
        """Returns when the API server is ready and the controllers make service accounts.

        ``ControlPlaneError`` when that does not happen within two minutes.
        """
        if self._keeper is not None:
            raise ControlPlaneError("This control plane is running already.")
        programs = self._programs = self._programs or build_programs()
        folder = self._folder = Path(tempfile.mkdtemp(prefix="control-plane-"))
        try:
            self._keeper = Keeper(folder, remove_folder=not self._keep_folder)
            port, etcd_port, peer_port = (self._reserve_port() for _ in range(3))
            self.server = f"https://127.0.0.1:{port}"
            self._etcd_url = f"http://127.0.0.1:{etcd_port}"
            self._write_credentials(folder)
            peer_url = f"http://127.0.0.1:{peer_port}"
            self._launch("etcd", etcd_command(programs, folder, clients=self._etcd_url, peers=peer_url))
            self._launch(_API_SERVER, self._api_server_command())
            self._wait_ready()
            self._launch(
                _CONTROLLER_MANAGER, controller_manager_command(programs, folder, flags=self._controller_manager_flags)
            )
            self._wait(
                "the controller-manager to make service accounts",
                lambda: self.request("GET", "/api/v1/namespaces/default/serviceaccounts/default") is not None,
            )
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kills the servers, whose state is thrown away, and removes the folder. May be called twice."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()
        for reserved in self._reserved:
            reserved.close()
        self._reserved.clear()
        if self._folder is not None and not self._keep_folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # --- what a test uses

    @property
    def folder(self) -> Path:
        """Keys, logs, data: removed with the control plane unless ``keep_folder`` was set."""
        if self._folder is None:
            raise ControlPlaneError("This control plane was not started.")
        return self._folder

    @property
    def admin_kubeconfig(self) -> Path:
        """Of a cluster administrator, to arrange and to look; what is tested runs as a service account."""
        return self.folder / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path:
        """One JSON object a line for each answered request, of level Metadata; only with ``audit=True``."""
        if not self._audit:
            raise ControlPlaneError("This control plane was started without audit=True.")
        return self.folder / "audit.log"

    @property
    def log_files(self) -> Mapping[str, Path]:
        """The servers' own logs by name."""
        return {name: self.folder / f"{name}.log" for name in ("etcd", _API_SERVER, _CONTROLLER_MANAGER)}

    @property
    def etcd_url(self) -> str:
        """Where etcd answers, without credentials: for who looks below the API server."""
        return self._etcd_url

    @property
    def kubectl_program(self) -> Path:
        """The built one, of the API server's version."""
        return self._built().kubectl

    def request(self, method: str, path: str, body: object = None, *, timeout: float = 10.0) -> Any:
        """One request as the administrator: the decoded answer, None for 404.

        ``ControlPlaneError`` for every other refusal, ``OSError`` (``TimeoutError``, ``ConnectionRefusedError``) when
        there is no answer.
        """
        request = urllib.request.Request(
            f"{self.server}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                received = answer.read()
                is_json = answer.headers.get_content_type() == "application/json"
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return None
                text = error.read().decode(errors="replace")
            raise ControlPlaneError(f"{method} {path} answered {error.code}: {text}") from None
        except urllib.error.URLError as error:
            raise error.reason if isinstance(error.reason, OSError) else error from None
        return json.loads(received) if is_json else received.decode()

    # --- faults

    def pause_api_server(self) -> None:
        """Stops the API server in its tracks (SIGSTOP): connections stay open and nothing is answered."""
        self._running().signal(_API_SERVER, signal.SIGSTOP)

    def resume_api_server(self) -> None:
        """Lets a paused API server go on, with its old connections and watches."""
        self._running().signal(_API_SERVER, signal.SIGCONT)

    @contextlib.contextmanager
    def paused_api_server(self) -> Iterator[None]:
        """The API server does not answer within the block."""
        self.pause_api_server()
        try:
            yield
        finally:
            self.resume_api_server()

    def kill_api_server(self) -> None:
        """Ends the API server with SIGKILL: watches break, connections are refused until ``restart_api_server``."""
        self._running().kill(_API_SERVER)

    def restart_api_server(self) -> None:
        """Starts the API server again, after killing it if it runs: same port, same keys, same data.

        Returns when it is ready.         Its watch cache starts empty: a watch from a resourceVersion before the
        restart may be answered 410.
        """
        self.kill_api_server()
        self._launch(_API_SERVER, self._api_server_command())
        self._wait_ready()

    def compact_etcd(self) -> int:
        """Drops etcd's history up to now; gives the revision it was compacted at.

        Pages of a list begun earlier cannot be continued from etcd then. A running API server still serves watches
        from its own memory; compact, then ``restart_api_server``, to have watches from an old resourceVersion
        answered with 410.
        """
        key = base64.b64encode(b"/").decode()
        revision = int(self._etcd("range", {"key": key, "limit": 1})["header"]["revision"])
        self._etcd("compaction", {"revision": revision, "physical": True})
        return revision

    # --- below

    def _etcd(self, call: str, body: Mapping[str, object]) -> Any:
        request = urllib.request.Request(
            f"{self._etcd_url}/v3/kv/{call}", data=json.dumps(body).encode(), method="POST"
        )
        with self._opener.open(request, timeout=30) as answer:
            return json.loads(answer.read())

    def _reserve_port(self) -> int:
        """A free loopback port nobody else can get while this control plane lives.

        The socket stays bound here and never listens. The server binds beside it with SO_REUSEPORT, which the kernel
        grants to sockets of one user that all ask for it, and never to one that asks for any free port. So the port
        is neither lost between choosing and binding, nor while the server is down; connections are refused then.
        """
        reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._reserved.append(reserved)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        return int(reserved.getsockname()[1])

    def _write_credentials(self, folder: Path) -> None:
        write_serving_certificate(folder)
        write_service_account_keys(folder)
        self._token, controller_manager_token = secrets.token_hex(16), secrets.token_hex(16)
        (folder / "tokens.csv").write_text(
            f"{self._token},admin,admin,system:masters\n"
            f"{controller_manager_token},system:kube-controller-manager,system:kube-controller-manager\n",
            encoding="utf-8",
        )
        self._write_kubeconfig(self.admin_kubeconfig, user="admin", token=self._token)
        self._write_kubeconfig(
            folder / "controller-manager.kubeconfig", user="controller-manager", token=controller_manager_token
        )
        (folder / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY), encoding="utf-8")
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(folder / "ca.crt"))),
        )

    def _write_kubeconfig(self, path: Path, *, user: str, token: str) -> None:
        write_kubeconfig(path, server=self.server, authority=self.folder / "ca.crt", user=user, token=token)

    def _api_server_command(self) -> list[str]:
        return api_server_command(
            self._built(),
            self.folder,
            port=int(self.server.rpartition(":")[2]),
            etcd=self._etcd_url,
            audit_log=self.audit_log if self._audit else None,
            flags=self._api_server_flags,
        )

    def _launch(self, name: str, command: Sequence[str]) -> None:
        environment = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "TMPDIR"}}
        self._running().start(name, command, log=self.log_files[name], environment=environment)

    def _built(self) -> Programs:
        if self._programs is None:
            raise ControlPlaneError("This control plane was not started.")
        return self._programs

    def _running(self) -> Keeper:
        if self._keeper is None:
            raise ControlPlaneError("This control plane is not running.")
        return self._keeper

    def _wait_ready(self) -> None:
        self._wait("the API server to be ready", lambda: self.request("GET", "/readyz") == "ok")

    def _wait(self, what: str, ready: Callable[[], bool], *, within: float = _READY_WITHIN) -> None:
        """Polls until ``ready``; an answer that is an error or none at all counts as not yet."""
        deadline = time.monotonic() + within
        refusal = ""
        while time.monotonic() < deadline:
            try:
                if ready():
                    return
            except (ControlPlaneError, OSError) as error:
                refusal = f" Last answer: {error}"
            self._check_alive(what)
            time.sleep(0.05)
        raise ControlPlaneError(f"Waited {within:.0f} s for {what}.{refusal}\n{self._log_tails()}")

    def _check_alive(self, what: str) -> None:
        for name, path in self.log_files.items():
            if not path.exists():  # not started yet
                continue
            code = self._running().exit_code(name)
            if code is not None:
                raise ControlPlaneError(f"{name} ended with code {code} while waiting for {what}.\n{self._log_tails()}")

    def _log_tails(self, lines: int = 15) -> str:
        parts = []
        for name, path in self.log_files.items():
            if path.exists():
                tail = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
                parts.append("\n".join([f"--- {name}, last lines of its log", *tail]))
        return "\n".join(parts)
