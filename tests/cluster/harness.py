"""The stage on which the tests of behaviour play: one cluster, simulated kubelets in-process, one operator as a subprocess.

Each scenario (see ``scenario.py``) uses nodes and names of its own, so that many play at the same time on the same operator; those
that need it for themselves play last, one after another. The operator runs as in production, ``nodewright operator --kubeconfig FILE``
with leader election, under the token of its own service account. Of the cluster only ``Cluster`` is asked (kubectl as administrator,
a kubeconfig for it), so any backend that gives these can take the control plane's place; scenarios that need more (the audit log)
are skipped there.
"""

import asyncio
import concurrent.futures
import json
import socket
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from controller_runtime.testing.control_plane import Cluster, ControlPlane
from controller_runtime.transport import Client, load_config
from nodewright.simulator.embedded_process import EmbeddedProcess
from nodewright.simulator.kubelets import Kubelets, Timing
from nodewright.simulator.ledger import Ledger
from nodewright.simulator.processes import Processes
from nodewright.simulator.rules import Rule, parse_rule
from tests.cluster.observer import LEASE, NAMESPACE, Observer
from tests.cluster.scenario import Play, Scenario

AT_ONCE: Final = 10
"""So many scenarios play side by side: most of their time they wait for the Job controller."""
AGENT_IMAGE: Final = "ghcr.io/example/agent:7.1.0"
SETTINGS: Final[Mapping[str, str]] = {
    "AGENT_IMAGE": AGENT_IMAGE,
    "JOB_BACKOFF_LIMIT": "1",
    "JOB_TTL_FAILED": "1m",
    "LEADER_ELECT": "true",
    "METRICS_SECURE": "false",
    "ENABLE_WEBHOOKS": "false",
    "WEBHOOK_PORT": "0",
    "LOG_LEVEL": "debug",
}


