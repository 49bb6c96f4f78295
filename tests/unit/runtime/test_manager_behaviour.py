"""Start and stop order, leadership, failures and signals."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controller_runtime.election import Fence, NotLeaderError
from controller_runtime.election.fence import Moment
from controller_runtime.manager import Manager, Stage
from tests.unit.runtime.leases import LoopClock

looptime = pytest.mark.looptime
Log = list[str]


def now() -> float:
    return asyncio.get_running_loop().time()


class Part:
    """A part that writes down what happens to it."""

    def __init__(self, name: str, log: Log, *, stop_seconds: float = 0.0, error: Exception | None = None) -> None:
        self.name = name
        self.log = log
        self.stop_seconds = stop_seconds
        self.error = error
        self.runs = 0

    async def run(self) -> None:
        self.log.append(f"+{self.name}")
        self.runs += 1
        try:
            if self.error is not None:
                await asyncio.sleep(1)
                raise self.error
            await asyncio.Event().wait()
        finally:
            if self.stop_seconds:
                await shielded_sleep(self.stop_seconds)
            self.log.append(f"-{self.name}")


async def shielded_sleep(seconds: float) -> None:
    """Ignore cancellation for a while, as a bad worker does."""
    end = now() + seconds
    while (left := end - now()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


class Cache(Part):
    """A part that is synced after some seconds."""

    def __init__(self, name: str, log: Log, *, seconds: float) -> None:
        super().__init__(name, log)
        self.seconds = seconds

    async def wait_synced(self) -> None:
        await asyncio.sleep(self.seconds)
        self.log.append(f"{self.name} synced")


class Recorder(Part):
    """A part with something to send."""

    async def flush(self, timeout: float) -> None:  # noqa: ASYNC109
        self.log.append("flush")
        await asyncio.sleep(3600)


class Election:
    """An elector driven by the test."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.clock = LoopClock()
        self.fence = Fence(self.clock)
        self.won = asyncio.Event()
        self.lost = asyncio.Event()

    def win(self) -> None:
        self.lost.clear()
        self.fence.open_from(Moment.read(self.clock), lease_seconds=15, margin=5)
        self.won.set()

    def lose(self) -> None:
        self.won.clear()
        self.fence.close()
        self.lost.set()

    async def wait_leading(self) -> None:
        self.log.append("seek")
        await self.won.wait()

    async def wait_lost(self) -> str:
        await self.lost.wait()
        return "the test says so"

    async def stop(self, *, release: bool | None = None) -> None:
        self.log.append("keep lease" if release is False else "release")


class Exits(list[int]):
    def __call__(self, code: int) -> None:
        self.append(code)


def manager(elector: Election | None = None, exits: Exits | None = None, *, linger: float = 0.0) -> Manager:
    return Manager(
        LoopClock(),
        elector=elector,
        handle_signals=False,
        exit_process=Exits() if exits is None else exits,
        linger=linger,
    )


@asynccontextmanager
async def running(subject: Manager) -> AsyncIterator[asyncio.Task[int]]:
    task = asyncio.create_task(subject.run())
    try:
        yield task
    finally:
        subject.stop()
        await task
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "no leaked task"


@looptime
async def test_stages_start_in_order_after_the_caches_are_synced_and_stop_in_reverse() -> None:
    """Trap 45."""
    log: Log = []
    election = Election(log)
    subject = manager(election)
    for stage in (Stage.LEADER, Stage.WARM, Stage.HTTP):
        subject.add(Part(stage.name, log), stage)
    subject.add(Cache("nodes", log, seconds=1), Stage.CACHES)
    subject.add(Cache("jobs", log, seconds=2), Stage.CACHES)
    election.win()
    async with running(subject):
        await asyncio.sleep(10)
        assert log == ["+HTTP", "+nodes", "+jobs", "nodes synced", "jobs synced", "+WARM", "seek", "+LEADER"]
        log.clear()
    assert log == ["-LEADER", "release", "-WARM", "-nodes", "-jobs", "-HTTP"]


@looptime
async def test_without_an_elector_the_leader_stage_starts_at_once() -> None:
    log: Log = []
    subject = manager()
    subject.add(Part("leader", log), Stage.LEADER)
    async with running(subject) as run:
        await asyncio.sleep(1)
        assert log == ["+leader"]
    assert run.result() == 0


