"""Random histories: whatever people, kubelets and crashes do, the budget holds, nothing runs twice, and it ends complete and silent."""

import pytest

from tests.unit.engine.histories import History


def play(history: History, steps: int) -> None:
    """The whole history; a failure prints how it came to it."""
    try:
        for _ in range(steps):
            history.step()
        history.mend()
    except BaseException:
        print("\n".join(history.trace[-80:]))
        raise


@pytest.mark.parametrize("seed", range(20))
def test_a_rollout_survives_crashes_failures_and_edits(seed: int) -> None:
    """LIF-2, ROL-10, ROL-13, ROL-14, ROL-15: with the strict budget at every instant."""
    play(History(seed, wild=False), 120)


@pytest.mark.parametrize("seed", range(100, 120))
def test_a_rollout_survives_nodes_that_come_go_and_are_ignored(seed: int) -> None:
    """ROL-1, ROL-2, ROL-12, ROL-19."""
    play(History(seed, wild=True), 120)


@pytest.mark.parametrize("seed", range(200, 212))
def test_two_rollouts_in_order_survive_each_other(seed: int) -> None:
    """ROL-17, ROL-18."""
    play(History(seed, wild=True, crs=("tuning", "zoning")), 160)
