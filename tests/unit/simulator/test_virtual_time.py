"""Virtual time: an hour costs nothing, the order is always the same, and no rounding error makes it stand still."""

import asyncio

import pytest

from nodewright.simulator.virtual_time import EPOCH, LivelockError, VirtualClock, VirtualLoop, run_virtually


def test_an_hour_passes_at_once() -> None:
    async def main() -> tuple[float, float]:
        clock = VirtualClock()
        await clock.sleep(3600.0)
        return clock.monotonic(), clock.now().timestamp()

    assert run_virtually(main) == (3600.0, EPOCH + 3600.0)


def test_no_timer_is_called_before_its_time() -> None:
    """Whoever finds that there is a little left to wait would wait, and find the same, for ever."""

    async def main() -> list[float]:
        loop, early = asyncio.get_running_loop(), []
        for step in range(1, 400):
            due = loop.time() + step / 7.0

            def look(due: float = due) -> None:
                if loop.time() < due:
                    early.append(due - loop.time())

            loop.call_at(due, look)
            loop.call_at(due - 1e-10, lambda: None)
            await asyncio.sleep(step / 7.0 + 680.1)
        return early

    assert run_virtually(main) == []


def test_time_that_stands_still_is_an_error() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(LivelockError):
        run_virtually(main, loop=VirtualLoop(spin_limit=100))


def test_there_are_no_threads() -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run_virtually(main)