@looptime
async def test_what_keeps_a_stage_waiting_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Trap 48."""
    subject = manager()
    subject.add(Cache("nodes", [], seconds=10_000), Stage.CACHES)
    async with running(subject):
        await asyncio.sleep(65)
    assert caplog.text.count("stage CACHES still waits for nodes") == 2


@looptime
async def test_a_standby_has_its_caches_and_no_leader_parts() -> None:
    log: Log = []
    subject = manager(Election(log))
    subject.add(Part("cache", log), Stage.CACHES)
    subject.add(Part("leader", log), Stage.LEADER)
    async with running(subject):
        await asyncio.sleep(100)
        assert log == ["+cache", "seek"]


@looptime
async def test_losing_the_lease_stops_the_leader_stage_only_and_leads_again_when_won() -> None:
    """CON-26."""
    log: Log = []
    election, exits = Election(log), Exits()
    subject = manager(election, exits)
    subject.add(Part("cache", log), Stage.CACHES)
    subject.add(Part("leader", log), Stage.LEADER)
    async with running(subject) as run:
        for _ in range(3):
            election.win()
            await asyncio.sleep(10)
            election.lose()
            await asyncio.sleep(10)
        assert not run.done()
    assert log[:-2] == ["+cache"] + ["seek", "+leader", "-leader"] * 3 + ["seek"]
    assert exits == []
    assert run.result() == 0


@looptime
async def test_the_lease_is_sought_again_only_after_the_workers_have_ended() -> None:
    """Trap 28: cancelled and awaited."""
    log: Log = []
    election = Election(log)
    subject = manager(election)
    subject.add(Part("slow", log, stop_seconds=3), Stage.LEADER)
    election.win()
    async with running(subject):
        await asyncio.sleep(5)
        election.lose()
        await asyncio.sleep(5)
        assert log == ["seek", "+slow", "-slow", "seek"]


@looptime
async def test_a_worker_that_would_outlive_the_lease_ends_the_process_before_it_runs_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Trap 28: lost at 10 s, the lease runs out at 15 s."""
    log: Log = []
    exited_at: list[float] = []
    election = Election(log)
    subject = Manager(
        LoopClock(), elector=election, handle_signals=False, exit_process=lambda code: exited_at.append(now())
    )
    subject.add(Part("stubborn", log, stop_seconds=60), Stage.LEADER)
    election.win()
    async with running(subject):
        await asyncio.sleep(10)
        election.lose()
        await asyncio.sleep(120)
    assert exited_at == [14.75]
    assert "still running although the lease is lost: stubborn" in caplog.text


@looptime
async def test_after_a_stuck_worker_the_lease_is_not_released() -> None:
    """Trap 29."""
    log: Log = []
    election, exits = Election(log), Exits()
    subject = manager(election, exits)
    subject.add(Part("stubborn", log, stop_seconds=100), Stage.LEADER)
    subject.add(Part("cache", log), Stage.CACHES)
    election.win()
    async with running(subject):
        await asyncio.sleep(1)
    assert "keep lease" in log
    assert "release" not in log
    assert log.index("-cache") < log.index("-stubborn"), "the others are stopped in time"
    assert exits == [1]


