"""The embedded API server with its controllers in a process of its own, as a `Cluster`: what runs on a control plane runs on this.

Relies on `embedded_server` for the process and on the transport for manifests and tokens, so that neither Go nor `kubectl` is needed.
The tests of behaviour rely on it.
"""

import asyncio
import base64
import json
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from controller_runtime.testing.control_plane import Cluster, ControlPlaneError, built_programs
from controller_runtime.transport import ApiError, Client, ClientConfig, PatchType, Resource, TransportError
from nodewright.simulator.processes import Processes

_NAME: Final = "embedded-server"
_START_SECONDS: Final = 30.0
_TOKEN_SECONDS: Final = 7 * 24 * 3600
_SERVICE_ACCOUNT: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)


class EmbeddedProcess(Cluster):
    """A context manager; the process ends with its block, or with this process. `speed` as of `embedded_server`."""

    def __init__(self, *, speed: float = 1.0) -> None:
        self._speed = speed
        self._processes = Processes()
        self._folder = self._processes.log(_NAME).parent / "cluster"

    @property
    def folder(self) -> Path:
        """Removed at the end of the ``with`` block."""
        return self._folder

    @property
    def admin_kubeconfig(self) -> Path:
        """The administrator's."""
        return self._folder / "admin.kubeconfig"

    @property
    def kubectl_program(self) -> Path:
        """The built one, else the one on the PATH."""
        found = kubectl_or_none()
        if found is None:
            raise ControlPlaneError("There is no kubectl on the PATH and none was built.")
        return found

    def apply(self, path: Path | str, *, timeout: float = 60.0) -> None:
        """Applies a file, a folder of files or a kustomization of nothing but resources, in the order they are listed.

        ``ControlPlaneError`` with what the server refused.
        """

        async def apply(client: Client) -> None:
            for body in manifests(Path(path)):
                await _apply(client, body)

        self._ask(apply, timeout)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a token of that service account. It says who asks; there are no rights to have."""
        body = {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
        answers: list[bytes] = []

        async def ask(client: Client) -> None:
            answers.append(await client.create_subresource(_SERVICE_ACCOUNT, name, "token", body, namespace=namespace))

        self._ask(ask, 30.0)
        config = json.loads(self.admin_kubeconfig.read_text(encoding="utf-8"))
        config["users"] = [{"name": name, "user": {"token": json.loads(answers[0])["status"]["token"]}}]
        config["contexts"][0]["context"] |= {"user": name, "namespace": namespace}
        path = self._folder / f"{namespace}-{name}-{secrets.token_hex(4)}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=1), encoding="utf-8")
        return path

    def check_running(self) -> None:
        """Raises ``ProcessError`` with the end of its log when the process has ended."""
        self._processes.check_running(_NAME)

    def _ask(self, work: Callable[[Client], Awaitable[None]], timeout: float) -> None:
        """In a loop of its own: not to be called where one runs."""

        async def ask() -> None:
            async with asyncio.timeout(timeout), Client(self._config(), user_agent="embedded-process") as client:
                await work(client)
            await asyncio.sleep(0.1)  # TLS connections say goodbye

        try:
            asyncio.run(ask())
        except (ApiError, TransportError, TimeoutError) as error:
            self.check_running()
            raise ControlPlaneError(f"The embedded API server said: {error}") from error

    def _config(self) -> ClientConfig:
        """Read here, since the file is our own JSON and `load_config` starts a program for it."""
        content = json.loads(self.admin_kubeconfig.read_text(encoding="utf-8"))
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return ClientConfig(server=cluster["server"], ca_pem=authority, token=user["token"])

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self) -> None:
        self._folder.mkdir(mode=0o700)
        command = ["-m", "nodewright.simulator.embedded_server", str(self._folder), f"--speed={self._speed}"]
        self._processes.start(_NAME, command)
        deadline = time.monotonic() + _START_SECONDS
        while b"ready" not in self._processes.log(_NAME).read_bytes().split():
            self.check_running()
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"Not ready within {_START_SECONDS:.0f} s.\n{self._processes.log_tail(_NAME)}")
            time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, traceback)


def kubectl_or_none() -> Path | None:
    """The built kubectl, else the one on the PATH, else None."""
    built = built_programs()
    found = built.kubectl if built is not None else shutil.which("kubectl")
    return None if found is None else Path(found)


def manifests(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file, of a folder's files by name, or of what a kustomization lists."""
    kustomization = path / "kustomization.yaml"
    if kustomization.exists():
        for entry in yaml.safe_load(kustomization.read_text(encoding="utf-8"))["resources"]:
            yield from manifests((path / entry).resolve())
    elif path.is_dir():
        for file in sorted((*path.glob("*.yaml"), *path.glob("*.json"))):
            yield from manifests(file)
    else:
        yield from (body for body in yaml.safe_load_all(path.read_text(encoding="utf-8")) if body)


async def _apply(client: Client, body: dict[str, Any]) -> None:
    group, _, version = body["apiVersion"].rpartition("/")
    discovery = f"/apis/{group}/{version}" if group else f"/api/{version}"
    served = json.loads((await client.request("GET", discovery, timeout=10.0)).body)["resources"]
    (found,) = (entry for entry in served if entry["kind"] == body["kind"] and "/" not in entry["name"])
    resource = Resource(group, version, found["name"], body["kind"], namespaced=found["namespaced"])
    metadata = body["metadata"]
    namespace = metadata.get("namespace", "default") if resource.namespaced else None
    await client.patch(
        resource,
        metadata["name"],
        body,
        PatchType.APPLY,
        namespace=namespace,
        field_manager="kubectl",
        force=True,
    )
