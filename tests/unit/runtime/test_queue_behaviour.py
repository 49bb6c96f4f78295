"""The work queue, claim by claim, in virtual time."""

import asyncio
from collections.abc import Callable

import pytest

from controller_runtime.queue import Backoff, Priority, QueueShutDown, Request, WorkQueue

pytestmark = pytest.mark.looptime


def queue(min_interval: float | Callable[[str], float] = 0.0) -> WorkQueue:
    return WorkQueue("test", min_interval=min_interval, backoff=Backoff(jitter=0.0))


async def nothing_for(work: WorkQueue, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await work.get()
    except TimeoutError:
        return True
    return False


def now() -> float:
    return asyncio.get_running_loop().time()


def test_two_thousand_failures_wait_a_thousand_seconds_and_do_not_overflow() -> None:
    """Trap 18."""
    backoff = Backoff(jitter=0.0)
    assert [backoff.delay(n) for n in (0, 1, 2)] == [0.005, 0.010, 0.020]
    assert backoff.delay(17) < 1000.0
    assert [backoff.delay(n) for n in (18, 1024, 2000)] == [1000.0] * 3


def test_jitter_adds_at_most_a_tenth() -> None:
    assert Backoff(uniform=lambda: 0.0).delay(1) == pytest.approx(0.010)
    assert Backoff(uniform=lambda: 0.999999).delay(1) == pytest.approx(0.011, rel=1e-4)


async def test_a_key_added_many_times_is_handed_out_once() -> None:
    work = queue()
    for _ in range(3):
        work.add("a")
    assert (await work.get()).key == "a"
    assert await nothing_for(work, 60)


async def test_adds_while_the_key_is_in_work_cause_exactly_one_rerun_after_done() -> None:
    """Trap 19."""
    work = queue()
    work.add("a")
    await work.get()
    for _ in range(3):
        work.add("a")
    assert await nothing_for(work, 60), "never two in parallel"
    work.done("a")
    assert (await work.get()).key == "a"
    work.done("a")
    assert await nothing_for(work, 60)


async def test_the_highest_priority_goes_first_and_equals_go_in_order() -> None:
    work = queue()
    work.add("low", priority=Priority.LOW)
    work.add("first")
    work.add("second")
    work.add("high", priority=Priority.HIGH)
    assert [(await work.get()).key for _ in range(4)] == ["high", "first", "second", "low"]


async def test_an_add_raises_the_priority_of_a_pending_key_and_never_lowers_it() -> None:
    work = queue()
    work.add("normal")
    work.add("raised", priority=Priority.LOW)
    work.add("raised", priority=Priority.HIGH)
    work.add("raised", priority=Priority.LOW)
    assert (await work.get()).key == "raised"


async def test_a_later_add_does_not_lower_the_priority_of_a_key_that_waits() -> None:
    work = queue()
    work.add("normal", after=1)
    work.add("waiting", after=2, priority=Priority.HIGH)
    work.add("waiting", after=1, priority=Priority.LOW)
    await asyncio.sleep(1)
    assert [(await work.get()).key for _ in range(2)] == ["waiting", "normal"]


async def test_a_delayed_key_comes_out_at_its_time() -> None:
    work = queue()
    work.add("a", after=60)
    assert (await work.get()).key == "a"
    assert now() == pytest.approx(60)


async def test_an_add_at_once_overtakes_a_pending_delay_and_the_old_timer_runs_nothing() -> None:
    """Trap 21."""
    work = queue()
    work.add("a", after=60)
    work.add("a")
    await work.get()
    work.done("a")
    assert now() == 0
    assert await nothing_for(work, 120)


async def test_of_two_delays_the_earlier_wins_in_either_order() -> None:
    for delays in ((60, 10), (10, 60)):
        work = queue()
        start = now()
        for delay in delays:
            work.add("a", after=delay)
        await work.get()
        assert now() - start == pytest.approx(10)


async def test_a_delayed_add_never_delays_a_ready_key() -> None:
    work = queue()
    work.add("a")
    work.add("a", after=60)
    await work.get()
    assert now() == 0


async def test_failures_back_off_and_forget_clears_them() -> None:
    """Trap 22."""
    work = queue()
    waits = []
    for _ in range(3):
        start = now()
        work.add_rate_limited("a")
        await work.get()
        work.done("a")
        waits.append(round(now() - start, 6))
    assert waits == [0.005, 0.010, 0.020]
    assert work.failures("a") == 3
    work.forget("a")
    assert work.failures("a") == 0


async def test_a_cancelled_getter_that_was_already_given_a_key_puts_it_back() -> None:
    """Trap 20."""
    work = queue()
    getter = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    work.add("a", trigger="node")
    getter.cancel()  # in the same tick: the future is set, the task has not seen it
    with pytest.raises(asyncio.CancelledError):
        await getter
    async with asyncio.timeout(1):
        assert await work.get() == Request("a", ("node",), 0.0)


async def test_a_key_put_back_goes_to_the_next_who_waits() -> None:
    """Trap 20."""
    work = queue()
    first, second = asyncio.create_task(work.get()), asyncio.create_task(work.get())
    await asyncio.sleep(0)
    work.add("a")
    first.cancel()
    async with asyncio.timeout(1):
        assert (await second).key == "a"


async def test_a_key_put_back_is_one_key_with_what_was_added_meanwhile() -> None:
    """Trap 20."""
    work = queue()
    getter = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    work.add("a", trigger="node")
    work.add("a", trigger="job", priority=Priority.HIGH)
    getter.cancel()
    await asyncio.gather(getter, return_exceptions=True)
    request = await work.get()
    assert request.triggers == ("node", "job")
    work.done("a")
    assert await nothing_for(work, 10)


async def test_a_getter_cancelled_while_waiting_takes_nothing_with_it() -> None:
    """Trap 20."""
    work = queue()
    getter = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    getter.cancel()
    work.add("a")  # before the cancelled task ran
    await asyncio.gather(getter, return_exceptions=True)
    assert (await work.get()).key == "a"


async def test_shut_down_wakes_eight_getters_in_one_tick_and_ignores_later_adds() -> None:
    """Trap 23."""
    work = queue()
    getters = [asyncio.create_task(work.get()) for _ in range(8)]
    await asyncio.sleep(0)
    work.shut_down()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert all(isinstance(getter.exception(), QueueShutDown) for getter in getters)
    work.add("a")
    work.add_rate_limited("b")
    assert len(work) == 0
    with pytest.raises(QueueShutDown):
        await work.get()


async def test_done_after_shut_down_is_harmless() -> None:
    """Trap 23."""
    work = queue()
    work.add("a")
    await work.get()
    work.shut_down()
    work.done("a")
    assert len(work) == 0


async def test_bursts_are_folded_into_one_run_per_interval() -> None:
    work = queue(min_interval=5.0)
    runs = []
    for _ in range(40):  # an add each 0.5 s, for 20 s
        work.add("a")
        try:
            async with asyncio.timeout(0.5):
                await work.get()
                runs.append(now())
                work.done("a")
                await asyncio.sleep(60)
        except TimeoutError:
            pass
    assert runs == pytest.approx([0, 5, 10, 15])


async def test_the_interval_counts_from_the_hand_out_not_from_its_end() -> None:
    work = queue(min_interval=5.0)
    work.add("a")
    await work.get()
    await asyncio.sleep(3)
    work.add("a")
    work.done("a")
    await work.get()
    assert now() == pytest.approx(5)


async def test_the_interval_of_one_key_does_not_hold_up_another() -> None:
    work = queue(min_interval=5.0)
    for key in ("a", "b"):
        work.add(key)
        await work.get()
        work.done(key)
    assert now() == 0


async def test_the_interval_may_follow_the_last_run() -> None:
    work = queue(min_interval=lambda key: 10 * work.last_run_seconds(key))
    work.add("a")
    await work.get()
    await asyncio.sleep(2)
    work.done("a")
    work.add("a")
    await work.get()
    assert now() == pytest.approx(20)


async def test_an_interval_that_cannot_be_computed_does_not_lose_the_key() -> None:
    def broken(key: str) -> float:
        raise LookupError(key)

    work = queue(min_interval=broken)
    work.add("a")
    await work.get()
    work.add("a")
    work.done("a")
    assert (await work.get()).key == "a"


async def test_nothing_is_remembered_of_keys_whose_interval_is_over() -> None:
    work = queue(min_interval=1.0)
    for number in range(1000):
        work.add(str(number))
        await work.get()
        work.done(str(number))
        await asyncio.sleep(0.1)
    assert len(work._not_before) <= 11
    assert len(work._run_seconds) <= 11


async def test_heaps_stay_in_proportion_to_the_keys() -> None:
    work = queue()
    for number in range(10_000):
        work.add("a", after=20_000 - number)
        work.add("b", priority=number)
    assert len(work._waiting) + len(work._ready) < 300


async def test_a_million_updates_of_a_hundred_keys_are_a_hundred_keys() -> None:
    """Trap 51."""
    work = queue()
    keys = [str(number) for number in range(100)]
    for _ in range(1_000):
        for key in keys:
            work.add(key, trigger="node")
    assert len(work) == len(work._ready) == 100


async def test_a_request_tells_what_asked_for_it_and_how_long_it_was_ready() -> None:
    work = queue()
    work.add("a", after=10, trigger="deadline")
    work.add("a", after=5, trigger="node")
    work.add("a", after=7, trigger="node")
    await asyncio.sleep(8)
    request = await work.get()
    assert request.triggers == ("deadline", "node")
    assert request.queue_seconds == pytest.approx(3.0)


async def test_at_most_eight_triggers_are_kept() -> None:
    work = queue()
    for number in range(100):
        work.add("a", trigger=f"trigger-{number}")
    assert len((await work.get()).triggers) == 8


@pytest.mark.parametrize("after", [float("nan"), float("inf")])
async def test_a_delay_that_is_no_number_is_refused(after: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        queue().add("a", after=after)


async def test_depth_counts_ready_keys_by_priority_only() -> None:
    work = queue()
    work.add("later", after=60)
    work.add("now")
    work.add("high", priority=Priority.LOW)
    work.add("high", priority=Priority.HIGH)
    assert work.depths() == {0: 1, 100: 1}
    await work.get()
    await asyncio.sleep(2)
    assert work.running_seconds() == [pytest.approx(2.0)]
