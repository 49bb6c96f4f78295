"""The queue against its promises under random interleavings, in virtual time.

Invariants: no key is ever out twice at the same time, every key is handed out after its last add (none is lost), and
two hand-outs of one key are at least the interval apart.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine

import looptime
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_runtime.queue import Backoff, QueueShutDown, WorkQueue

KEYS = st.sampled_from("abc")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, st.sampled_from([0.0, 0.0, 0.3, 2.0]), st.sampled_from([-100, 0, 100])),
        st.tuples(st.just("fail"), KEYS, st.just(0.0), st.just(0)),
        st.tuples(st.just("pass"), st.just(""), st.sampled_from([0.0, 0.1, 0.5, 1.5]), st.just(0)),
        st.tuples(st.just("cancel"), st.just(""), st.just(0.0), st.integers(0, 2)),
    ),
    max_size=40,
)


class Crew:
    """Three workers that may be cancelled and replaced at any time, and a record of what they did."""

    def __init__(self, work: WorkQueue, *, interval: float, run_seconds: float) -> None:
        self.work = work
        self.interval = interval
        self.run_seconds = run_seconds
        self.out: set[str] = set()
        self.taken: dict[str, list[float]] = defaultdict(list)
        self.workers = [asyncio.create_task(self.worker()) for _ in range(3)]

    async def worker(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = (await self.work.get()).key
            try:
                assert key not in self.out, "one run per key"
                self.out.add(key)
                if self.taken[key]:
                    assert loop.time() - self.taken[key][-1] >= self.interval - 1e-9
                self.taken[key].append(loop.time())
                await asyncio.sleep(self.run_seconds)
            except asyncio.CancelledError:
                self.work.add(key)
                raise
            finally:
                self.out.discard(key)
                self.work.done(key)

    def cancel(self, number: int) -> None:
        self.workers[number].cancel()
        self.workers.append(self.workers[number])
        self.workers[number] = asyncio.create_task(self.worker())

    async def dismiss(self) -> None:
        self.work.shut_down()
        results = await asyncio.gather(*self.workers, return_exceptions=True)
        for result in results:
            if isinstance(result, AssertionError):
                raise result
            assert isinstance(result, QueueShutDown | asyncio.CancelledError)


async def play(steps: list[tuple[str, str, float, int]], interval: float, run_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    work = WorkQueue("model", min_interval=interval, backoff=Backoff())
    crew = Crew(work, interval=interval, run_seconds=run_seconds)
    last_add: dict[str, float] = {}
    for action, key, seconds, number in steps:
        match action:
            case "add":
                work.add(key, after=seconds, priority=number)
                last_add[key] = loop.time()
            case "fail":
                work.add_rate_limited(key)
                last_add[key] = loop.time()
            case "pass":
                await asyncio.sleep(seconds)
            case _:
                crew.cancel(number)
    await asyncio.sleep(60)
    for key, time in last_add.items():
        assert crew.taken[key], f"{key} was never handed out"
        assert crew.taken[key][-1] >= time, f"{key} was not handed out after its last add"
    assert len(work) == 0
    assert not crew.out
    await crew.dismiss()


def in_virtual_time(coroutine: Coroutine[None, None, None]) -> None:
    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(coroutine)
    finally:
        loop.close()


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, interval=st.sampled_from([0.0, 1.0]), run_seconds=st.sampled_from([0.0, 0.2, 1.2]))
def test_no_interleaving_loses_a_key_or_runs_it_twice_at_once(
    steps: list[tuple[str, str, float, int]], interval: float, run_seconds: float
) -> None:
    """Traps 19, 20 and 21."""
    in_virtual_time(play(steps, interval, run_seconds))
