"""The commands as a shell sees them: exit codes, streams, and no traceback (CLI-1, CON-26)."""

import os
import subprocess
import sys

import nodewright

PLUGIN = "from nodewright.cli.main import plugin; plugin()"
PROGRAM = "from nodewright.cli.main import main; main()"


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key not in ("AGENT_IMAGE", "LOG_LEVEL", "KUBECONFIG")}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=clean | environment,
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
