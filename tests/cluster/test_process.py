"""The operator as a process: settings, exit codes, probes, metrics, leadership, restarts, and silence when idle (CON-26, OBS-1 to OBS-3).

The exclusive scenarios play when all others have ended, one after another, since they stop the operator or need it to be idle.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from ssl import CERT_NONE, SSLContext, create_default_context
from typing import Any

import pytest

from tests.cluster.harness import Stage, free_port
from tests.cluster.observer import NODE
from tests.cluster.scenario import Scenario, package, scenario

CHECKOUT = Path(__file__).resolve().parents[2]
OPERATOR = "system:serviceaccount:nodewright:nodewright-operator"


def run_operator(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Start the operator where it is expected to end by itself."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), **settings}
    return subprocess.run(
        [sys.executable, "-m", "nodewright", "operator", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_invalid_settings_stop_the_start_with_one_message_of_every_fault() -> None:
    """CON-26: exit code 2, nothing else said."""
    faults = {"JOB_BACKOFF_LIMIT": "many", "DEFAULT_INTERVAL": "1s", "METRICS_PORT": "nowhere", "LOG_FORMAT": "xml"}
    ended = run_operator("--kubeconfig", "missing", **faults)
    assert ended.returncode == 2
    for name in ("AGENT_IMAGE", *faults):
        assert ended.stderr.count(name) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_a_kubeconfig_that_is_not_there_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    """CON-26: exit code 1 or 2, the file named, no traceback."""
    ended = run_operator("--kubeconfig", str(tmp_path / "none"), AGENT_IMAGE="example/agent:1")
    assert ended.returncode in (1, 2)
    assert str(tmp_path / "none") in ended.stderr + ended.stdout
    assert "Traceback" not in ended.stderr


def get(url: str, *, token: str | None = None) -> tuple[int, str]:
    """Status and text of a GET; certificates are not verified, as Prometheus is told for a self-signed one."""
    request = urllib.request.Request(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    context: SSLContext | None = None
    if url.startswith("https"):
        context = create_default_context()
        context.check_hostname = False
        context.verify_mode = CERT_NONE
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def metrics(s: Scenario) -> str:
    """What the stage's operator serves."""
    status, text = await asyncio.to_thread(get, f"http://127.0.0.1:{s.stage.metrics_port}/metrics")
    assert status == 200
    return text


def samples(text: str, cr: str) -> dict[str, float]:
    """Samples of that CR as ``name{labels} -> value``."""
    lines = (line.rpartition(" ") for line in text.splitlines() if f'"{cr}"' in line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def sample(text: str, series: str, /, **labels: str) -> float:
    """The only sample of that series that has these labels."""
    found = [
        line.rpartition(" ")[2]
        for line in text.splitlines()
        if line.startswith(f"{series}{{") and all(f'{key}="{value}"' in line for key, value in labels.items())
    ]
    assert len(found) == 1, (series, labels, found)
    return float(found[0])


@scenario()
async def test_the_series_of_a_rollout_are_served_and_go_with_it(s: Scenario) -> None:
    """OBS-1: under the new and the legacy names."""
    await s.nodes(2)
    await s.apply({"tuning": package()}, interruptionBudget={"count": 2})
    await s.until_status("complete")
    text = await metrics(s)
    for prefix, label in (("nodewright", "nodewright_name"), ("skyhook", "skyhook_name")):
        cr = {label: s.name}
        assert sample(text, f"{prefix}_status", **cr, status="complete") == 1
        assert sample(text, f"{prefix}_status", **cr, status="in_progress") == 0
        assert sample(text, f"{prefix}_node_status_count", **cr, status="complete") == 2
        assert sample(text, f"{prefix}_node_target_count", **cr) == 2
        about = {**cr, "package_name": "tuning", "package_version": "1.0.0"}
        assert sample(text, f"{prefix}_package_state_count", **about, state="complete") == 2
        assert sample(text, f"{prefix}_package_stage_count", **about, stage="config") == 2
        rollout = {**cr, "policy_name": "legacy", "compartment_name": "__default__"}
        assert sample(text, f"{prefix}_rollout_matched_nodes", **rollout) == 2
        assert sample(text, f"{prefix}_rollout_ceiling", **rollout) == 2
        assert sample(text, f"{prefix}_rollout_completed", **rollout) == 2
        assert sample(text, f"{prefix}_rollout_progress_percent", **rollout) == 100
    await s.delete_cr()
    for _ in range(50):
        if not samples(await metrics(s), s.name):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"series of a deleted CR: {list(samples(await metrics(s), s.name))}")


