"""Loading a configuration with kubernetes_asyncio in a child process."""

import base64
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller_runtime.transport import Client, ConfigError, Resource, load_config
from controller_runtime.transport.kubeconfig import Resolved, resolve
from tests.unit.runtime.wire_server import make_authority, make_leaf, refusing, serving

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


@pytest.fixture(autouse=True)
def _no_cluster_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "KUBECONFIG",
        "KUBERNETES_SERVICE_HOST",
        "KUBERNETES_SERVICE_PORT",
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def kubeconfig(path: Path, *, cluster: dict[str, Any], user: dict[str, Any], namespace: str | None = None) -> Path:
    """JSON is YAML."""
    context = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "c", "cluster": cluster},
                    {"name": "c2", "cluster": {"server": "http://second:1"}},
                ],
                "users": [{"name": "u", "user": user}],
                "contexts": [
                    {"name": "one", "context": context},
                    {"name": "two", "context": {"cluster": "c2", "user": "u"}},
                ],
                "current-context": "one",
            }
        )
    )
    return path


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


async def test_paths_stay_paths_and_contexts_are_chosen(tmp_path: Path) -> None:
    ca, _ = make_authority(tmp_path, "ca")
    (tmp_path / "token").write_text("t\n")
    file = kubeconfig(
        tmp_path / "config",
        cluster={
            "server": "https://first:1/",
            "certificate-authority": "ca.crt",
            "tls-server-name": "name",
            "proxy-url": "http://p:2",
        },
        user={"tokenFile": "token"},
        namespace="ns",
    )
    config = await load_config(file)
    assert (config.server, config.ca_file, config.token_file) == ("https://first:1", ca, tmp_path / "token")
    assert (config.server_name, config.proxy, config.namespace, config.insecure) == ("name", "http://p:2", "ns", False)
    assert config.authorization is None
    assert (await load_config(file, "two")).server == "http://second:1"
    with pytest.raises(ConfigError, match="three"):
        await load_config(file, "three")


async def test_certificates_given_as_text_work_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ssl

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    authority = make_authority(tmp_path, "ca")
    leaf, mine = make_leaf(tmp_path, "server", authority), make_leaf(tmp_path, "client", authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*leaf)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority[0])
    async with serving(tls=context) as server:
        file = kubeconfig(
            tmp_path / "config",
            cluster={"server": server.url, "certificate-authority-data": encoded(authority[0])},
            user={"client-certificate-data": encoded(mine[0]), "client-key-data": encoded(mine[1])},
        )
        async with Client(await load_config(file), user_agent="t") as client:
            assert await client.get(NODES, "n") == b"{}"
    assert list(scratch.iterdir()) == []


async def test_insecure_basic_and_token_are_understood(tmp_path: Path) -> None:
    cluster = {"server": "https://x:1", "insecure-skip-tls-verify": True}
    config = await load_config(kubeconfig(tmp_path / "a", cluster=cluster, user={"username": "me", "password": "pw"}))
    assert config.insecure
    assert config.authorization == "Basic " + base64.b64encode(b"me:pw").decode()
    config = await load_config(kubeconfig(tmp_path / "b", cluster=cluster, user={"token": "t"}))
    assert config.authorization == "Bearer t"


async def test_a_credential_plugin_is_asked_again_after_a_401(tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = tmp_path / "plugin"
    script.write_text(
        f"#!{sys.executable}\nimport json, pathlib\ncount = pathlib.Path({str(count)!r})\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\ncount.write_text(str(number))\n"
        "status = {'token': f't{number}', 'expirationTimestamp': '2100-01-01T00:00:00Z'}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', 'status': status}))\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "interactiveMode": "Never"}
    async with serving(refusing(401)) as server:
        file = kubeconfig(tmp_path / "config", cluster={"server": server.url}, user={"exec": plugin})
        config = await load_config(file)
        assert config.credential is not None
        assert config.credential.expires_at is not None
        assert config.credential.expires_at.year == 2100
        async with Client(config, user_agent="t") as client:
            await client.get(NODES, "n")
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer t1", "Bearer t2"]


async def test_a_plugin_that_fails_is_one_sentence(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nonexistent/plugin"}
    file = kubeconfig(tmp_path / "config", cluster={"server": "http://x"}, user={"exec": plugin})
    with pytest.raises(ConfigError, match="/nonexistent/plugin") as caught:
        await load_config(file)
    assert "\n" not in str(caught.value)


async def test_a_configuration_is_looked_for_in_the_usual_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*/home/\.kube/config"):
        await load_config(None)
    kubeconfig(tmp_path / "home" / ".kube" / "config", cluster={"server": "http://home"}, user={})
    assert (await load_config(None)).server == "http://home"
    named = kubeconfig(tmp_path / "named", cluster={"server": "http://named"}, user={})
    monkeypatch.setenv("KUBECONFIG", str(named))
    assert (await load_config(None)).server == "http://named"
    with pytest.raises(ConfigError, match="no kubeconfig at /nonexistent"):
        await load_config(Path("/nonexistent"))


async def test_in_a_pod_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its token stays a file to read again: the kubelet replaces it (trap 40)."""
    for name, text in (("token", "t\n"), ("ca.crt", "ca"), ("namespace", "mine\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = await resolve(None, None, scratch=str(tmp_path), service_account=tmp_path)
    assert found == Resolved(
        server="https://[fd00::1]:443",
        ca_file=str(tmp_path / "ca.crt"),
        token_file=str(tmp_path / "token"),
        namespace="mine",
    )


async def test_a_proxy_of_the_environment_is_used_unless_excepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    outside = kubeconfig(tmp_path / "a", cluster={"server": "https://outside.example"}, user={})
    inside = kubeconfig(tmp_path / "b", cluster={"server": "https://inside.example"}, user={})
    assert (await load_config(outside)).proxy == "http://proxy:3128"
    assert (await load_config(inside)).proxy is None


def test_the_generated_client_never_enters_this_process(tmp_path: Path) -> None:
    """It would cost 38 MiB for good."""
    file = kubeconfig(tmp_path / "config", cluster={"server": "http://x"}, user={})
    code = (
        "import asyncio, sys, pathlib, controller_runtime.transport as t\n"
        f"asyncio.run(t.load_config(pathlib.Path({str(file)!r})))\n"
        "sys.exit('kubernetes_asyncio' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, timeout=60, check=False).returncode == 0
