"""Leader election in the loop of the simulation: the product's `Campaign` and `Fence`, without the thread that production gives them."""

import asyncio
import contextlib

from controller_runtime.clock import Clock
from controller_runtime.election import Fence
from controller_runtime.election.campaign import Campaign, LeaseClient
from controller_runtime.election.lease import Timing

HEARD_AFTER = 1.0
"""Seconds until the main loop hears of a loss: in production another thread tells it, and until then only the fence holds it back."""


class LoopElector:
    """Implements what the manager needs of an elector, as `LeaderElector` does: not sought again before the next `wait_leading`."""

    def __init__(
        self, client: LeaseClient, *, namespace: str, name: str, identity: str, clock: Clock, fence: Fence
    ) -> None:
        self.fence = fence
        self.identity = identity
        self._campaign = Campaign(
            client,
            namespace=namespace,
            name=name,
            identity=identity,
            timing=Timing(lease_duration=30.0, renew_deadline=20.0, retry_period=5.0),
            clock=clock,
            fence=self.fence,
        )
        self._leading = asyncio.Event()
        self._lost = asyncio.Event()
        self._reason = ""
        self._task: asyncio.Task[None] | None = None

    async def wait_leading(self) -> None:
        """Seek the lease and return once it is held."""
        if self._task is None or self._task.done():
            self._lost.clear()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="election")
        await self._leading.wait()

    async def wait_lost(self) -> str:
        """Return once it is lost."""
        await self._lost.wait()
        return self._reason

    async def stop(self, *, release: bool | None = None) -> None:
        """End the election; release the lease unless `release` is False."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if release is not False:
            await self._campaign.release()

    async def _run(self) -> None:
        try:
            await self._campaign.win()
            self._leading.set()
            self._reason = await self._campaign.keep()
            await asyncio.sleep(HEARD_AFTER)
        finally:
            self.fence.close()
            self._leading.clear()
            self._lost.set()
