"""The elector in its thread, in real time with short leases, and a real process that is stopped and continued."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from controller_runtime.election import LeaderElector, NotLeaderError
from controller_runtime.transport import TransportError
from tests.unit.runtime.leases import LeaseServer


class Gauge:
    def __init__(self) -> None:
        self.values: list[tuple[str, bool]] = []

    def leading(self, *, name: str, is_leader: bool) -> None:
        self.values.append((name, is_leader))

    def slow_path(self, *, name: str) -> None:
        pass


def elector(server: LeaseServer, identity: str = "me", gauge: Gauge | None = None) -> LeaderElector:
    @asynccontextmanager
    async def connect() -> AsyncIterator[LeaseServer]:
        yield server

    return LeaderElector(
        None,
        "ns",
        "lease",
        identity,
        lease_duration=1,
        renew_deadline=0.6,
        retry_period=0.1,
        connect=connect,
        metrics=gauge,
    )


def election_threads() -> list[threading.Thread]:
    return [it for it in threading.enumerate() if it.name == "leader-election"]


async def test_it_leads_opens_the_fence_and_releases_on_stop() -> None:
    """Trap 29: the caller says that its workers are gone."""
    server, gauge = LeaseServer(), Gauge()
    subject = elector(server, gauge=gauge)
    with pytest.raises(NotLeaderError):
        subject.fence.check()
    async with asyncio.timeout(5):
        await subject.wait_leading()
        subject.fence.check()
        await subject.stop()
    assert server.spec["holderIdentity"] == ""
    assert gauge.values == [("lease", False), ("lease", True), ("lease", False)]
    assert not subject.fence.is_open
    assert not election_threads()


async def test_after_a_stuck_worker_nothing_is_released() -> None:
    """Trap 29."""
    server = LeaseServer()
    subject = elector(server)
    async with asyncio.timeout(5):
        await subject.wait_leading()
        await subject.stop(release=False)
    assert server.spec["holderIdentity"] == subject.identity


async def test_the_release_is_sent_although_the_stop_is_cancelled() -> None:
    """Trap 31."""
    server = LeaseServer()
    subject = elector(server)
    async with asyncio.timeout(5):
        await subject.wait_leading()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await subject.stop()
    assert server.spec["holderIdentity"] == ""


async def test_a_stall_of_the_main_loop_does_not_cost_the_lease() -> None:
    server = LeaseServer()
    subject = elector(server)
    async with asyncio.timeout(10):
        await subject.wait_leading()
        time.sleep(1.5)  # noqa: ASYNC251 - the stall is the point
        subject.fence.check()
        await asyncio.sleep(0)
        assert subject.is_leading
        await subject.stop()


async def test_after_a_loss_the_lease_is_sought_only_when_the_main_loop_asks_again() -> None:
    """Trap 28."""
    server = LeaseServer()
    subject = elector(server)
    async with asyncio.timeout(10):
        await subject.wait_leading()
        server.set(holderIdentity="other", leaseDurationSeconds=1)
        assert "other" in await subject.wait_lost()
        assert not subject.is_leading
        before = len(server.requests)
        await asyncio.sleep(1.5)
        assert len(server.requests) == before
        await subject.wait_leading()
        assert server.spec["holderIdentity"] == subject.identity
        await subject.stop()


async def test_a_failure_in_the_thread_loses_the_lease_and_the_thread_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CON-26: nothing about the lease ends the process."""
    server = LeaseServer()
    subject = elector(server)

    async def bug(verb: str) -> None:
        raise ZeroDivisionError

    async with asyncio.timeout(10):
        await subject.wait_leading()
        server.before = bug
        assert "failed" in await subject.wait_lost()
        assert not subject.fence.is_open
        server.before = None
        await subject.wait_leading()
        await subject.stop()
    assert "begins anew" in caplog.text


async def test_an_api_server_that_is_away_loses_the_lease_and_nothing_else() -> None:
    """CON-26."""
    server = LeaseServer()
    subject = elector(server)

    async def away(verb: str) -> None:
        raise TransportError("refused", sent=False)

    async with asyncio.timeout(10):
        await subject.wait_leading()
        server.before = away
        await subject.wait_lost()
        server.before = None
        await subject.wait_leading()
        await subject.stop()


async def test_stop_without_a_start_does_nothing() -> None:
    await elector(LeaseServer()).stop()


_FROZEN = """
import asyncio, os, sys
from contextlib import asynccontextmanager
from controller_runtime.election import LeaderElector, NotLeaderError
from tests.unit.runtime.leases import LeaseServer

@asynccontextmanager
async def connect():
    yield server

async def main():
    timing = {"lease_duration": 2, "renew_deadline": 1, "retry_period": 0.2}
    subject = LeaderElector(None, "ns", "lease", "me", connect=connect, **timing)
    await subject.wait_leading()
    subject.fence.check()
    print("leading", flush=True)
    sys.stdin.readline()  # the parent stops and continues this process here: nothing of it runs in between
    try:
        subject.fence.check()
        print("wrote")
    except NotLeaderError as error:
        print("refused")
    os._exit(0)

server = LeaseServer()
asyncio.run(main())
"""


def test_a_process_that_was_stopped_and_continued_refuses_its_next_write() -> None:
    """Trap 33, with SIGSTOP and SIGCONT."""
    with subprocess.Popen(
        [sys.executable, "-c", _FROZEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "leading\n"
        os.kill(process.pid, signal.SIGSTOP)
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(1.3)
        os.kill(process.pid, signal.SIGCONT)
        answer = process.stdout.readline()
    assert answer == "refused\n"