def free_port() -> int:
    """A port of the loopback that was free a moment ago."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Stage:
    """Cluster, kubelets, observer and operator. Made and closed by the fixture; scenarios run on its own thread's loop."""

    def __init__(self, cluster: Cluster, operator_kubeconfig: Path, processes: Processes) -> None:
        self.cluster = cluster
        self.operator_kubeconfig = operator_kubeconfig
        self.processes = processes
        self.metrics_port, self.probe_port = free_port(), free_port()
        self._lock = threading.Lock()
        self._outcomes: dict[str, concurrent.futures.Future[None]] = {}
        self._rules: list[Rule] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stage", daemon=True)
        self._serving: list[asyncio.Task[Any]] = []
        self._playing: concurrent.futures.Future[None] | None = None
        self.client: Client
        self.kubelets: Kubelets
        self.observer: Observer

    # --- life ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the thread, the kubelets, the observer and the operator; returns when all are ready."""
        self._thread.start()
        self.call(self._open(), within=60)
        self.start_operator()

    def close(self) -> None:
        """End what ``open`` started; scenarios that still play are cancelled."""
        if self._playing is not None:
            self._playing.cancel()
        self.call(self._close(), within=60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _open(self) -> None:
        self.client = await Client(await load_config(self.cluster.admin_kubeconfig), user_agent="tests").__aenter__()
        self.kubelets = Kubelets(
            self.client,
            namespace=NAMESPACE,
            ledger=Ledger(),
            timing=Timing(step_seconds=0.1, look_seconds=0.2, speed=10.0, boot_seconds=5.0),
            heartbeat_seconds=5.0,
        )
        self.observer = Observer(self.client)
        self._serving = [
            asyncio.create_task(self.kubelets.run(), name="kubelets"),
            asyncio.create_task(self.observer.run(), name="observer"),
        ]
        await self.kubelets.wait_ready()
        await self.observer.wait_synced()

    async def _close(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self.client.__aexit__(None, None, None)
        await asyncio.sleep(0.3)  # TLS connections say goodbye

    def call(self, work: Coroutine[Any, Any, None], *, within: float) -> None:
        """Run a coroutine on the stage's loop and wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(within)

    # --- scenarios -----------------------------------------------------------------------------------------------

    def begin(self, plays: Sequence[Play]) -> None:
        """Start all scenarios of this run: those that share first, side by side, then the exclusive ones in order."""
        for play in plays:
            self._outcomes[play.name] = concurrent.futures.Future()
        self._playing = asyncio.run_coroutine_threadsafe(self._play_all(plays), self._loop)

    async def _play_all(self, plays: Sequence[Play]) -> None:
        gate = asyncio.Semaphore(AT_ONCE)

        async def share(play: Play) -> None:
            async with gate:
                await self._play(play)

        longest_first = sorted((play for play in plays if not play.exclusive), key=lambda play: -play.within)
        await asyncio.gather(*(share(play) for play in longest_first))
        for play in plays:
            if play.exclusive:
                await self._play(play)

    async def _play(self, play: Play) -> None:
        outcome = self._outcomes[play.name]
        scenario = Scenario(self, play.short_name)
        try:
            try:
                async with asyncio.timeout(play.within):
                    await play.body(scenario)
            finally:
                async with asyncio.timeout(60):
                    await scenario.clean_up()
        except (Exception, asyncio.CancelledError) as error:
            error.add_note(scenario.picture)
            outcome.set_exception(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            outcome.set_result(None)

    def wait_for(self, play: Play) -> None:
        """The outcome of a scenario: returns, or raises what it raised."""
        self._outcomes[play.name].result()

    # --- kubelets ------------------------------------------------------------------------------------------------

    def add_rules(self, *texts: str) -> None:
        """Behaviour of the kubelets, first match wins, newest first; without ``times``, whose count each change begins anew."""
        self._rules = [*(parse_rule(text) for text in texts), *self._rules]
        self.kubelets.set_rules(self._rules)

    def drop_rules(self, cr: str) -> None:
        """Take back all rules for that CR."""
        self._rules = [rule for rule in self._rules if rule.cr != cr]
        self.kubelets.set_rules(self._rules)

    # --- the operator --------------------------------------------------------------------------------------------

    def start_operator(self, name: str = "operator", **settings: str) -> None:
        """Start it (again) with the stage's settings, and wait until its ``/readyz`` says so."""
        ports = {"METRICS_PORT": f"127.0.0.1:{self.metrics_port}", "PROBE_PORT": f"127.0.0.1:{self.probe_port}"}
        environment = {**SETTINGS, **ports, **settings}
        with self._lock:
            self.processes.start_operator(self.operator_kubeconfig, name=name, environment=environment)
        if environment["PROBE_PORT"] != "0":
            self._wait_ready(name, int(environment["PROBE_PORT"].rpartition(":")[2]))

    def _wait_ready(self, name: str, port: int) -> None:
        deadline = time.monotonic() + 30
        while not _answers_ok(port, "/readyz"):
            with self._lock:
                self.processes.check_running(name)
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is not ready within 30 s\n{self.processes.log_tail(name, 40)}")
            time.sleep(0.1)

    def stop_operator(self, name: str = "operator") -> int:
        """SIGTERM; its exit code."""
        with self._lock:
            return self.processes.stop(name)

    def kill_operator(self, name: str = "operator") -> None:
        """SIGKILL."""
        with self._lock:
            self.processes.kill(name)

    async def hurry_takeover(self) -> None:
        """After a kill: take its lease away where time is saved so, on the embedded backend. Elsewhere the next one waits it out."""
        if isinstance(self.cluster, EmbeddedProcess):
            await self.client.delete(LEASE, "nodewright-operator", namespace=NAMESPACE)

    async def lease(self) -> dict[str, Any]:
        """The spec of the operator's lease."""
        read: dict[str, Any] = json.loads(
            await self.client.get(LEASE, "nodewright-operator", namespace=NAMESPACE, timeout=10.0)
        )
        spec: dict[str, Any] = read["spec"]
        return spec

    @property
    def audit_log(self) -> Path | None:
        """The API server's audit log, where the backend has one."""
        return self.cluster.audit_log if isinstance(self.cluster, ControlPlane) else None


def _answers_ok(port: int, path: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


@contextmanager
def open_stage(cluster: Cluster, operator_kubeconfig: Path, plays: Sequence[Play]) -> Iterator[Stage]:
    """A stage on which all ``plays`` are under way."""
    with Processes() as processes:
        stage = Stage(cluster, operator_kubeconfig, processes)
        stage.open()
        try:
            stage.begin(plays)
            yield stage
        finally:
            stage.close()
