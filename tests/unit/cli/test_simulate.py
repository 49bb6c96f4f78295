"""`nodewright simulate` from end to end on small rollouts: exit codes, what it says, and that a seed gives the same again (CLI-13)."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

MANIFEST = """\
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: demo
spec:
  nodeSelectors:
    matchLabels: {pool: gpu}
  interruptionBudget: {count: 2}
  packages:
    tuning: {version: 1.2.3, image: ghcr.io/x/tuning}
"""


def simulate(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "nodewright", "simulate", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    file = tmp_path / "demo.yaml"
    file.write_text(MANIFEST, encoding="utf-8")
    return str(file)


def result(*arguments: str) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(simulate("-o", "json", *arguments).stdout)
    return decoded


def test_a_rollout_completes_and_is_told(manifest: str) -> None:
    done = simulate(manifest, "--nodes", "4")
    assert done.returncode == 0, done.stderr
    assert "4 with pool=gpu" in done.stdout
    assert re.search(r"0:0\d:\d\d  demo: batch 2 begins", done.stdout)
    assert re.search(r"tuning 1\.2\.3 +apply +4 +0", done.stdout)
    assert "Every node is complete" in done.stdout
    assert "\x1b[" not in done.stdout


def test_a_failure_is_explained_and_ends_with_1(manifest: str) -> None:
    done = simulate(manifest, "--nodes", "3", "--fail", "node=node-0002,stage=apply:fail=7")
    assert done.returncode == 1
    assert "tuning 1.2.3 apply failed (exit code 7), attempt 1 on node-0002" in done.stdout
    assert re.search(r"1 erroring: node-0002\s+StageFailed: package tuning failed for good at apply", done.stdout)


def test_the_same_seed_gives_the_same_bytes(manifest: str) -> None:
    first, second, other = (simulate(manifest, "--nodes", "3", "-o", "json", "--seed", seed).stdout for seed in "112")
    assert first == second != other
    assert json.loads(first)["succeeded"] is True


def test_what_hangs_ends_the_simulation_too(manifest: str) -> None:
    """A hanging stage is killed by its deadline, four times; then nothing moves any more."""
    found = result(manifest, "--nodes", "1", "--fail", "stage=apply:hang")
    assert (found["ending"], found["nodewrights"][0]["unfinished"][0]["reason"]) == ("stuck", "StageFailed")
    assert found["virtualSeconds"] > 4 * 3600


def test_a_field_without_behaviour_is_shown(manifest: str) -> None:
    with_interrupt = MANIFEST.replace("ghcr.io/x/tuning}", "ghcr.io/x/tuning, interrupt: {type: reboot}}")
    done = simulate("-", "--nodes", "2", stdin=with_interrupt)
    if done.returncode == 0:
        pytest.skip("interrupts are supported by now")
    assert done.returncode == 1
    assert "Unsupported: " in done.stdout
    assert "spec.packages[tuning].interrupt" in done.stdout


def test_nodes_of_a_cluster_go_on_from_what_they_carry(manifest: str, tmp_path: Path) -> None:
    """Ignored, tainted and silent nodes stay where they are; each says why."""
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    nodes: list[dict[str, Any]] = [
        {"metadata": {"name": "good", "labels": {"pool": "gpu"}}},
        {"metadata": {"name": "ignored", "labels": {"pool": "gpu", "nodewright.nvidia.com/ignore": "true"}}},
        {"metadata": {"name": "tainted", "labels": {"pool": "gpu"}}, "spec": {"taints": [taint]}},
        {"metadata": {"name": "other", "labels": {"pool": "cpu"}}},
    ]
    file = tmp_path / "nodes.json"
    file.write_text(
        json.dumps({"kind": "List", "items": [{"kind": "Node", **node} for node in nodes]}), encoding="utf-8"
    )
    (cr,) = result(manifest, "--nodes-from", str(file))["nodewrights"]
    assert cr["nodes"]["complete"] == 1
    reasons = {one["node"]: one["reason"] for one in cr["unfinished"]}
    assert reasons == {"ignored": "Ignored", "tainted": "TaintNotTolerable"}


def test_a_faulty_manifest_is_refused_with_its_line(manifest: str) -> None:
    Path(manifest).write_text(MANIFEST.replace("1.2.3", "latest"), encoding="utf-8")
    done = simulate(manifest)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{manifest}:10: NodeWright demo: spec.packages[tuning].version:")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nodes", "0"],
        ["--nodes", "3", "--nodes-from", "x"],
        ["--fail", "nonsense"],
        ["--duration", "apply=soon"],
        ["--within-hours", "-1"],
        ["--within-hours", "nan"],
        ["--report", "gone/report.html"],
        ["--report", "."],
        ["-", "--nodes-from", "-"],
        ["--seed", "x"],
    ],
)
def test_wrong_usage_ends_with_2(manifest: str, arguments: list[str]) -> None:
    done = simulate(manifest, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("output", ["text", "json"])
def test_a_full_disk_is_a_sentence(manifest: str, output: str) -> None:
    command = [sys.executable, "-m", "nodewright", "simulate", manifest, "--nodes", "1", "-o", output]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "The output cannot be written: No space left on device"
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough_ends_it_silently(manifest: str) -> None:
    command = [sys.executable, "-m", "nodewright", "simulate", manifest, "--nodes", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(timeout=60) == 1


def test_a_rule_that_concerned_nothing_is_said(manifest: str) -> None:
    """A misspelt stage in `--fail` would look like a rollout without failures."""
    rules = ("--fail", "stage=aply:fail=1", "--fail", "stage=config,attempt=1:fail=1")
    said = simulate(manifest, "--nodes", "1", *rules).stdout
    assert "--fail stage=aply:fail=1 concerned nothing that ran" in said
    assert "stage=config" not in said
    assert result(manifest, "--nodes", "1", *rules)["unusedRules"] == ["stage=aply:fail=1"]


def test_failed_attempts_are_told_even_where_a_retry_succeeded(manifest: str) -> None:
    done = simulate(manifest, "--nodes", "2", "--fail", "node=node-0002,stage=config,attempt=1-2:fail=3")
    assert done.returncode == 0
    assert "tuning 1.2.3 config failed (exit code 3): 2 attempts on node-0002" in done.stdout


@pytest.mark.parametrize(
    "node",
    [
        {"metadata": {"name": "Bad_Name"}},
        {"metadata": {"name": "a", "labels": 3}},
        {"metadata": {"name": "a"}, "spec": [1]},
        {"metadata": {"name": "a"}, "spec": {"taints": 3}},
        {"metadata": {"name": "a"}, "status": {"conditions": ["Ready"]}},
        {"metadata": "a"},
    ],
)
def test_nodes_that_are_none_are_one_sentence(manifest: str, node: dict[str, Any]) -> None:
    done = simulate(manifest, "--nodes-from", "-", stdin=json.dumps({"kind": "Node", **node}))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_fields_of_the_result_are_those_of_the_page(manifest: str) -> None:
    """The names are promised in docs/simulate.md; whoever reads them with jq relies on it."""
    found = result(manifest, "--nodes", "1", "--fail", "stage=config:fail=1")
    page = (Path(__file__).parents[3] / "docs" / "simulate.md").read_text(encoding="utf-8")

    def names(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | set().union(*(names(one) for key, one in value.items() if key != "nodes"))
        return set().union(*map(names, value)) if isinstance(value, list) else set()

    assert {name for name in names(found) if f"`{name}`" not in page} == set()


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_ctrl_c_leaves_the_terminal_as_it_was(manifest: str, columns: int) -> None:
    """The cursor is shown again, the exit code is 130, and no line is wider than the terminal."""
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background of a script is born with it ignored
        os.environ.update(TERM="xterm-256color", COLUMNS=str(columns))
        os.execv(sys.executable, [sys.executable, "-m", "nodewright", "simulate", manifest, "--nodes", "400"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    seen, asked = "", False
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        seen += piece.decode(errors="replace")
        if not asked and seen.count("virtual time") > 2:
            asked = True
            os.write(terminal, b"\x03")
    if not asked or time.monotonic() >= deadline:
        os.kill(child, signal.SIGKILL)  # it would wait for a reader for ever
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    assert seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l") > 0
    assert "Traceback" not in seen
    tables = [
        line
        for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.replace("^C", "")).splitlines()
        if line.startswith(("NAME", "NODEWRIGHT", "demo"))
    ]
    assert tables
    assert max(map(len, tables)) <= columns
    assert not [line for line in tables if "…" in line]


def fleet(folder: Path, *nodes: dict[str, Any]) -> str:
    """A file as `kubectl get nodes -o json` makes it."""
    items = [{"kind": "Node", "apiVersion": "v1", **node} for node in nodes]
    file = folder / "nodes.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}), encoding="utf-8")
    return str(file)


def test_a_fleet_of_which_no_node_is_selected_is_no_success(manifest: str, tmp_path: Path) -> None:
    """A mistyped selector must not read like a rollout that went well."""
    done = simulate(manifest, "--nodes-from", fleet(tmp_path, {"metadata": {"name": "one", "labels": {"pool": "cpu"}}}))
    assert done.returncode == 1
    assert "no node selected" in done.stdout
    assert "No node is selected: compare nodeSelectors with the nodes' labels" in done.stdout
    assert "Every node" not in done.stdout


def test_what_blocks_a_node_is_told_before_what_its_packages_wait_for(manifest: str, tmp_path: Path) -> None:
    """ROL-2, ROL-3."""
    text = Path(manifest).read_text(encoding="utf-8")
    text += "    drivers: {version: 2.0.0, image: ghcr.io/x/drivers, dependsOn: {tuning: 1.2.3}}\n"
    Path(manifest).write_text(text, encoding="utf-8")
    labels = {"pool": "gpu"}
    nodes = (
        {"metadata": {"name": "a", "labels": labels}, "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}},
        {"metadata": {"name": "b", "labels": {**labels, "nodewright.nvidia.com/ignore": "true"}}},
        {"metadata": {"name": "c", "labels": labels}},
    )
    (cr,) = result(manifest, "--nodes-from", fleet(tmp_path, *nodes))["nodewrights"]
    told = {one["node"]: (one["reason"], one["message"]) for one in cr["unfinished"]}
    assert told == {
        "a": ("TaintNotTolerable", "taint not tolerated: x:NoSchedule"),
        "b": ("Ignored", "the ignore label is set"),
    }


@pytest.mark.parametrize(
    ("outcome", "reason", "says"),
    [
        ("never_ack", "NeverAcknowledged", "has not acknowledged pod"),
        ("pull_failure", "ImagePullFailed", "cannot pull ghcr.io/x/tuning"),
        ("config_error", "PodWaiting", "CreateContainerConfigError"),
    ],
)
def test_a_stage_that_waits_says_for_what(manifest: str, outcome: str, reason: str, says: str) -> None:
    """JOB-14, JOB-15, JOB-15a: not that it runs."""
    rule = f"node=node-0002,stage=apply:{outcome}"
    (cr,) = result(manifest, "--nodes", "2", "--fail", rule, "--within-hours", "0.2")["nodewrights"]
    (one,) = cr["unfinished"]
    assert (one["node"], one["reason"]) == ("node-0002", reason)
    assert says in one["message"]
