"""The controller, claim by claim, in virtual time."""

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from controller_runtime.controller import Controller, Request, Result, TerminalError
from controller_runtime.queue import Backoff

pytestmark = pytest.mark.looptime


class Counts:
    """Controller metrics as a list of words."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.failures: list[tuple[bool, bool]] = []
        self.busy = 0
        self.most_busy = 0

    def workers(self, count: int) -> None:
        pass

    def started(self) -> None:
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)

    def stopped(self) -> None:
        self.busy -= 1

    def finished(self, *, result: str, seconds: float) -> None:
        self.results.append(result)

    def failed(self, *, terminal: bool, timed_out: bool) -> None:
        self.failures.append((terminal, timed_out))


Step = Callable[[Request], Awaitable[Result]]


def controller(
    reconcile: Step, *, counts: Counts | None = None, concurrency: int = 1, expected: tuple[type[Exception], ...] = ()
) -> Controller:
    return Controller(
        "test",
        reconcile,
        concurrency=concurrency,
        backoff=Backoff(jitter=0.0),
        expected_errors=expected,
        metrics=counts or Counts(),
    )


@asynccontextmanager
async def running(*controllers: Controller) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.run()) for each in controllers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "no leaked task"


def now() -> float:
    return asyncio.get_running_loop().time()


class Recorder:
    """A reconcile function that notes when it ran and answers from a list; when that is used up, nothing is left to do."""

    def __init__(self, *answers: Result | Exception | float) -> None:
        self.answers = list(answers)
        self.times: list[float] = []
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Result:
        self.times.append(round(now(), 6))
        self.requests.append(request)
        match self.answers.pop(0) if self.answers else Result():
            case Result() as result:
                return result
            case Exception() as error:
                raise error
            case seconds:
                await asyncio.sleep(seconds)
                return Result()


async def test_a_failing_key_backs_off_and_is_forgotten_on_success() -> None:
    """Trap 22."""
    counts = Counts()
    reconcile = Recorder(ValueError("no"), ValueError("no"))
    subject = controller(reconcile, counts=counts)
    subject.queue.add("a")
    async with running(subject):
        await asyncio.sleep(10)
    assert reconcile.times == [0, 0.005, 0.015]
    assert counts.results == ["error", "error", "success"]
    assert subject.queue.failures("a") == 0


async def test_a_terminal_error_waits_for_the_next_change_and_is_forgotten() -> None:
    """Trap 22."""
    counts = Counts()
    reconcile = Recorder(ValueError("no"), TerminalError("cannot be cured"))
    subject = controller(reconcile, counts=counts)
    subject.queue.add("a")
    async with running(subject):
        await asyncio.sleep(3600)
        assert len(reconcile.times) == 2
        assert subject.queue.failures("a") == 0
        subject.queue.add("a")
        await asyncio.sleep(1)
    assert len(reconcile.times) == 3
    assert counts.failures == [(False, False), (True, False)]


async def test_requeue_after_brings_the_key_back_at_its_time_and_forgets_failures() -> None:
    reconcile = Recorder(ValueError("no"), Result(requeue_after=60))
    subject = controller(reconcile)
    subject.queue.add("a")
    async with running(subject):
        await asyncio.sleep(30)
        assert subject.queue.failures("a") == 0
        await asyncio.sleep(60)
    assert reconcile.times == [0, 0.005, 60.005]
    assert reconcile.requests[-1].triggers == ("deadline",)


async def test_an_error_wins_over_requeue_after(caplog: pytest.LogCaptureFixture) -> None:
    """Trap 52."""
    reconcile = Recorder(Result(requeue_after=60, error=ValueError("half of it failed")))
    subject = controller(reconcile)
    subject.queue.add("a")
    async with running(subject):
        await asyncio.sleep(600)
    assert reconcile.times == [0, 0.005], "after the backoff, and not once more after a minute"
    assert "requeue_after 60 is ignored" in caplog.text


async def test_a_requeue_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        Result(requeue_after=float("nan"))


async def test_a_pass_over_its_time_is_cancelled_counted_as_timeout_and_retried() -> None:
    counts = Counts()
    reconcile = Recorder(10_000.0)
    subject = controller(reconcile, counts=counts)
    subject.queue.add("a")
    async with running(subject):
        await asyncio.sleep(200)
    assert reconcile.times == [0, 180.005]
    assert counts.failures == [(False, True)]
    assert counts.results == ["error", "success"]


async def test_a_timeout_raised_by_the_pass_itself_is_an_error_and_not_its_timeout() -> None:
    counts = Counts()
    subject = controller(Recorder(TimeoutError("the API server did not answer")), counts=counts)
    subject.queue.add("a")
    async with running(subject):
        await asyncio.sleep(1)
    assert counts.failures == [(False, False)]


async def test_an_outer_cancel_is_no_timeout_and_the_key_is_pending_again() -> None:
    """Trap 20."""
    counts = Counts()
    subject = controller(Recorder(100.0), counts=counts)
    subject.queue.add("a", trigger="node")
    async with running(subject):
        await asyncio.sleep(50)
    assert counts.results == []
    assert counts.busy == 0
    request = await subject.queue.get()
    assert request.triggers == ("node", "interrupted")


async def test_a_controller_runs_again_after_a_stop_with_all_keys_added_meanwhile() -> None:
    reconcile = Recorder(100.0)
    subject = controller(reconcile)
    subject.queue.add("cut off")
    async with running(subject):
        await asyncio.sleep(1)
    subject.queue.add("standby")
    await asyncio.sleep(5)
    async with running(subject):
        await asyncio.sleep(1)
    assert sorted(request.key for request in reconcile.requests) == ["cut off", "cut off", "standby"]


async def test_a_worker_cancelled_at_any_moment_loses_no_key() -> None:
    """Trap 20: cancel after each possible number of loop turns."""

    async def turns(request: Request) -> Result:
        for _ in range(5):
            await asyncio.sleep(0)
        return Result()

    for moment in range(14):
        finished: list[str] = []

        async def reconcile(request: Request, finished: list[str] = finished) -> Result:
            await turns(request)
            finished.append(request.key)
            return Result()

        subject = controller(reconcile)
        async with running(subject):
            subject.queue.add("a")
            for _ in range(moment):
                await asyncio.sleep(0)
        assert finished or len(subject.queue) == 1, moment
        async with running(subject):
            await asyncio.sleep(1)
        assert finished, f"lost when cancelled after {moment} turns"
        assert subject.queue.running_seconds() == []


async def test_run_returns_only_after_the_pass_has_ended() -> None:
    """Trap 28: cancel and await."""
    cleaned_up_at = []

    async def slow_to_stop(request: Request) -> Result:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(2)
            cleaned_up_at.append(now())
        return Result()

    subject = controller(slow_to_stop)
    subject.queue.add("a")
    async with running(subject):
        await asyncio.sleep(1)
    assert cleaned_up_at == [3.0] == [now()]


async def test_a_pass_that_swallows_the_cancel_still_ends_its_worker() -> None:
    """Trap 28."""

    async def stubborn(request: Request) -> Result:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        return Result()

    subject = controller(stubborn)
    subject.queue.add("a")
    subject.queue.add("b")
    async with running(subject):
        await asyncio.sleep(1)
    assert now() == 2.0
    assert len(subject.queue) == 1, "b was not begun"


async def test_at_most_concurrency_passes_run_and_never_two_of_one_key() -> None:
    counts = Counts()
    active: set[str] = set()

    async def reconcile(request: Request) -> Result:
        assert request.key not in active
        active.add(request.key)
        await asyncio.sleep(1)
        active.discard(request.key)
        return Result()

    subject = controller(reconcile, counts=counts, concurrency=3)
    async with running(subject):
        for _ in range(20):
            for key in "abcdef":
                subject.queue.add(key)
            await asyncio.sleep(0.3)
    assert counts.most_busy == 3
    assert "error" not in counts.results


async def test_nothing_a_pass_sets_in_its_context_reaches_the_next() -> None:
    seen: list[str] = []
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="empty")

    async def reconcile(request: Request) -> Result:
        seen.append(variable.get())
        variable.set(request.key)
        return Result()

    subject = controller(reconcile)
    subject.queue.add("a")
    subject.queue.add("b")
    variable.set("outside")
    async with running(subject):
        await asyncio.sleep(1)
    assert seen == ["empty", "empty"]


async def test_an_expected_error_backs_off_without_an_error_line(caplog: pytest.LogCaptureFixture) -> None:
    subject = controller(Recorder(ConnectionError("lease lost")), expected=(ConnectionError,))
    subject.queue.add("a")
    with caplog.at_level(logging.DEBUG):
        async with running(subject):
            await asyncio.sleep(1)
    assert [record.levelno for record in caplog.records if "lease lost" in record.message] == [logging.INFO]


async def test_a_normal_pass_logs_nothing_above_debug(caplog: pytest.LogCaptureFixture) -> None:
    """OBS-5."""
    subject = controller(Recorder(Result(requeue_after=1)))
    subject.queue.add("a")
    with caplog.at_level(logging.DEBUG):
        async with running(subject):
            await asyncio.sleep(5)
    ours = [record for record in caplog.records if record.name.startswith("controller_runtime")]
    assert ours
    assert all(record.levelno == logging.DEBUG for record in ours)


async def test_a_second_run_at_the_same_time_is_refused() -> None:
    subject = controller(Recorder())
    async with running(subject):
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="running already"):
            await subject.run()