@looptime
async def test_the_lease_is_released_although_the_run_is_cancelled() -> None:
    """Trap 31."""
    log: Log = []
    election = Election(log)
    subject = manager(election)
    subject.add(Part("slow", log, stop_seconds=3), Stage.LEADER)
    election.win()
    run = asyncio.create_task(subject.run())
    await asyncio.sleep(1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert log == ["seek", "+slow", "-slow", "release"]


@looptime
async def test_the_recorder_is_flushed_last_and_for_five_and_a_half_seconds_at_most() -> None:
    """Trap 46."""
    log: Log = []
    subject = manager()
    subject.add(Recorder("recorder", log), Stage.HTTP)
    subject.add(Part("cache", log), Stage.CACHES)
    subject.add(Part("leader", log), Stage.LEADER)
    async with running(subject):
        await asyncio.sleep(1)
    assert log[3:] == ["-leader", "-cache", "flush", "-recorder"]
    assert now() == pytest.approx(6.5)


@looptime
async def test_a_stop_during_a_loss_cancels_the_workers_only_once() -> None:
    """Trap 28: a second cancellation would cut off a worker's clean-up."""
    log: Log = []

    class CleansUp:
        name = "worker"

        async def run(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(2)
                log.append("cleaned up")

    election = Election(log)
    subject = manager(election)
    subject.add(CleansUp(), Stage.LEADER)
    election.win()
    async with running(subject):
        await asyncio.sleep(1)
        election.lose()
        await asyncio.sleep(1)
        subject.stop()
    assert log == ["seek", "cleaned up", "release"]


@looptime
async def test_http_goes_on_serving_while_endpoints_still_name_this_process() -> None:
    """Trap 45: readiness fails first."""
    log: Log = []
    subject = manager(linger=4)
    subject.add(Part("http", log), Stage.HTTP)
    subject.add(Part("cache", log), Stage.CACHES)
    async with running(subject):
        await asyncio.sleep(1)
        assert not subject.is_stopping
        subject.stop()
        assert subject.is_stopping
        await asyncio.sleep(3)
        assert log == ["+http", "+cache", "-cache"]
    assert now() == pytest.approx(5)


@looptime
async def test_the_first_failure_ends_the_process_in_order_and_decides_the_exit_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log: Log = []
    election = Election(log)
    subject = manager(election)
    subject.add(Part("http", log), Stage.HTTP)
    group = ExceptionGroup("several", [ValueError("first leaf"), KeyError("second leaf")])
    subject.add(Part("broken", log, error=group), Stage.WARM)
    subject.add(Part("leader", log), Stage.LEADER)
    election.win()
    async with running(subject) as run:
        assert await run == 1
    assert log == ["+http", "+broken", "seek", "+leader", "-broken", "-leader", "release", "-http"]
    lines = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert lines == ["broken failed: first leaf", "broken failed: 'second leaf'"], "each leaf once"


@looptime
async def test_a_write_refused_by_the_fence_is_no_failure_of_the_process() -> None:
    """CON-26."""
    log: Log = []
    election = Election(log)
    subject = manager(election)
    subject.add(Part("leader", log, error=ExceptionGroup("", [NotLeaderError("lost")])), Stage.LEADER)
    election.win()
    async with running(subject) as run:
        await asyncio.sleep(2)
        election.lose()
        await asyncio.sleep(2)
        election.win()
        await asyncio.sleep(2)
        assert log.count("+leader") == 2
    assert run.result() == 0


@looptime
async def test_a_stop_before_everything_has_started_stops_what_has() -> None:
    for moment in range(12):
        log: Log = []
        election = Election(log)
        election.win()
        subject = manager(election)
        for stage in Stage:
            subject.add(Part(stage.name, log), stage)
        async with running(subject):
            for _ in range(moment):
                await asyncio.sleep(0)
        assert sorted(it[1:] for it in log if it[0] == "+") == sorted(it[1:] for it in log if it[0] == "-"), moment
        assert "release" in log


async def test_two_parts_of_one_name_are_refused() -> None:
    subject = manager()
    subject.add(Part("a", []), Stage.HTTP)
    with pytest.raises(ValueError, match="two parts are named 'a'"):
        subject.add(Part("a", []), Stage.WARM)


_PROCESS = """
import asyncio, sys
from controller_runtime.manager import Manager, Stage

class Part:
    async def run(self):
        print("running", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            print("stopping", flush=True)
            for _ in range(1000):
                try:
                    await asyncio.sleep({stop_seconds})
                    break
                except asyncio.CancelledError:
                    pass

manager = Manager()
manager.add(Part(), Stage.WARM)
sys.exit(asyncio.run(manager.run()))
"""


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_a_clean_stop(first: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROCESS.format(stop_seconds=0.2)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        os.kill(process.pid, first)
        assert process.stdout.readline() == "stopping\n"
        assert process.wait(timeout=10) == 0


def test_the_second_signal_exits_at_once() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROCESS.format(stop_seconds=25)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=10) == 1
