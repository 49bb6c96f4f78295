"""The embedded API server as a `Cluster` of the test suites: in a thread of its own, with a kubeconfig and kubectl.

Relies on `http` and on the control plane's `Cluster`; what runs against a real control plane runs against this.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from controller_runtime.testing.api_server.api import ApiServer
from controller_runtime.testing.api_server.http import HttpApiServer
from controller_runtime.testing.api_server.values import User
from controller_runtime.testing.control_plane.build import built_programs
from controller_runtime.testing.control_plane.cluster import Cluster, ControlPlaneError

_START_SECONDS = 30.0


class EmbeddedCluster(Cluster):
    """A context manager. The server is used by its thread only: ask it over HTTPS."""

    def __init__(self, server: ApiServer | None = None) -> None:
        self.server = server or ApiServer()
        self._folder = tempfile.TemporaryDirectory(prefix="embedded-cluster-")
        self._front = HttpApiServer(self.server, folder=Path(self._folder.name))
        self._thread = threading.Thread(target=self._run, name="embedded-cluster", daemon=True)
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None

    @property
    def folder(self) -> Path:
        """Removed at the end of the ``with`` block."""
        return Path(self._folder.name)

    @property
    def admin_kubeconfig(self) -> Path:
        """The administrator's."""
        return self._front.admin_kubeconfig

    @property
    def kubectl_program(self) -> Path:
        """The built one, else the one on the PATH."""
        built = built_programs()
        found = built.kubectl if built is not None else shutil.which("kubectl")
        if found is None:
            raise ControlPlaneError("There is no kubectl on the PATH and none was built.")
        return Path(found)

    @property
    def url(self) -> str:
        """Where it is served."""
        return self._front.url

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a token of that service account; there need be no such account, and there are no rights."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return self._front.kubeconfig(User(f"system:serviceaccount:{namespace}:{name}", groups=groups))

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(_START_SECONDS) or self._failure is not None:
            raise ControlPlaneError(f"The embedded API server did not start: {self._failure}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_START_SECONDS)
        self._folder.cleanup()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - told to whoever waits for the start
            self._failure = error
            self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._front:
            self._started.set()
            await self._stop.wait()
