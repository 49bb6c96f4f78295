"""Find the cluster and the credentials, as kubectl does: the only module that uses kubernetes_asyncio.

Importing kubernetes_asyncio costs 38 MiB of memory for the life of a process (measured, on top of aiohttp), and it is
needed for less than a second: so a child process loads the configuration, prints the result as JSON, and ends. The
operator starts once so; a credential plugin's answer is renewed in the same way when it ends or the server answers
401. What kubernetes_asyncio keeps in temporary files (certificates given as text) is read back by the child and gone
with it.
"""

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import msgspec

from controller_runtime.transport.config import ClientConfig, Credential
from controller_runtime.transport.errors import ConfigError

log = logging.getLogger(__name__)

CHILD_TIMEOUT = 60.0
PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Resolved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the child found. A certificate is a path if the kubeconfig named a file, a text if it held it."""

    server: str
    ca_file: str | None = None
    ca_pem: str | None = None
    insecure: bool = False
    server_name: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    cert_pem: str | None = None
    key_pem: str | None = None
    token_file: str | None = None
    authorization: str | None = None
    expires_at: datetime | None = None
    renewable: bool = False
    proxy: str | None = None
    namespace: str | None = None


async def load_config(kubeconfig: Path | None, context: str | None = None) -> ClientConfig:
    """The configuration from a kubeconfig, or from where one is usually found.

    Without a path: `KUBECONFIG`, then the pod's service account, then `~/.kube/config`.

    Raises:
        ConfigError: nothing was found, or it cannot be used; says what and where.
    """
    resolved = await _ask_child(kubeconfig, context)

    async def refresh() -> Credential:
        return _credential(await _ask_child(kubeconfig, context))

    return ClientConfig(
        server=resolved.server,
        ca_file=_path(resolved.ca_file),
        ca_pem=resolved.ca_pem,
        insecure=resolved.insecure,
        server_name=resolved.server_name,
        cert_file=_path(resolved.cert_file),
        key_file=_path(resolved.key_file),
        cert_pem=None if resolved.renewable else resolved.cert_pem,
        key_pem=None if resolved.renewable else resolved.key_pem,
        token_file=_path(resolved.token_file),
        authorization=None if resolved.renewable else resolved.authorization,
        credential=_credential(resolved) if resolved.renewable else None,
        refresh=refresh if resolved.renewable else None,
        proxy=resolved.proxy or _proxy_of_environment(resolved.server),
        namespace=resolved.namespace,
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _credential(resolved: Resolved) -> Credential:
    return Credential(
        authorization=resolved.authorization,
        cert_pem=resolved.cert_pem,
        key_pem=resolved.key_pem,
        expires_at=resolved.expires_at,
    )


def _proxy_of_environment(server: str) -> str | None:
    """`HTTPS_PROXY` and `NO_PROXY`, looked at once."""
    parts = urlsplit(server)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)


async def _ask_child(kubeconfig: Path | None, context: str | None) -> Resolved:
    """Run `child_main` in a process of its own."""
    question = msgspec.json.encode({"kubeconfig": str(kubeconfig) if kubeconfig else None, "context": context})
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (PACKAGE_ROOT, os.environ.get("PYTHONPATH")))),
    }
    command = [
        sys.executable,
        "-P",
        "-c",
        "from controller_runtime.transport.kubeconfig import child_main; child_main()",
    ]

    def run() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command, input=question, env=environment, capture_output=True, timeout=CHILD_TIMEOUT, check=False
        )

    try:
        done = await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
    except (subprocess.TimeoutExpired, OSError) as error:
        raise ConfigError(f"cannot load the cluster's configuration: {error}") from error
    if done.returncode != 0:
        complaint = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ConfigError(complaint[-1] if complaint else f"loading the configuration ended with {done.returncode}")
    return msgspec.json.decode(done.stdout, type=Resolved)


# --- in the child ---------------------------------------------------------------------------------------------------


def child_main() -> None:
    """Read the question from standard input, print a `Resolved`; the last line of standard error says what failed."""
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=dict[str, str | None])
    with tempfile.TemporaryDirectory() as scratch:
        try:
            resolved = asyncio.run(resolve(question.get("kubeconfig"), question.get("context"), scratch=scratch))
        except Exception as error:  # noqa: BLE001 - the parent gets it as one sentence
            sys.stderr.write(f"\n{type(error).__name__}: {' '.join(str(error).split())}\n")
            raise SystemExit(1) from None
    sys.stdout.buffer.write(msgspec.json.encode(resolved))


async def resolve(
    kubeconfig: str | None, context: str | None, *, scratch: str, service_account: Path = SERVICE_ACCOUNT
) -> Resolved:
    """Load with kubernetes_asyncio, in this process; certificates given as text pass through files in `scratch`."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import load_incluster_config, load_kube_config

    configuration: Any = Configuration()
    load_in_pod: Any = load_incluster_config
    paths = kubeconfig or os.environ.get("KUBECONFIG")
    if not paths and "KUBERNETES_SERVICE_HOST" in os.environ and context is None:
        load_in_pod(
            client_configuration=configuration,
            try_refresh_token=False,
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
        )
        namespace = service_account / "namespace"
        return Resolved(
            server=configuration.host,
            ca_file=configuration.ssl_ca_cert,
            token_file=str(service_account / "token"),
            namespace=_text(namespace),
        )
    paths = paths or str(Path.home() / ".kube" / "config")
    if not _exists(paths):
        raise ConfigError(f"no kubeconfig at {paths}")
    loader = await load_kube_config(
        config_file=paths,
        context=context,
        client_configuration=configuration,
        temp_file_path=scratch,
        persist_config=False,
    )
    return _describe(loader, configuration, Path(scratch))


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8").strip() if path.exists() else None


def _exists(paths: str) -> bool:
    return any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path)


def _describe(loader: Any, configuration: Any, scratch: Path) -> Resolved:
    user = loader._user.value if loader._user is not None else {}
    base = Path(loader._get_base_path(loader._user.path)) if loader._user is not None else Path()
    renewable = "exec" in user or "auth-provider" in user
    ca_file, ca_pem = _file_or_text(configuration.ssl_ca_cert, scratch)
    cert_file, cert_pem = _file_or_text(configuration.cert_file, scratch)
    key_file, key_pem = _file_or_text(configuration.key_file, scratch)
    expires_at = getattr(loader, "exec_plugin_expiry", None)
    token_file = str(base / user["tokenFile"]) if user.get("tokenFile") and not renewable else None
    return Resolved(
        server=configuration.host,
        ca_file=ca_file,
        ca_pem=ca_pem,
        insecure=not configuration.verify_ssl,
        server_name=configuration.tls_server_name,
        cert_file=cert_file,
        key_file=key_file,
        cert_pem=cert_pem,
        key_pem=key_pem,
        token_file=token_file,
        authorization=None if token_file else getattr(loader, "token", None),
        expires_at=expires_at.astimezone(UTC) if expires_at is not None else None,
        renewable=renewable,
        proxy=configuration.proxy,
        namespace=loader.current_context["context"].get("namespace"),
    )


def _file_or_text(name: str | None, scratch: Path) -> tuple[str | None, str | None]:
    """A path that stays, or the text of one that will be gone with the child."""
    if not name:
        return None, None
    path = Path(name).resolve()
    if path.is_relative_to(scratch.resolve()):
        return None, path.read_text(encoding="utf-8")
    return str(path), None
