"""The election itself: obtain the lease, keep it, notice its loss, give it back.

Runs in whatever loop calls it, with an injected clock, so that tests need neither thread nor real time. Relied on by
`elector`, which gives it a thread. All deadlines are measured on the monotonic clock from the start of the last
successful renewal; what others wrote as times is never believed (traps 24, 25).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import anyio
import msgspec

from controller_runtime.clock import Clock
from controller_runtime.election.fence import Fence, Moment
from controller_runtime.election.lease import JITTER, LEASES, LeaseView, Timing, new_lease
from controller_runtime.micro_time import micro_time
from controller_runtime.observability.protocols import ElectionMetrics
from controller_runtime.observability.silent import SilentElectionMetrics
from controller_runtime.transport.errors import AlreadyExists, ApiError, Conflict, NotFound, TransportError
from controller_runtime.transport.resource import Resource

_logger = logging.getLogger(__name__)
RELEASE_SECONDS = 4.0
"""A release that takes longer is not worth waiting for: the lease runs out by itself."""
LEAST_SECONDS = 0.001
"""Less is no time to renew in: what is left of a deadline by rounding would be waited for and tried again, perhaps without end."""


class LeaseClient(Protocol):
    """What an election needs of a client: one without a fence."""

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> bytes:
        """Read one object."""

    async def create(
        self, resource: Resource, body: Mapping[str, Any] | bytes, *, namespace: str | None = None
    ) -> bytes:
        """Create an object."""

    async def replace(
        self, resource: Resource, name: str, body: Mapping[str, Any] | bytes, *, namespace: str | None = None
    ) -> bytes:
        """Write a whole object, conditional on its resourceVersion."""


class Campaign:
    """One candidate's view of one lease.

    Guarantees
    - The fence is open only from the start of a renewal that succeeded until `renew_deadline` after it.
    - `keep` returns as soon as another holder is seen, and at the renew deadline at the latest, whatever requests do.

    Assumptions
    - `identity` belongs to this process alone.
    """

    def __init__(
        self,
        client: LeaseClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: Timing,
        clock: Clock,
        fence: Fence,
        metrics: ElectionMetrics | None = None,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._timing = timing
        self._clock = clock
        self._fence = fence
        self._metrics: ElectionMetrics = SilentElectionMetrics() if metrics is None else metrics
        self._uniform = uniform
        self._seen: LeaseView | None = None
        self._seen_at = 0.0
        self._renewed: Moment | None = None
        self._complaint = ""

    async def win(self) -> None:
        """Return once the lease is ours; for as long as it takes. Errors of the API server are waited out."""
        while not await self._attempt(self._timing.request_timeout * 2):
            await self._clock.sleep(self._timing.retry_period * (1.0 + JITTER * self._uniform()))
        self._metrics.leading(name=self._name, is_leader=True)
        _logger.info("%s holds lease %s/%s", self._identity, self._namespace, self._name)

    async def keep(self) -> str:
        """Renew until the lease is lost; return why. The fence is closed then, or about to close by itself."""
        try:
            reason = await self._renew_until_lost()
        finally:
            self._fence.close(taken=self._seen is not None and self._seen.holder not in ("", self._identity))
            self._metrics.leading(name=self._name, is_leader=False)
        _logger.warning("lease %s/%s is lost: %s", self._namespace, self._name, reason)
        return reason

    async def release(self) -> bool:
        """Give the lease back, if it is still ours; True if it was ours and is free now.

        Only after every worker has stopped (trap 29). The lease is read again and its holder checked, and the write is
        conditional on the version that was read, so a lease another has just taken is never blanked (trap 30). Runs
        shielded with its own deadline (trap 31) and raises nothing.
        """
        self._fence.close()
        with anyio.move_on_after(RELEASE_SECONDS, shield=True):
            try:
                lease = await self._read()
                if lease is None or lease.holder != self._identity:
                    return False
                now = micro_time(self._clock.now())
                await self._client.replace(
                    LEASES,
                    self._name,
                    lease.with_spec(holderIdentity="", leaseDurationSeconds=1, acquireTime=now, renewTime=now),
                    namespace=self._namespace,
                )
            except (ApiError, TransportError, TimeoutError, msgspec.DecodeError) as error:
                _logger.info("lease %s/%s was not released and will run out: %s", self._namespace, self._name, error)
                return False
            return True
        return False

    # --------------------------------------------------------------------------------------------- internals

    async def _renew_until_lost(self) -> str:
        pause = self._timing.retry_period
        while True:
            await self._clock.sleep(min(pause, max(0.0, self._seconds_left())))
            left = self._seconds_left()
            if left < LEAST_SECONDS:
                return f"not renewed within {self._timing.renew_deadline:g} s, or the machine was suspended"
            renewed = await self._attempt(left)
            if not renewed and self._seen is not None and self._seen.holder != self._identity:
                return f"it is held by {self._seen.holder or 'nobody'}"
            # Time is short after a failure: a server that comes back is to be met in time.
            pause = self._timing.retry_period / (1 if renewed else 2)

    def _seconds_left(self) -> float:
        if self._renewed is None:
            return 0.0
        return self._timing.renew_deadline - Moment.read(self._clock).seconds_since(self._renewed)

    async def _attempt(self, seconds: float) -> bool:
        """Try once to obtain or renew the lease, within `seconds`; True if it is ours now."""
        try:
            with anyio.fail_after(seconds):
                ours = await self._obtain_or_renew()
        except (ApiError, TransportError, TimeoutError, msgspec.DecodeError) as error:
            self._complain(f"{type(error).__name__}: {error}" if str(error) else "no answer in time")
            return False
        self._complaint = ""
        return ours

    async def _obtain_or_renew(self) -> bool:
        if self._renewed is not None and self._seen is not None and self._seen.holder == self._identity:
            try:
                return await self._write(self._seen)
            except (Conflict, NotFound):
                # Somebody touched the object; that alone is no loss (trap 27). Look, then decide.
                self._metrics.slow_path(name=self._name)
        lease = await self._read()
        if lease is None:
            return await self._create()
        if lease.holder not in ("", self._identity) and not self._has_run_out(lease):
            return False
        try:
            return await self._write(lease)
        except Conflict:
            return False  # another was quicker; the next attempt reads what it did

    def _has_run_out(self, lease: LeaseView) -> bool:
        """By our own clock, since we last saw it change, and by its holder's duration (trap 24)."""
        duration = self._timing.lease_duration if lease.duration is None else lease.duration
        return self._clock.monotonic() >= self._seen_at + duration

    async def _read(self) -> LeaseView | None:
        with anyio.fail_after(self._timing.request_timeout):
            try:
                answer = await self._client.get(LEASES, self._name, namespace=self._namespace)
            except NotFound:
                self._seen = None
                return None
        return self._observe(answer)

    async def _create(self) -> bool:
        start = Moment.read(self._clock)
        lease = new_lease(namespace=self._namespace, name=self._name, spec=self._spec(None))
        with anyio.fail_after(self._timing.request_timeout):
            try:
                answer = await self._client.create(LEASES, lease, namespace=self._namespace)
            except AlreadyExists:
                return False
        return self._succeeded(start, answer)

    async def _write(self, lease: LeaseView) -> bool:
        start = Moment.read(self._clock)
        body = lease.with_spec(**self._spec(lease))
        with anyio.fail_after(self._timing.request_timeout):
            answer = await self._client.replace(LEASES, self._name, body, namespace=self._namespace)
        return self._succeeded(start, answer)

    def _spec(self, lease: LeaseView | None) -> dict[str, Any]:
        now = micro_time(self._clock.now())
        kept = lease is not None and lease.holder == self._identity
        transitions = 0 if lease is None else lease.transitions + (0 if kept else 1)
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timing.lease_duration),
            "acquireTime": (lease.acquire_time or now) if lease is not None and kept else now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _succeeded(self, start: Moment, answer: bytes) -> bool:
        self._renewed = start
        self._fence.open_from(start, lease_seconds=self._timing.lease_duration, margin=self._timing.margin)
        self._observe(answer)
        return True

    def _observe(self, answer: bytes) -> LeaseView:
        lease = LeaseView.of(msgspec.json.decode(answer))
        if self._seen is None or lease.spec != self._seen.spec:
            self._seen_at = self._clock.monotonic()
        self._seen = lease
        return lease

    def _complain(self, complaint: str) -> None:
        """Once at warning level for each new complaint, not each two seconds."""
        level = logging.DEBUG if complaint == self._complaint else logging.WARNING
        self._complaint = complaint
        _logger.log(level, "lease %s/%s: %s", self._namespace, self._name, complaint)
