"""What a test asks of any cluster, whoever made it: kubectl as the administrator, manifests, and service accounts' credentials.

``ControlPlane`` is one; ``ExistingCluster`` is any other with a kubeconfig, such as kind. Everything goes through kubectl, so that what
works here works for a person too.
"""

from __future__ import annotations

import abc
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from controller_runtime.testing.control_plane.build import built_programs

_TOKEN_LIFETIME = "168h"


class ControlPlaneError(RuntimeError):
    """A cluster did not come up or did not do what was asked; the message ends with what it said."""


class Cluster(abc.ABC):
    """A cluster of which the caller is administrator."""

    @property
    @abc.abstractmethod
    def folder(self) -> Path:
        """A temporary folder for files that go with this cluster."""

    @property
    @abc.abstractmethod
    def admin_kubeconfig(self) -> Path:
        """Of an administrator, to arrange and to look; what is tested runs as a service account."""

    @property
    @abc.abstractmethod
    def kubectl_program(self) -> Path:
        """The kubectl to use."""

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        """Runs kubectl as the administrator; its standard output, or ``ControlPlaneError`` with what it said."""
        command = [
            str(self.kubectl_program),
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--cache-dir={self.folder / 'kubectl-cache'}",  # the usual one goes by port, and ports come again
            *arguments,
        ]
        environment = {**os.environ, "KUBECTL_KUBERC": "false"}  # no person's preferences in a test
        try:
            done = subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=timeout, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)} did not end within {timeout:.0f} s.") from None
        if done.returncode != 0:
            said = done.stderr.strip()
            raise ControlPlaneError(f"kubectl {' '.join(arguments)} ended with code {done.returncode}: {said}")
        return done.stdout

    def apply(self, path: Path | str, *, timeout: float = 60.0) -> None:
        """Applies a file, a folder of files or a kustomization, and waits until each CRD in it is served."""
        path = Path(path)
        flag = "-k" if (path / "kustomization.yaml").exists() else "-f"
        applied = self.kubectl("apply", "--server-side", flag, str(path), "--output=name", timeout=timeout)
        definitions = [line for line in applied.split() if line.startswith("customresourcedefinition")]
        if definitions:
            wait = f"--timeout={timeout:.0f}s"
            self.kubectl("wait", "--for=condition=Established", wait, *definitions, timeout=timeout + 10)
        for definition in definitions:
            self._wait_served(definition.partition("/")[2], timeout)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a real token of that service account, good for a week.

        RBAC and API priority and fairness apply to it as they would in production.
        """
        token = self.kubectl(
            "create", "token", name, f"--namespace={namespace}", f"--duration={_TOKEN_LIFETIME}"
        ).strip()
        config = json.loads(self.kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json"))
        config["users"] = [{"name": name, "user": {"token": token}}]
        config["contexts"][0]["context"] |= {"user": name, "namespace": namespace}
        path = self.folder / f"{namespace}-{name}-{secrets.token_hex(4)}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=1), encoding="utf-8")
        return path

    def _wait_served(self, crd: str, timeout: float) -> None:
        """For a moment after a CRD is established its objects are still answered with 404 or 429."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self.kubectl("get", crd, "--output=name", timeout=timeout)
            except ControlPlaneError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return


class ExistingCluster(Cluster):
    """A cluster somebody else made and will end. A context manager, for its temporary folder."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._folder = tempfile.TemporaryDirectory(prefix="existing-cluster-")

    @property
    def folder(self) -> Path:
        """Removed at the end of the ``with`` block."""
        return Path(self._folder.name)

    @property
    def admin_kubeconfig(self) -> Path:
        """The one that was given."""
        return self._kubeconfig

    @property
    def kubectl_program(self) -> Path:
        """The built one, else the one on the PATH."""
        built = built_programs()
        found = built.kubectl if built is not None else shutil.which("kubectl")
        if found is None:
            raise ControlPlaneError("There is no kubectl on the PATH and none was built.")
        return Path(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._folder.cleanup()
