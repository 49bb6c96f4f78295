"""The elector: runs a campaign in a thread of its own and tells the main loop how it goes.

A stall of the main loop (a long computation, a burst of decoding) must not cost the lease, so the thread has its own
event loop and its own client. The two sides talk one way each: the main loop arms, stops; the thread opens and closes
the fence, and posts "leading" and "lost" to the main loop.

Relies on `campaign`. Relied on by `manager`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio

from controller_runtime.clock import Clock, SystemClock
from controller_runtime.election.campaign import RELEASE_SECONDS, Campaign, LeaseClient
from controller_runtime.election.fence import Fence
from controller_runtime.election.lease import Timing
from controller_runtime.observability.protocols import ElectionMetrics
from controller_runtime.transport import Client, ClientConfig

_logger = logging.getLogger(__name__)
_STOP_SECONDS = RELEASE_SECONDS + 2.0

Connect = Callable[[], AbstractAsyncContextManager[LeaseClient]]


class LeaderElector:
    """Holds a lease for this process, or waits for it.

    Guarantees
    - `fence` is open only while the lease is surely ours; closing it needs no cooperation of the main loop.
    - After a loss the lease is not sought again before the next `wait_leading`: whoever calls that says that the
      workers of the last term are gone (trap 28).
    - Losing the lease, or the API server, ends nothing here.

    `identity` gets a random suffix, so that two processes of one name are two candidates. `connect` replaces the
    client, which is otherwise made from `config`, without a fence.
    """

    def __init__(
        self,
        config: ClientConfig | None,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        release: bool = True,
        user_agent: str = "controller-runtime/leader-election",
        clock: Clock | None = None,
        metrics: ElectionMetrics | None = None,
        connect: Connect | None = None,
    ) -> None:
        if config is None and connect is None:
            raise ValueError("an elector needs a config or a way to connect")
        self.timing = Timing(lease_duration=lease_duration, renew_deadline=renew_deadline, retry_period=retry_period)
        self.identity = f"{identity}_{uuid.uuid4().hex[:8]}"
        self._clock = SystemClock() if clock is None else clock
        self.fence = Fence(self._clock)
        self._namespace = namespace
        self._name = name
        self._release = release
        self._metrics = metrics
        self._connect = connect or (lambda: Client(_given(config), user_agent=user_agent, clock=self._clock))
        # the main loop's side
        self._main: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._campaigning = False
        self._leading = asyncio.Event()
        self._lost = asyncio.Event()
        self._ended = asyncio.Event()
        self._reason = ""
        # the thread's side
        self._loop: asyncio.AbstractEventLoop | None = None
        self._armed = asyncio.Event()
        self._scope: anyio.CancelScope | None = None
        self._stopping = False
        self._release_at_end = False
        if metrics is not None:
            metrics.leading(name=name, is_leader=False)

    @property
    def is_leading(self) -> bool:
        """Whether the main loop was told that the lease is held."""
        return self._leading.is_set()

    async def wait_leading(self) -> None:
        """Seek the lease and return once it is held. Says that no worker of an earlier term is left."""
        loop = self._start()
        if not self._campaigning:
            self._campaigning = True
            self._lost.clear()
            loop.call_soon_threadsafe(self._armed.set)
        await self._leading.wait()

    async def wait_lost(self) -> str:
        """Return once the lease is lost, with the reason."""
        await self._lost.wait()
        return self._reason

    async def stop(self, *, release: bool | None = None) -> None:
        """End the election within six seconds, even while being cancelled (trap 31).

        The lease is released if `release` says so (default: as constructed). Say False while a worker may still be
        running: then it must run out (trap 29).
        """
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or self._ended.is_set():
            return
        wanted = self._release if release is None else release
        loop.call_soon_threadsafe(self._request_stop, wanted)
        with anyio.move_on_after(_STOP_SECONDS, shield=True):
            await self._ended.wait()
        if self._ended.is_set():
            thread.join(timeout=1.0)
        else:
            _logger.warning("the election of %s/%s did not end in time", self._namespace, self._name)

    # -------------------------------------------------------------------------------- in the main loop's thread

    def _start(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._main = asyncio.get_running_loop()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._run_thread, args=(self._loop,), name="leader-election", daemon=True
            )
            self._thread.start()
        return self._loop

    def _on_leading(self) -> None:
        self._leading.set()

    def _on_lost(self, reason: str) -> None:
        self._campaigning = False
        self._reason = reason
        self._leading.clear()
        self._lost.set()

    # ------------------------------------------------------------------------------------ in the election's thread

    def _run_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._serve())
        finally:
            self.fence.close()
            self._post(self._on_lost, "the election has ended")
            self._post(self._ended.set)

    async def _serve(self) -> None:
        while not self._stopping:
            try:
                await self._take_part()
            except Exception:
                # Nothing here may end the process: close the fence, say so, begin anew.
                _logger.exception("the election of %s/%s begins anew", self._namespace, self._name)
                self.fence.close()
                self._post(self._on_lost, "the election failed")
                await self._clock.sleep(self.timing.retry_period)

    async def _take_part(self) -> None:
        async with self._connect() as client:
            campaign = Campaign(
                client,
                namespace=self._namespace,
                name=self._name,
                identity=self.identity,
                timing=self.timing,
                clock=self._clock,
                fence=self.fence,
                metrics=self._metrics,
            )
            # The scope ends before the release and before the client closes: neither may be cut off (trap 31).
            with anyio.CancelScope() as self._scope:
                while not self._stopping:
                    await self._armed.wait()
                    self._armed.clear()
                    await campaign.win()
                    self._post(self._on_leading)
                    self._post(self._on_lost, await campaign.keep())
            if self._release_at_end:
                await campaign.release()

    def _request_stop(self, release: bool) -> None:
        self._stopping = True
        self._release_at_end = release
        if self._scope is not None:
            self._scope.cancel()

    def _post(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call in the main loop; a main loop that is gone needs to hear nothing."""
        if self._main is not None:
            with contextlib.suppress(RuntimeError):
                self._main.call_soon_threadsafe(callback, *arguments)


def _given(config: ClientConfig | None) -> ClientConfig:
    assert config is not None
    return config