@scenario()
async def test_runtime_metrics_have_the_names_controllers_use(s: Scenario) -> None:
    """OBS-2."""
    await s.nodes(1)
    await s.apply({"tuning": package()})
    await s.until_status("complete")
    text = await metrics(s)
    for name in (
        "controller_runtime_reconcile_total",
        "controller_runtime_reconcile_time_seconds_bucket",
        "controller_runtime_active_workers",
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds_bucket",
        "workqueue_work_duration_seconds_bucket",
        "workqueue_retries_total",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "rest_client_requests_total",
    ):
        assert re.search(rf"^{name}(\{{| )", text, re.MULTILINE), name
    assert sample(text, "leader_election_master_status", name="nodewright-operator") == 1


@scenario(exclusive=True)
async def test_the_probes_answer(s: Scenario) -> None:
    """OBS-3."""
    for path in ("/healthz", "/readyz"):
        status, _ = await asyncio.to_thread(get, f"http://127.0.0.1:{s.stage.probe_port}{path}")
        assert status == 200, path


@pytest.mark.needs("authorisation", "kubectl")
@scenario(exclusive=True)
async def test_secure_metrics_ask_the_api_server_who_may_read_and_a_standby_is_ready(s: Scenario) -> None:
    """OBS-3, CON-26: a second operator, which does not lead and serves metrics by HTTPS."""
    await asyncio.to_thread(play_standby, s.stage)


def play_standby(stage: Stage) -> None:
    """401 without a token, 403 for one without the right, 200 with it; SIGTERM ends a standby with code 0."""
    metrics_port, probe_port = free_port(), free_port()
    stage.start_operator(
        "standby",
        METRICS_SECURE="true",
        METRICS_PORT=f"127.0.0.1:{metrics_port}",
        PROBE_PORT=f"127.0.0.1:{probe_port}",
        POD_NAME="standby",
    )
    kubectl, name = stage.cluster.kubectl, "metrics-reader-of-the-tests"
    try:
        assert get(f"http://127.0.0.1:{probe_port}/readyz")[0] == 200
        kubectl("create", "serviceaccount", name, "--namespace=nodewright")
        token = kubectl("create", "token", name, "--namespace=nodewright").strip()
        url = f"https://127.0.0.1:{metrics_port}/metrics"
        assert get(url)[0] == 401
        assert get(url, token="nonsense")[0] == 401
        assert get(url, token=token)[0] == 403
        kubectl("create", "clusterrole", name, "--verb=get", "--non-resource-url=/metrics")
        kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--serviceaccount=nodewright:{name}")
        other = kubectl("create", "token", name, "--namespace=nodewright").strip()
        status, text = get(url, token=other)
        assert status == 200
        assert sample(text, "leader_election_master_status", name="nodewright-operator") == 0
        assert stage.stop_operator("standby") == 0
    finally:
        stage.stop_operator("standby")
        for kind in ("clusterrolebinding", "clusterrole"):
            kubectl("delete", kind, name, "--ignore-not-found")
        kubectl("delete", "serviceaccount", name, "--namespace=nodewright", "--ignore-not-found")


@scenario(within=150, exclusive=True)
async def test_an_operator_that_is_killed_goes_on_where_it_was(s: Scenario) -> None:
    """LIF-2: no stage runs twice because of it, none is skipped, the budget holds across the restart."""
    nodes = await s.nodes(4)
    s.rules("container=~.*-(apply|config):succeed=1")
    await s.apply({"tuning": package(), "drivers": package("2.0.0")}, interruptionBudget={"count": 2})
    for starts in (2, 9):
        await s.until(lambda starts=starts: len(s.ledger(container="-init")) >= starts, "it works")  # type: ignore[misc]
        await asyncio.to_thread(s.stage.kill_operator)
        await s.stage.hurry_takeover()
        await asyncio.sleep(1.5)
        await asyncio.to_thread(s.stage.start_operator)
    await s.until_status("complete", within=90)
    ran = Counter((e.node, e.package, e.stage) for e in s.ledger() if e.container.endswith(f"-{e.stage}"))
    assert set(ran.values()) == {1}
    assert len(ran) == len(nodes) * 2 * 2


