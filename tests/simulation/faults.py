"""Faults of requests and watches: armed at a time, spent by the requests that match, one after the other.

`Faults` is what the server asks before and after each request, and what a simulated process's client asks about its watches.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from controller_runtime.testing.api_server import ApiRequest, ApiResponse, EmbeddedClient, Fault
from controller_runtime.transport import Stream, TransportError, WriteFence
from controller_runtime.transport.exchange import Query, _Flight

_REASONS = {
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
HANG_SECONDS = 40.0
SPARED = ("events", "leases", "tokenreviews", "subjectaccessreviews")


def refusal(code: int, retry_after: float | None = None) -> ApiResponse:
    """An answer as the API server words it."""
    status = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault of the simulation", "reason": _REASONS[code], "code": code,
    }  # fmt: skip
    headers = {} if retry_after is None else {"Retry-After": str(max(1, round(retry_after)))}
    return ApiResponse(code, msgspec.json.encode(status), headers)


@dataclass(slots=True)
class Armed:
    """A fault that waits for its requests."""

    who: str
    method: str
    resource: str
    skip: int
    times: int
    effect: str
    seconds: float

    def takes(self, request: ApiRequest) -> bool:
        """Whether this request is one of its; counts."""
        if self.times <= 0 or not request.user_agent.startswith(self.who) or request.is_watch:
            return False
        if self.method and request.method != self.method:
            return False
        parts = request.path.split("/")
        if (self.resource and self.resource not in parts) or any(spared in parts for spared in SPARED):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class Deadly:
    """A kill that waits for its request: the n-th write of a process, before or after it is carried out."""

    agent: str
    skip: int
    when: str
    kill: Callable[[], None]

    def takes(self, request: ApiRequest) -> bool:
        """Whether it is this one; counts."""
        if request.user_agent != self.agent or request.method == "GET":
            return False
        self.skip -= 1
        return self.skip < 0


class Faults:
    """The hooks of one server."""

    def __init__(
        self, dead: Callable[[str], bool], judge: Callable[[ApiRequest], None], now: Callable[[], float]
    ) -> None:
        """`dead`: whether the process of that user agent is gone. `judge` sees each request as it is sent."""
        self.armed: list[Armed] = []
        self.deadly: list[Deadly] = []
        self.deaf: dict[str, float] = {}
        """Until when a process hears nothing about its lease."""
        self._now = now
        self._after: dict[int, Fault | Deadly] = {}
        self._dead = dead
        self._judge = judge

    def clear(self) -> None:
        """No more of them."""
        self.armed.clear()
        self.deadly.clear()
        self.deaf.clear()

    def before(self, request: ApiRequest) -> Fault | None:
        """The server's hook before a request."""
        if self._dead(request.user_agent):
            return Fault(lost=True)
        self._judge(request)
        if self.deaf.get(request.user_agent, 0.0) > self._now() and "leases" in request.path.split("/"):
            return Fault(lost=True)
        for deadly in self.deadly:
            if deadly.takes(request):
                self.deadly.remove(deadly)
                if deadly.when == "before":
                    deadly.kill()
                    return Fault(lost=True)
                self._after[id(request)] = deadly
                break
        for armed in self.armed:
            if armed.takes(request):
                return self._effect(armed, request)
        return None

    def after(self, request: ApiRequest, answer: ApiResponse) -> Fault | None:
        """The server's hook after a request."""
        pending = self._after.pop(id(request), None)
        if isinstance(pending, Deadly):
            pending.kill()
            return Fault(lost=True)
        return Fault(lost=True) if self._dead(request.user_agent) else pending

    def _effect(self, armed: Armed, request: ApiRequest) -> Fault | None:
        seconds = armed.seconds
        late: Fault | None = None
        match armed.effect:
            case "lost":
                return Fault(lost=True)
            case "403" | "409" | "410" | "422" | "500" | "503":
                return Fault(answer=refusal(int(armed.effect)))
            case "429":
                return Fault(answer=refusal(429, seconds))
            case "slow":
                return Fault(delay=seconds)
            case "lost-after":
                late = Fault(lost=True)
            case "500-after":
                late = Fault(answer=refusal(500))
            case "slow-after":
                late = Fault(delay=seconds)
            case "hang":
                late = Fault(delay=HANG_SECONDS, lost=True)
            case _:
                raise ValueError(armed.effect)
        self._after.setdefault(id(request), late)
        return None


