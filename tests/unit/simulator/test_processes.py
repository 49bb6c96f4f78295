"""Processes beside a cluster are started, paused, stopped and killed as told, and end with their user."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodewright.simulator.processes import ProcessError, Processes

_IGNORES_SIGTERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('set', flush=True); time.sleep(60)"
)


@pytest.fixture
def processes() -> Iterator[Processes]:
    with Processes() as running:
        yield running


def wait_for(processes: Processes, name: str, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in processes.log(name).read_text():
        processes.check_running(name)
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_one_that_ends_is_reported_with_its_code_and_last_words(processes: Processes) -> None:
    processes.start("brief", ["-c", "import sys; print('last words'); sys.exit(3)"])
    deadline = time.monotonic() + 10
    while processes.exit_code("brief") is None and time.monotonic() < deadline:
        time.sleep(0.02)
    with pytest.raises(ProcessError, match=r"(?s)brief ended with code 3\..*last words"):
        processes.check_running("brief")


def test_one_that_ignores_sigterm_is_killed_when_its_time_is_over(processes: Processes) -> None:
    processes.start("stubborn", ["-c", _IGNORES_SIGTERM])
    wait_for(processes, "stubborn", "set")
    assert processes.stop("stubborn", within=0.2) == -9


def test_a_paused_one_can_be_stopped(processes: Processes) -> None:
    processes.start("paused", ["-c", "import time; print('set', flush=True); time.sleep(60)"])
    wait_for(processes, "paused", "set")
    processes.pause("paused")
    assert processes.stop("paused") == -15


def test_one_is_started_again_under_its_name_and_its_log_goes_on(processes: Processes) -> None:
    command = ["-c", "import time; print('life', flush=True); time.sleep(60)"]
    first = processes.start("again", command)
    wait_for(processes, "again", "life")
    processes.kill("again")
    assert processes.start("again", command) != first
    wait_for(processes, "again", "life\nlife")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_none_is_left_at_the_end() -> None:
    with Processes() as running:
        log = running.log("left")
        pid = running.start("left", ["-c", "import time; time.sleep(60)"])
    assert not Path(f"/proc/{pid}").exists()
    assert not log.exists()
