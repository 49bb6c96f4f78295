"""Obtaining, keeping, losing and releasing a lease, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import anyio
import pytest

from controller_runtime.election.campaign import Campaign
from controller_runtime.election.fence import Fence, Moment, NotLeaderError
from controller_runtime.election.lease import Timing
from controller_runtime.micro_time import micro_time
from controller_runtime.transport import TransportError
from tests.unit.runtime.leases import LeaseServer, LoopClock, hang

pytestmark = pytest.mark.looptime


class Candidate:
    def __init__(self, server: LeaseServer, identity: str = "me", clock: LoopClock | None = None) -> None:
        self.clock = clock or LoopClock()
        self.fence = Fence(self.clock)
        self.campaign = Campaign(
            server,
            namespace="ns",
            name="lease",
            identity=identity,
            timing=Timing(),
            clock=self.clock,
            fence=self.fence,
            uniform=lambda: 0.0,
        )


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def keeping(candidate: Candidate) -> AsyncIterator[asyncio.Task[str]]:
    await candidate.campaign.win()
    task = asyncio.create_task(candidate.campaign.keep())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_lease_that_is_not_there_is_created_and_renewed_every_two_seconds() -> None:
    server = LeaseServer()
    async with keeping(Candidate(server)):
        await asyncio.sleep(9)
    assert server.writes() == [("create", "me")] + [("replace", "me")] * 4
    assert server.spec["leaseDurationSeconds"] == 15
    assert server.spec["leaseTransitions"] == 0


async def test_a_write_keeps_what_it_does_not_know() -> None:
    server = LeaseServer()
    server.set(holderIdentity="", strategy="OldestEmulationVersion", leaseTransitions=7)
    async with keeping(Candidate(server)):
        pass
    assert server.lease is not None
    assert server.lease["metadata"]["labels"] == {"a": "b"}
    assert server.spec["strategy"] == "OldestEmulationVersion"
    assert server.spec["leaseTransitions"] == 8


@pytest.mark.parametrize("skew", [3600, -3600])
async def test_a_holder_with_a_wrong_clock_is_respected_for_exactly_its_own_duration(skew: float) -> None:
    """Trap 24: neither its renewTime nor our leaseDurationSeconds counts."""
    server, me = LeaseServer(), Candidate(LeaseServer())
    me = Candidate(server)
    server.set(
        holderIdentity="other",
        leaseDurationSeconds=40,
        renewTime=micro_time(datetime.fromtimestamp(1_767_225_600 + skew, UTC)),
    )
    await me.campaign.win()
    assert 40 <= now() <= 42


async def test_a_sign_of_life_restarts_the_wait() -> None:
    """Trap 24."""
    server = LeaseServer()
    me = Candidate(server)
    server.set(holderIdentity="other", leaseDurationSeconds=15, renewTime="1")
    win = asyncio.create_task(me.campaign.win())
    await asyncio.sleep(13.5)
    server.set(renewTime="0")  # changed, even if it went back
    await win
    assert 28.5 <= now() <= 31


async def test_a_released_lease_is_taken_at_once() -> None:
    server = LeaseServer()
    server.set(holderIdentity="", leaseDurationSeconds=1, renewTime="1")
    await Candidate(server).campaign.win()
    assert now() == 0


async def test_candidates_wait_with_jitter() -> None:
    server = LeaseServer()
    server.set(holderIdentity="other", leaseDurationSeconds=1000)
    me = Candidate(server)
    me.campaign._uniform = lambda: 1.0
    task = asyncio.create_task(me.campaign.win())
    await asyncio.sleep(9)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(server.requests) == 4, "at 0, 2.5, 5 and 7.5 s"


async def test_a_lease_that_is_released_while_a_candidate_waits_is_taken_within_three_seconds() -> None:
    """CON-26: retried every 2 s. A rolling restart costs no more than that, whatever the jitter."""
    server = LeaseServer()
    server.set(holderIdentity="other", leaseDurationSeconds=15)
    me = Candidate(server)
    me.campaign._uniform = lambda: 1.0
    task = asyncio.create_task(me.campaign.win())
    await asyncio.sleep(0.1)
    server.set(holderIdentity="", leaseDurationSeconds=1)
    await task
    assert now() <= 3


class UnevenClock(LoopClock):
    """Its differences are a hair smaller than what was slept, as those of floating point numbers are."""

    def monotonic(self) -> float:
        return super().monotonic() * (1 - 1e-5)


async def test_what_rounding_leaves_of_the_deadline_is_not_tried_in() -> None:
    """Seed 449 of the simulation: 20 s less 20 s were 7e-15 s, for which the time did not go on, so that they were left for ever."""
    server = LeaseServer()
    me = Candidate(server, clock=UnevenClock())
    begun: list[float] = []

    async def hanging(verb: str) -> None:
        begun.append(now())
        await hang(verb)

    async with keeping(me) as keep:
        server.before = hanging
        await keep
    assert begun == pytest.approx([2, 8], abs=0.01)


async def test_a_renewal_that_hangs_loses_the_lease_at_ten_seconds_and_not_later() -> None:
    """Trap 25."""
    server = LeaseServer()
    me = Candidate(server)
    async with keeping(me) as keep:
        server.before = hang
        await keep
        assert now() == pytest.approx(10)
    assert not me.fence.is_open


async def test_one_hanging_request_leaves_time_for_a_second_try() -> None:
    """Trap 25: each request may take half the deadline."""
    server = LeaseServer()

    async def first_put_hangs(verb: str) -> None:
        if verb == "replace" and len(server.writes()) == 2:
            await hang(verb)

    server.before = first_put_hangs
    async with keeping(Candidate(server)) as keep:
        await asyncio.sleep(60)
        assert not keep.done()


@pytest.mark.parametrize("step", [3600, -3600])
async def test_a_step_of_the_wall_clock_changes_nothing(step: float) -> None:
    """Trap 25."""
    server = LeaseServer()
    me = Candidate(server)
    async with keeping(me) as keep:
        await asyncio.sleep(5)
        me.clock.wall_step = step
        await asyncio.sleep(60)
        assert not keep.done()
        assert me.fence.is_open


async def test_a_suspended_machine_has_lost_the_lease() -> None:
    """Trap 26: CLOCK_MONOTONIC did not see it, CLOCK_BOOTTIME did."""
    server = LeaseServer()
    me = Candidate(server)
    async with keeping(me) as keep:
        await asyncio.sleep(3)
        me.clock.suspended += 16
        with pytest.raises(NotLeaderError):
            me.fence.check()
        puts = len(server.writes())
        assert "suspended" in await keep
        assert now() <= 4
        assert len(server.writes()) == puts, "nothing was renewed"


async def test_a_conflict_is_no_loss() -> None:
    """Trap 27."""
    server = LeaseServer()
    me = Candidate(server)
    async with keeping(me) as keep:
        await asyncio.sleep(1)
        server.set()  # somebody put a label on it
        await asyncio.sleep(30)
        assert not keep.done()
        assert me.fence.is_open
    assert ("get", "") in server.requests


async def test_another_holder_is_a_loss_at_once() -> None:
    server = LeaseServer()
    me = Candidate(server)
    async with keeping(me) as keep:
        await asyncio.sleep(1)
        server.set(holderIdentity="other")
        assert "other" in await keep
        assert now() == 2
        assert not me.fence.is_open
        assert me.fence.expires_at <= now(), "it may act already"


async def test_a_server_away_for_eight_seconds_costs_nothing() -> None:
    server = LeaseServer()

    async def away(verb: str) -> None:
        if 1 < now() < 9:
            raise TransportError("refused", sent=False)

    server.before = away
    async with keeping(Candidate(server)) as keep:
        await asyncio.sleep(60)
        assert not keep.done()


async def test_a_candidate_waits_out_a_server_that_is_away() -> None:
    server = LeaseServer()

    async def away(verb: str) -> None:
        if now() < 600:
            raise TransportError("refused", sent=False)

    server.before = away
    await Candidate(server).campaign.win()
    assert 600 <= now() <= 602


async def test_an_answer_lost_on_the_way_is_found_by_reading() -> None:
    """Trap 27: the write was executed, the answer never came; the next write meets a conflict with itself."""
    server = LeaseServer()

    async def lost(verb: str) -> None:
        if verb == "replace" and len(server.writes()) == 3:
            raise TransportError("cut", sent=None)

    server.after = lost
    async with keeping(Candidate(server)) as keep:
        await asyncio.sleep(60)
        assert not keep.done()


async def test_a_deleted_lease_is_created_again() -> None:
    server = LeaseServer()
    async with keeping(Candidate(server)) as keep:
        await asyncio.sleep(1)
        server.lease = None
        await asyncio.sleep(10)
        assert not keep.done()
        assert server.spec["holderIdentity"] == "me"


async def test_of_two_candidates_never_both_fences_are_open() -> None:
    """Trap 33, with a server that is away for one of them at random times."""
    server = LeaseServer()
    one, two = Candidate(server, "one"), Candidate(server, "two")

    async def campaign(candidate: Candidate) -> None:
        while True:
            await candidate.campaign.win()
            await candidate.campaign.keep()

    cut_off: set[str] = set()

    async def partition(verb: str) -> None:
        if server.requests[-1][1] in cut_off:
            await hang(verb)

    server.before = partition
    tasks = [asyncio.create_task(campaign(it)) for it in (one, two)]
    leaders = set()
    for second in range(0, 600, 1):
        cut_off.clear()
        match second // 40 % 3:
            case 1:
                cut_off.add("one")
            case 2:
                cut_off.add("two")
        await asyncio.sleep(1)
        assert not (one.fence.is_open and two.fence.is_open)
        leaders |= {it for it in ("one", "two") if {"one": one, "two": two}[it].fence.is_open}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert leaders == {"one", "two"}, "the scenario did move the lease"


async def test_a_frozen_leader_finds_its_fence_closed_when_it_goes_on() -> None:
    """Trap 33: no code of ours ran in between; the clock alone closes the fence."""
    clock = LoopClock()
    fence = Fence(clock)
    fence.open_from(Moment.read(clock), lease_seconds=15, margin=5)
    fence.check()
    await asyncio.sleep(9.9)
    fence.check()
    await asyncio.sleep(0.1)
    with pytest.raises(NotLeaderError, match=r"10\.0 s ago"):
        fence.check()
    assert fence.valid_until == 10
    assert fence.expires_at == 15


async def test_the_fence_counts_from_the_start_of_the_renewal_not_from_its_answer() -> None:
    """Trap 33."""
    server = LeaseServer()

    async def slow(verb: str) -> None:
        await asyncio.sleep(4)

    server.after = slow
    me = Candidate(server)
    server.set(holderIdentity="")
    await me.campaign.win()
    assert now() == 8
    assert me.fence.valid_until == 14, "the write began at 4 s"


async def test_a_fence_is_closed_before_the_first_term() -> None:
    with pytest.raises(NotLeaderError):
        Fence(LoopClock()).check()


async def test_release_frees_the_lease_for_the_next() -> None:
    server = LeaseServer()
    me = Candidate(server)
    await me.campaign.win()
    assert await me.campaign.release()
    assert server.spec["holderIdentity"] == ""
    assert not me.fence.is_open
    await Candidate(server, "other").campaign.win()
    assert now() == 0


async def test_release_never_blanks_a_lease_another_has_just_taken() -> None:
    """Trap 30."""
    server = LeaseServer()
    me = Candidate(server)
    await me.campaign.win()
    server.set(holderIdentity="other")
    puts = len(server.writes())
    assert not await me.campaign.release()
    assert len(server.writes()) == puts


async def test_release_is_conditional_on_the_version_it_read() -> None:
    """Trap 30: taken between the read and the write."""
    server = LeaseServer()
    me = Candidate(server)
    await me.campaign.win()

    async def swap(verb: str) -> None:
        if verb == "get":
            server.set(holderIdentity="other")

    server.after = swap
    assert not await me.campaign.release()
    assert server.spec["holderIdentity"] == "other"


async def test_release_is_sent_although_everything_around_is_cancelled() -> None:
    """Trap 31."""
    server = LeaseServer()
    me = Candidate(server)
    await me.campaign.win()

    async def takes_a_moment(verb: str) -> None:
        await asyncio.sleep(0.5)

    server.before = takes_a_moment
    with anyio.CancelScope() as scope:
        scope.cancel()
        await me.campaign.release()
    assert server.spec["holderIdentity"] == ""


async def test_release_gives_up_after_four_seconds() -> None:
    """Trap 31."""
    server = LeaseServer()
    me = Candidate(server)
    await me.campaign.win()
    server.before = hang
    assert not await me.campaign.release()
    assert now() == 4


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_micro_time_has_six_digits_in_utc(zone: str) -> None:
    """Trap 32."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 0, tzinfo=UTC).astimezone(ZoneInfo(zone))
    assert micro_time(moment) == "2026-01-02T03:04:05.000000Z"


@pytest.mark.parametrize(
    "numbers", [(10.0, 10.0, 2.0), (15.0, 2.4, 2.0), (15.0, 10.0, 0.0), (15.5, 10.0, 2.0), (15.0, 20.0, 2.0)]
)
def test_timings_that_cannot_work_are_refused(numbers: tuple[float, float, float]) -> None:
    lease, renew, retry = numbers
    with pytest.raises(ValueError, match="lease_duration"):
        Timing(lease_duration=lease, renew_deadline=renew, retry_period=retry)


async def test_a_campaign_cancelled_at_any_moment_leaves_the_fence_closed() -> None:
    """Trap 31: cancel after each possible number of loop turns."""

    async def turn(verb: str) -> None:
        await asyncio.sleep(0)

    for moment in range(20):
        server = LeaseServer()
        server.before = server.after = turn
        me = Candidate(server)

        async def both(me: Candidate = me) -> None:
            await me.campaign.win()
            await me.campaign.keep()

        task = asyncio.create_task(both())
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await me.campaign.release()
        assert not me.fence.is_open
        assert server.lease is None or server.spec["holderIdentity"] == ""
    assert asyncio.all_tasks() == {asyncio.current_task()}
