"""What a person reads: times, failures, and nodes with the same reason in one line."""

import io

import pytest
from rich.console import Console

from nodewright.cli.simulation_text import LiveTable, clock, print_summary, span_of_time, told
from nodewright.simulator.outcome import Ending, Outcome, cr_outcome
from nodewright.simulator.timeline import Span, Timeline


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00:00"), (59.9, "0:00:59"), (3723, "1:02:03"), (90_000, "25:00:00")]
)
def test_a_virtual_time_is_a_clock(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(4.54, "4.5s"), (123, "2m 03s"), (3720, "1h 02m")])
def test_a_duration_has_two_units(seconds: float, shown: str) -> None:
    assert span_of_time(seconds) == shown


@pytest.mark.parametrize(
    ("outcome", "how"),
    [
        ("failed:3", "failed (exit code 3)"),
        ("killed:deadline", "was killed (deadline)"),
        ("refused:OutOfcpu", "was refused by the kubelet (OutOfcpu)"),
        ("lost", "was lost in a reboot"),
    ],
)
def test_a_failure_says_how(outcome: str, how: str) -> None:
    assert told(Span("c", "n", "a", "1.0.0", "apply", 2, 0.0, 1.0, outcome)) == f"a 1.0.0 apply {how}, attempt 2"


def timeline() -> Timeline:
    made = Timeline(lambda: 0.0, epoch=0.0)
    for node in ("n1", "n2"):
        made.said("c", node, status="erroring", code="StageFailed", text=f"failed on {node}", release="rerun it")
    made.said("c", "n3", status="complete", code="", text="", release="")
    return made


def test_nodes_with_the_same_reason_are_one_line() -> None:
    text = io.StringIO()
    cr = cr_outcome("c", {"status": "erroring"}, timeline())
    print_summary(
        Console(file=text, width=100), Outcome(seed=0, nodes=3, ending=Ending.STUCK, seconds=1.0, crs=(cr,)), wall=1.0
    )
    assert "2 erroring: n1, n2" in text.getvalue()
    assert "StageFailed: failed on the node; rerun it" in text.getvalue()


def test_the_live_table_fits_eighty_columns() -> None:
    text = io.StringIO()
    console = Console(file=text, width=80, force_terminal=True, color_system=None)
    with LiveTable(console) as table:
        table.began(timeline())
        table.looked(61.0)
    assert "virtual time 0:01:01" in text.getvalue()
    assert "1/3" in text.getvalue()
    assert "…" not in text.getvalue()
