"""The control plane of tests is a real one, and nothing of it outlives the process that started it."""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller_runtime.testing.control_plane import (
    ControlPlane,
    ControlPlaneError,
    ExistingCluster,
    GoMissingError,
    Programs,
    build_programs,
    kubernetes_version,
)

_STARTS_AND_WAITS = """
import sys, threading, time
from controller_runtime.testing.control_plane import ControlPlane

def start():
    running = ControlPlane().start()
    print(running.folder, running.server, flush=True)
    kept.append(running)

kept = []
thread = threading.Thread(target=start)  # which ends at once: the servers must not end with the thread that asked for them
thread.start()
thread.join()
time.sleep(600)
"""


@pytest.fixture(scope="module")
def own(control_plane_programs: Programs) -> Iterator[ControlPlane]:
    """A control plane these tests may harm."""
    with ControlPlane(programs=control_plane_programs, audit=True) as running:
        yield running


def eventually(claim: Callable[[], bool], *, within: float = 20.0) -> bool:
    deadline = time.monotonic() + within
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def server_pids(folder: Path) -> set[int]:
    """The processes whose command line names the control plane's folder: keeper and servers."""
    pids = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in command:
            pids.add(int(process.name))
    return pids


def keeper_pid(folder: Path) -> int:
    return next(pid for pid in server_pids(folder) if b"keeper.py" in Path(f"/proc/{pid}/cmdline").read_bytes())


def test_the_servers_have_the_pinned_version(control_plane: ControlPlane) -> None:
    version = json.loads(control_plane.kubectl("version", "--output=json"))
    assert version["serverVersion"]["gitVersion"] == f"v{kubernetes_version()}"
    assert version["clientVersion"]["gitVersion"] == f"v{kubernetes_version()}"


def test_the_api_server_speaks_tls_and_trusts_nobody_without_credentials(control_plane: ControlPlane) -> None:
    path = f"{control_plane.server}/api/v1/nodes"
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(path, timeout=10)
    context = ssl.create_default_context(cafile=str(control_plane.folder / "ca.crt"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(path, timeout=10, context=context)
    with refused.value as answer:
        assert answer.code == 403


def test_controllers_run_a_job_as_far_as_its_pod(control_plane: ControlPlane) -> None:
    name = "runs-as-far-as-its-pod"
    control_plane.kubectl("create", "job", name, "--image=none", "--namespace=default")
    selector = f"--selector=batch.kubernetes.io/job-name={name}"

    def pods() -> list[str]:
        return control_plane.kubectl("get", "pods", selector, "--namespace=default", "--output=name").split()

    assert eventually(lambda: len(pods()) == 1)
    control_plane.kubectl("delete", "job", name, "--namespace=default", "--wait=false")
    assert eventually(lambda: not pods()), "the garbage collector takes the pod with its Job"


@pytest.mark.needs("authorisation")
def test_the_operators_account_may_do_what_deploy_grants_and_nothing_else(
    control_plane: ControlPlane, operator_kubeconfig: Path
) -> None:
    def may(verb: str, resource: str, *, namespace: str = "nodewright", subresource: str = "") -> bool:
        arguments = [f"--kubeconfig={operator_kubeconfig}", f"--namespace={namespace}", f"--subresource={subresource}"]
        command = [str(control_plane.kubectl_program), *arguments, "auth", "can-i", verb, resource]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert answer.stdout.strip() in {"yes", "no"}, answer.stderr
        return answer.stdout.strip() == "yes"

    assert may("create", "jobs.batch")
    assert may("patch", "nodes")
    assert may("patch", "nodes", subresource="status")
    assert may("create", "events.events.k8s.io", namespace="default")
    assert may("update", "leases.coordination.k8s.io/nodewright-operator")
    assert not may("create", "jobs.batch", namespace="default")
    assert not may("create", "pods")
    assert not may("delete", "nodes")
    assert not may("update", "nodewrights.nodewright.nvidia.com")
    assert not may("patch", "deploymentpolicies.nodewright.nvidia.com")
    assert not may("get", "secrets")
    assert not may("update", "leases.coordination.k8s.io/another")


@pytest.mark.needs("authorisation")
def test_a_create_beyond_the_operators_rights_is_refused_by_the_server(
    control_plane: ControlPlane, operator_kubeconfig: Path
) -> None:
    command = [str(control_plane.kubectl_program), f"--kubeconfig={operator_kubeconfig}"]
    arguments = ["run", "intruder", "--image=none", "--namespace=default"]
    refused = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=30)
    assert refused.returncode != 0
    assert re.search(
        r'"system:serviceaccount:nodewright:nodewright-operator" cannot create resource "pods"', refused.stderr
    )


def test_two_control_planes_run_at_once_on_ports_of_their_own(control_plane: ControlPlane, own: ControlPlane) -> None:
    assert control_plane.server != own.server
    own.kubectl("create", "namespace", "only-here")
    with pytest.raises(ControlPlaneError, match='"only-here" not found'):
        control_plane.kubectl("get", "namespace", "only-here")


def test_any_other_cluster_is_used_through_its_kubeconfig(control_plane: ControlPlane) -> None:
    with ExistingCluster(control_plane.admin_kubeconfig) as existing:
        operator = existing.service_account_kubeconfig("nodewright", "nodewright-operator")
        who = existing.kubectl(
            f"--kubeconfig={operator}", "auth", "whoami", "--output=jsonpath={.status.userInfo.username}"
        )
    assert who == "system:serviceaccount:nodewright:nodewright-operator"
    assert control_plane.admin_kubeconfig.exists(), "what was given is left alone"


def test_a_killed_api_server_comes_back_on_its_port_with_its_objects(own: ControlPlane) -> None:
    own.kubectl("create", "configmap", "kept", "--namespace=default")
    port = int(own.server.rpartition(":")[2])
    own.kill_api_server()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))  # nobody takes the port in the meantime
    own.restart_api_server()
    assert own.kubectl("get", "configmap", "kept", "--namespace=default", "--output=name") == "configmap/kept\n"


