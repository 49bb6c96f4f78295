"""The commands as a shell sees them: exit codes, streams, and no traceback (CLI-1, CON-26)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nodewright

PLUGIN = "from nodewright.cli.main import plugin; plugin()"
PROGRAM = "from nodewright.cli.main import main; main()"


def run(
    code: str, *arguments: str, cwd: Path | None = None, flags: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key not in ("AGENT_IMAGE", "LOG_LEVEL", "KUBECONFIG")}
    return subprocess.run(
        [sys.executable, *flags, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=clean | environment,
        cwd=cwd,
    )


def test_both_programs_say_their_version() -> None:
    for code in (PLUGIN, PROGRAM):
        assert run(code, "--version").stdout.strip() == nodewright.__version__
        assert run(code, "version", "--client-only").stdout.strip() == f"client: {nodewright.__version__}"


def test_the_plugin_does_not_run_the_operator() -> None:
    ended = run(PLUGIN, "operator")
    assert ended.returncode == 2
    assert "No such command" in ended.stderr


def test_wrong_usage_is_exit_code_2() -> None:
    assert run(PROGRAM, "operator", "--nonsense").returncode == 2


def test_invalid_settings_are_one_message_with_every_fault_and_exit_code_2() -> None:
    ended = run(PROGRAM, "operator", JOB_RETAIN="0", LOG_LEVEL="loud")
    assert ended.returncode == 2
    assert ended.stdout == ""
    for name in ("AGENT_IMAGE", "JOB_RETAIN", "LOG_LEVEL"):
        assert name in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_missing_kubeconfig_is_a_sentence_and_exit_code_1() -> None:
    ended = run(PROGRAM, "operator", "--kubeconfig", "/nonexistent/file", AGENT_IMAGE="r/agent:1")
    assert ended.returncode == 1
    assert "/nonexistent/file" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_operators_process_carries_nothing_of_the_command_line() -> None:
    listed = run(
        "import sys, nodewright.operator.app; print([m for m in sys.modules if m in ('typer', 'rich', 'click')])"
    )
    assert listed.stdout.strip() == "[]"


def test_an_api_server_that_is_away_ends_nothing_and_sigterm_ends_it_cleanly(tmp_path: Path) -> None:
    # CON-26: back to standby and on from there; exit code 0 after a clean stop
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}],"
        " users: [{name: c, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: c}}]}"
    )
    environment = {"AGENT_IMAGE": "r/agent:1", "METRICS_PORT": "0", "PROBE_PORT": "0", "LOG_LEVEL": "info"}
    command = [sys.executable, "-c", PROGRAM, "operator", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}) as running:
        assert running.stderr is not None
        begun = running.stderr.readline()
        time.sleep(2)
        assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=20) == 0
        rest = running.stderr.read()
    assert "127.0.0.1:1" in begun
    assert "Traceback" not in rest


def test_a_python_file_in_the_working_directory_is_not_imported_by_the_operator(tmp_path: Path) -> None:
    """CON-26: started from any directory; one with a `logging.py` killed it before it could say a word."""
    for name in ("logging.py", "msgspec.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the working directory')")
    ended = run(PROGRAM, "operator", cwd=tmp_path, flags=("-P",), JOB_RETAIN="0")
    assert ended.returncode == 2
    assert "JOB_RETAIN" in ended.stderr
    assert "working directory" not in ended.stderr


def test_a_checkout_that_is_not_installed_runs_the_operator_from_where_it_is(tmp_path: Path) -> None:
    """CON-26: the working directory is where NodeWright itself was imported from, so it stays on the path."""
    package = Path(nodewright.__file__).parent
    show = "import os; os.execv = lambda _program, arguments: print(arguments[1:]); "
    assert run(show + PROGRAM, "operator", cwd=package.parent).stdout.strip() == "['-m', 'nodewright.operator']"
    elsewhere = run(show + PROGRAM, "operator", cwd=tmp_path, flags=("-P",))
    assert elsewhere.stdout.strip() == "['-P', '-m', 'nodewright.operator']"
