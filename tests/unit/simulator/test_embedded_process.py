"""The embedded cluster in a process of its own needs neither Go nor kubectl, and ends with whoever started it."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from controller_runtime.testing.control_plane import ControlPlaneError
from controller_runtime.transport import Client, Resource, Unauthorized, load_config
from nodewright.simulator.embedded_process import EmbeddedProcess, manifests
from nodewright.simulator.installation import DEPLOY, install

CHECKOUT = Path(__file__).resolve().parents[3]
JOB = Resource("batch", "v1", "jobs", "Job", namespaced=True)
POD = Resource("", "v1", "pods", "Pod", namespaced=True)
_STARTS_AND_WAITS = """
import time
from nodewright.simulator.embedded_process import EmbeddedProcess

with EmbeddedProcess() as cluster:
    print(cluster.admin_kubeconfig.read_text().replace(chr(10), ""), flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedProcess]:
    with EmbeddedProcess(speed=10) as running:
        yield running


def test_a_kustomization_gives_the_objects_of_all_it_lists() -> None:
    kinds = [body["kind"] for body in manifests(DEPLOY / "cluster")]
    assert kinds[0] == "Namespace"
    assert kinds.count("CustomResourceDefinition") == 2
    assert {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} <= set(kinds)


def test_the_operators_token_says_who_asks(cluster: EmbeddedProcess) -> None:
    config = json.loads(install(cluster).read_text(encoding="utf-8"))
    review = {"spec": {"token": config["users"][0]["user"]["token"]}}

    async def ask() -> bytes:
        async with Client(await load_config(cluster.admin_kubeconfig), user_agent="test") as client:
            path = "/apis/authentication.k8s.io/v1/tokenreviews"
            return (await client.request("POST", path, body=review, timeout=10.0)).body

    status = json.loads(asyncio.run(ask()))["status"]
    assert status["user"]["username"] == "system:serviceaccount:nodewright:nodewright-operator"


def test_without_a_token_nobody_is_answered(cluster: EmbeddedProcess, tmp_path: Path) -> None:
    content = json.loads(cluster.admin_kubeconfig.read_text(encoding="utf-8"))
    content["users"][0]["user"]["token"] = "nonsense"
    stranger = tmp_path / "stranger"
    stranger.write_text(json.dumps(content), encoding="utf-8")

    async def ask() -> None:
        async with Client(await load_config(stranger), user_agent="test") as client:
            await client.list(POD, namespace="default")

    with pytest.raises(Unauthorized):
        asyncio.run(ask())


def test_its_controllers_make_a_jobs_pod(cluster: EmbeddedProcess) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example/x:1"}]}}

    async def pods() -> list[object]:
        async with Client(await load_config(cluster.admin_kubeconfig), user_agent="test") as client:
            await client.create(JOB, {"metadata": {"name": "one"}, "spec": {"template": template}}, namespace="default")
            for _ in range(100):
                found = json.loads(await client.list(POD, namespace="default", label_selector="job-name=one"))["items"]
                if found:
                    return list(found)
                await asyncio.sleep(0.1)
        return []

    assert len(asyncio.run(pods())) == 1


def test_what_is_refused_is_told(cluster: EmbeddedProcess, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    spec = {"packages": {"tuning": {"version": "v1", "image": "example/x"}}}
    bad.write_text(
        json.dumps({"apiVersion": "nodewright.nvidia.com/v1alpha1", "kind": "NodeWright", "metadata": {"name": "x"}})[
            :-1
        ]
        + f', "spec": {json.dumps(spec)}}}',
        encoding="utf-8",
    )
    with pytest.raises(ControlPlaneError, match=r"spec\.packages"):
        cluster.apply(bad)


def test_it_does_not_outlive_a_kill_of_what_started_it() -> None:
    """Trap: a server left behind holds its port and a core."""
    starter = subprocess.Popen(
        [sys.executable, "-c", _STARTS_AND_WAITS], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    with starter.stdout:
        server = json.loads(starter.stdout.readline())["clusters"][0]["cluster"]["server"]
        port = urlsplit(server).port
        assert answers(port)
        starter.send_signal(signal.SIGKILL)
        starter.wait()
    deadline = time.monotonic() + 10
    while answers(port):
        assert time.monotonic() < deadline, "it still listens"
        time.sleep(0.05)


def answers(port: int | None) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port or 0), timeout=1).close()
    except OSError:
        return False
    return True
