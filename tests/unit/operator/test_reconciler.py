"""One pass: snapshot, plan, apply, and when the next one is due."""

from typing import Any

import anyio
import pytest

from controller_runtime.controller import Request
from nodewright.model.plan import FinalizerChange, Plan
from nodewright.model.snapshot import Snapshot
from nodewright.operator.reconciler import Reconciler
from nodewright.operator.snapshots import Snapshots
from tests.unit.operator.benchtop import Bench, FixedClock

pytestmark = pytest.mark.looptime
NOW = FixedClock().now().timestamp()


class Planner:
    """Answers what a test says, and remembers what it was shown."""

    def __init__(self) -> None:
        self.plan_to_give = Plan()
        self.seen: list[Snapshot] = []
        self.forgotten: list[str] = []

    def plan(self, snapshot: Snapshot, now: float) -> Plan:
        assert now == NOW
        self.seen.append(snapshot)
        return self.plan_to_give

    def forget(self, cr_name: str) -> None:
        self.forgotten.append(cr_name)


def reconciler(bench: Bench, planner: Planner, gone: list[str] | None = None) -> Reconciler:
    return Reconciler(
        stores=bench.stores,
        catalog=bench.catalog,
        snapshots=Snapshots(bench.stores, bench.catalog),
        engine=planner,
        executor=bench.executor,
        clock=FixedClock(),
        default_interval=600.0,
        plan_interval=0.05,
        gone=(gone if gone is not None else []).append,
    )


async def seconds_to_next(bench: Bench, **plan: Any) -> float:
    planner = Planner()
    planner.plan_to_give = Plan(**plan)
    result = await reconciler(bench, planner).reconcile(Request("cr"))
    assert result.requeue_after is not None
    return result.requeue_after


async def test_without_a_deadline_the_next_pass_is_due_within_the_default_interval(bench: Bench) -> None:
    # LIF-3
    bench.add_cr()
    for _ in range(20):
        assert 540 <= await seconds_to_next(bench) <= 600


async def test_the_next_known_deadline_comes_first(bench: Bench) -> None:
    bench.add_cr()
    assert await seconds_to_next(bench, wake_at=NOW + 30) == pytest.approx(30)


async def test_a_deadline_that_has_passed_makes_no_spin(bench: Bench) -> None:
    bench.add_cr()
    assert await seconds_to_next(bench, wake_at=NOW - 30) > 0


async def test_a_cr_that_is_gone_is_forgotten_everywhere(bench: Bench) -> None:
    # trap 22, OBS-1: its series go
    bench.add_cr()
    bench.stores.nodewrights.observe_deleted("cr", "uid-cr")
    planner, gone = Planner(), list[str]()
    assert (await reconciler(bench, planner, gone).reconcile(Request("cr"))).requeue_after is None
    assert (planner.forgotten, gone, planner.seen) == (["cr"], ["cr"], [])


async def test_its_series_go_before_the_finalizer_which_may_not_be_the_last(bench: Bench) -> None:
    # CHG-11, OBS-1: another's finalizer may keep the CR for long
    bench.add_cr()
    planner, gone = Planner(), list[str]()
    planner.plan_to_give = Plan(finalizer=FinalizerChange.REMOVE)
    await reconciler(bench, planner, gone).reconcile(Request("cr"))
    assert gone == ["cr"]


async def test_passes_are_further_apart_the_longer_a_plan_takes(bench: Bench) -> None:
    bench.add_cr()

    class Slow(Planner):
        def plan(self, snapshot: Snapshot, now: float) -> Plan:
            anyio_time[0] += 0.2
            return super().plan(snapshot, now)

    anyio_time = [0.0]
    made = reconciler(bench, Slow())
    assert made.interval("cr") == 0.05
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio, "current_time", lambda: anyio_time[0])
        made._plan(bench.cr(), NOW)
    assert made.interval("cr") == pytest.approx(0.8)