@scenario(within=120, exclusive=True)
async def test_sigterm_ends_the_leader_with_code_0_and_frees_the_lease(s: Scenario) -> None:
    """CON-26, issue item 7: nothing is lost, and the next one leads at once."""
    (node,) = await s.nodes(1)
    s.rules("container=~.*-apply:succeed=4")
    await s.apply({"tuning": package()})
    await s.until(lambda: s.ran("apply") == 1, "it works")
    assert await asyncio.to_thread(s.stage.stop_operator) == 0
    assert not (await s.stage.lease()).get("holderIdentity")
    await asyncio.to_thread(s.stage.start_operator)
    await s.until_status("complete", within=20)
    assert s.entry(node, "tuning|1.0.0") == ("config", "complete")
    assert s.ran("apply") == 1
    assert (await s.stage.lease())["holderIdentity"]


@pytest.mark.needs("audit log")
@scenario(within=180, exclusive=True)
async def test_an_idle_operator_is_silent(s: Scenario) -> None:
    """Invariant 3, OBS-5: 20 s of heartbeats, and no request of the operator but for its lease and its watches.

    Before that the series of events get their last counts, each a minute after the one before at the latest; all else is silent from
    the start.
    """
    audit = s.stage.audit_log
    assert audit is not None
    nodes = await s.nodes(5)
    packages = {"tuning": package(configMap={"a": "1"}), "drivers": package("2.0.0")}
    await s.apply(packages, interruptionBudget={"count": 2})
    await s.until_status("complete", within=60)
    await asyncio.sleep(3)  # the last marks and the last status
    for _ in range(5):
        began, before = size_of(audit), {node: heartbeat(s, node) for node in nodes}
        await asyncio.sleep(20)
        assert all(heartbeat(s, node) > before[node] for node in nodes), "the nodes' heartbeats go on"
        asked = Counter(request for request in read_audit(audit, began) if not is_expected(*request))
        assert not [request for request in asked if not is_count_of_events(*request)]
        if not asked:
            return
    raise AssertionError(f"events are still counted: {asked}")


def size_of(path: Path) -> int:
    """In bytes."""
    return path.stat().st_size


def heartbeat(s: Scenario, node: str) -> str:
    """The time of the node's last heartbeat."""
    return str((s.node(node).condition("Ready") or {})["lastHeartbeatTime"])


def read_audit(path: Path, began: int) -> Iterator[tuple[str, str]]:
    """Verb and URI of each request of the operator from that place in the log on."""
    with path.open("rb") as log:
        log.seek(began)
        for line in log.read().splitlines()[:-1]:
            request: dict[str, Any] = json.loads(line)
            if request["user"]["username"] == OPERATOR:
                yield request["verb"], request["requestURI"]


def is_expected(verb: str, uri: str) -> bool:
    """Of an idle operator."""
    return verb == "watch" or (verb in ("get", "update", "patch") and "/leases/nodewright-operator" in uri)


def is_count_of_events(verb: str, uri: str) -> bool:
    """The count of a series of events that happened before."""
    return verb == "patch" and uri.startswith("/apis/events.k8s.io/")


@pytest.mark.needs("audit log")
@scenario(within=60, exclusive=True)
async def test_a_node_edit_that_does_not_concern_us_starts_no_write(s: Scenario) -> None:
    """LIF-3, invariant 3, CON-16: a foreign annotation on a complete node is nobody's business of ours."""
    audit = s.stage.audit_log
    assert audit is not None
    (node,) = await s.nodes(1)
    await s.apply({"tuning": package()})
    await s.until_status("complete")
    await asyncio.sleep(4)
    began = size_of(audit)
    for number in range(10):
        await s.merge(NODE, node, {"metadata": {"annotations": {"example.com/count": str(number)}}})
        await asyncio.sleep(0.3)
    await asyncio.sleep(2)
    asked = [request for request in read_audit(audit, began) if not is_expected(*request)]
    assert not [request for request in asked if not is_count_of_events(*request)]
