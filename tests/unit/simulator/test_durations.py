"""Durations are drawn from the seed, within their range, and independent of the order in which they are asked for."""

import pytest

from nodewright.simulator.durations import STAGES, Durations, parse_stage_duration
from nodewright.simulator.rules import Step


def step(node: str = "n1", stage: str = "apply", *, work: bool = True) -> Step:
    return Step(node=node, pod="p", job=f"{node}-{stage}", stage=stage, container=f"x-{stage}", work=work)


def test_the_same_seed_draws_the_same() -> None:
    assert [Durations(3)(step(f"n{i}")) for i in range(9)] == [Durations(3)(step(f"n{i}")) for i in range(9)]
    assert [Durations(3)(step(f"n{i}")) for i in range(9)] != [Durations(4)(step(f"n{i}")) for i in range(9)]


@pytest.mark.parametrize("stage", STAGES)
def test_draws_stay_in_their_range(stage: str) -> None:
    low, high = STAGES[stage]
    drawn = [Durations(1)(step(f"n{i}", stage)) for i in range(200)]
    assert low <= min(drawn) < max(drawn) <= high


def test_copying_and_checking_take_no_time() -> None:
    assert Durations()(step(work=False)) == 0.0


@pytest.mark.parametrize(
    ("text", "meant"),
    [("apply=30s", ("apply", (30.0, 30.0))), ("post-interrupt=1m-1h30m", ("post-interrupt", (60.0, 5400.0)))],
)
def test_a_duration_is_read(text: str, meant: tuple[str, tuple[float, float]]) -> None:
    assert parse_stage_duration(text) == meant


@pytest.mark.parametrize("text", ["", "apply", "apply=", "nothing=3s", "apply=x", "apply=9s-3s", "apply=-3s"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"apply|STAGE"):
        parse_stage_duration(text)