class Watched:
    """What is wrong with the watches of one process, by resource ("" is all)."""

    def __init__(self) -> None:
        self.silent_until: dict[str, float] = {}
        self.lag_until: dict[str, float] = {}
        self.streams: list[FaultyStream] = []
        self.in_flight = 0
        """Requests that are under way: what was sent is not held back by freezing who sent it."""

    def until(self, table: dict[str, float], resource: str) -> float:
        """When that fault of that resource's watches ends."""
        return max(table.get(resource, 0.0), table.get("", 0.0))

    def cut(self, resource: str, *, cleanly: bool) -> None:
        """End the open streams of a resource."""
        for stream in self.streams:
            if resource in ("", stream.resource):
                stream.end(cleanly=cleanly)

    def heal(self) -> None:
        """Everything is told from now on."""
        self.silent_until.clear()
        self.lag_until.clear()
        for stream in self.streams:
            stream.poke()


class FaultyClient(EmbeddedClient):
    """A process's client, whose watches may be cut, silent or late."""

    def __init__(
        self, server: Any, *, watched: Watched, agent: str, clock: Any, fence: WriteFence | None = None
    ) -> None:
        super().__init__(server, user_agent=agent, fence=fence, clock=clock)
        self._watched = watched

    async def _attempt(self, flight: _Flight) -> tuple[int, str | None, bytes]:
        self._watched.in_flight += 1
        try:
            return await super()._attempt(flight)
        finally:
            self._watched.in_flight -= 1

    async def stream(self, path: str, *, query: Query) -> Stream:
        """Open a watch; what it tells passes through the faults."""
        opened = await super().stream(path, query=query)
        return FaultyStream(opened, path.rsplit("/", 1)[1], self._watched)


class FaultyStream(Stream):
    """A watch with faults."""

    def __init__(self, inner: Stream, resource: str, watched: Watched) -> None:
        self.resource = resource
        self._inner = inner
        self._watched = watched
        self._ended = ""
        self._silenced = False
        self._news = asyncio.Event()
        watched.streams.append(self)

    async def chunk(self) -> bytes:
        """The next bytes, as late as the faults have it; a stream that was silenced says nothing more until it is closed."""
        reading: asyncio.Task[bytes] = asyncio.get_running_loop().create_task(self._inner.chunk())
        try:
            while True:
                self._news.clear()
                poked = asyncio.get_running_loop().create_task(self._news.wait())
                try:
                    await asyncio.wait([reading, poked], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    poked.cancel()
                if self._ended:
                    break
                if reading.done():
                    await self._held()
                    if not self._ended:
                        return await reading
                    break
        finally:
            if not reading.done():
                reading.cancel()
            elif not reading.cancelled():
                reading.exception()
        if self._ended == "cut":
            raise TransportError(f"watch of {self.resource}: the connection broke", sent=None)
        return b""

    async def _held(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._ended:
            now, watched = loop.time(), self._watched
            until = max(
                watched.until(watched.silent_until, self.resource), watched.until(watched.lag_until, self.resource)
            )
            if until <= now:
                return
            self._news.clear()
            try:
                async with asyncio.timeout(until - now):
                    await self._news.wait()
            except TimeoutError:
                return

    def end(self, *, cleanly: bool) -> None:
        """Over."""
        self._ended = self._ended or ("end" if cleanly else "cut")
        self._news.set()

    def poke(self) -> None:
        """Look again."""
        self._news.set()

    def close(self) -> None:
        """From the client's side."""
        if self in self._watched.streams:
            self._watched.streams.remove(self)
        self._inner.close()