def test_a_paused_api_server_answers_nothing_until_it_goes_on(own: ControlPlane) -> None:
    with own.paused_api_server(), pytest.raises(TimeoutError):
        own.request("GET", "/readyz", timeout=1)
    assert own.request("GET", "/readyz") == "ok"


def test_a_watch_from_before_a_compaction_and_a_restart_is_answered_410(own: ControlPlane) -> None:
    old = own.request("GET", "/api/v1/namespaces/default/configmaps")["metadata"]["resourceVersion"]
    for number in range(3):
        own.kubectl("create", "configmap", f"later-{number}", "--namespace=default")
    assert own.compact_etcd() > int(old)
    own.restart_api_server()
    path = f"/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=5&resourceVersion={old}"
    answer = own.request("GET", path)
    text = answer if isinstance(answer, str) else json.dumps(answer)
    assert '"code":410' in text.replace(" ", "")


def test_the_audit_log_names_who_did_what(own: ControlPlane) -> None:
    own.kubectl("create", "configmap", "audited", "--namespace=default")

    def seen() -> bool:
        with own.audit_log.open(encoding="utf-8") as lines:
            return any(
                entry["verb"] == "create" and entry["user"]["username"] == "admin"
                for entry in map(json.loads, lines)
                if entry.get("objectRef", {}).get("name") == "audited"
            )

    assert eventually(seen)


def test_a_server_that_ends_is_reported_with_the_last_lines_of_its_log(control_plane_programs: Programs) -> None:
    broken = ControlPlane(programs=control_plane_programs, api_server_flags=["--no-such-flag"])
    with pytest.raises(ControlPlaneError, match=r"(?s)kube-apiserver ended with code 1 .*unknown flag: --no-such-flag"):
        broken.start()
    assert not server_pids(broken.folder)
    assert not broken.folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="counts processes in /proc")
@pytest.mark.parametrize("victim", ["launcher", "keeper"])
def test_no_server_outlives_a_kill_of_what_started_it(control_plane_programs: Programs, victim: str) -> None:
    launcher = subprocess.Popen([sys.executable, "-c", _STARTS_AND_WAITS], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    folder = Path(launcher.stdout.readline().split()[0])
    try:
        assert len(server_pids(folder)) == 4, "keeper, etcd, API server, controller-manager"
        os.kill(launcher.pid if victim == "launcher" else keeper_pid(folder), signal.SIGKILL)
        assert eventually(lambda: not server_pids(folder))
        if victim == "launcher":
            assert eventually(lambda: not folder.exists()), "the keeper removes the folder of a killed launcher"
    finally:
        launcher.kill()
        launcher.communicate()
        if victim == "keeper":  # nobody is left to do it
            shutil.rmtree(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="counts processes in /proc")
def test_a_paused_server_ends_with_its_launcher_too(control_plane_programs: Programs) -> None:
    with ControlPlane(programs=control_plane_programs) as paused:
        folder = paused.folder
        paused.pause_api_server()
    assert not server_pids(folder)


def test_without_go_the_way_to_get_it_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("controller_runtime.testing.control_plane.build._USUAL_GO", tmp_path / "go")
    with pytest.raises(GoMissingError) as missing:
        build_programs()
    assert "go.dev" in str(missing.value)
    assert "\n" not in str(missing.value)


def test_two_builders_at_once_build_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a stand-in for Go that notes each call and takes its time."""
    calls = tmp_path / "calls"
    go = tmp_path / "go"
    go.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nsleep 0.5\n', encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("NODEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    built: list[Programs] = []
    builders = [threading.Thread(target=lambda: built.append(build_programs())) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(timeout=30)
    assert len(built) == 2
    assert built[0] == built[1]
    assert len(calls.read_text(encoding="utf-8").splitlines()) == 2, "etcd once, Kubernetes once"
    assert not list((tmp_path / "cache").rglob("*.partial-*"))
