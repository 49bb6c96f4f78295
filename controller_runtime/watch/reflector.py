"""Drives the machine of `machine.py` against a real server: opens, reads, waits, and hands objects to a sink.

Relies on the client for bytes and on the sink for decoding and for the picture itself; an informer owns one. It never
gives up and never spins: each fault waits (`Backoff`), each wait on the network has a deadline, and long bursts give
other tasks their turn.
"""

import asyncio
import logging
import random
from collections import Counter, deque
from typing import Generic, Protocol, TypeVar

import msgspec

from controller_runtime.clock import Clock, SystemClock
from controller_runtime.transport import ApiError, Resource, Stream, TransportError
from controller_runtime.transport.errors import decode_status
from controller_runtime.watch.backoff import Backoff
from controller_runtime.watch.faults import fault_of_error, fault_of_event
from controller_runtime.watch.lines import LineSplitter
from controller_runtime.watch.machine import (
    Apply,
    Begin,
    Bookmark,
    Commit,
    Discard,
    Empty,
    Ended,
    Failed,
    Fault,
    FetchPage,
    Input,
    Item,
    OpenStream,
    Page,
    Pause,
    Stage,
    Start,
    State,
    step,
)

log = logging.getLogger(__name__)

PAGE_SIZE = 500
SHORTEST_WATCH = 300
LONGEST_WATCH = 600
DEADLINE_MARGIN = 10.0
"""Seconds after the server's own timeout at which a silent watch is given up (trap 14)."""
LIST_STALL = 30.0
"""Seconds of silence in a streaming list at which it is given up."""
LIST_TIMEOUT = 120.0
DECENT_SECONDS = 1.0
"""A watch that ends sooner counts as a fault (trap 15)."""
TURN_SECONDS = 0.01
"""Work for so long at a stretch before other tasks get a turn."""
_END_OF_LIST = "k8s.io/initial-events-end"


class WatchClient(Protocol):
    """What is needed of a client."""

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        timeout: float = 60.0,  # noqa: ASYNC109 - the client's signature
    ) -> bytes:
        """Read a page of a collection."""

    async def stream(self, path: str, *, query: dict[str, str]) -> Stream:
        """Open a watch."""


class HasMetadata(Protocol):
    """An object with a version."""

    @property
    def metadata(self) -> "HasVersion":
        """The metadata."""


class HasVersion(Protocol):
    """Metadata, as far as it concerns a watch."""

    @property
    def resource_version(self) -> str:
        """The object's version."""


Decoded = TypeVar("Decoded", bound=HasMetadata)


class Sink(Protocol[Decoded]):
    """Where objects go. All of it is synchronous."""

    def decode(self, raw: bytes | msgspec.Raw) -> Decoded | None:
        """One object of a list or event; None, counted and logged by the sink, if nothing of it can be read (trap
        50).
        """

    def begin(self) -> None:
        """A new picture begins."""

    def stage(self, kind: str, item: Decoded) -> None:
        """One object of the new picture; `kind` is ADDED, MODIFIED or DELETED."""

    def discard(self) -> None:
        """The new picture is worth nothing."""

    def commit(self, resource_version: str) -> None:
        """The new picture is whole."""

    def apply(self, kind: str, item: Decoded) -> None:
        """One change."""


class _Event(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, frozen=True, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    resource_version: str = ""
    continue_: str = ""
    annotations: dict[str, str] = {}


class _Marked(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Page(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    items: list[msgspec.Raw] | None = None


_EVENT = msgspec.json.Decoder(_Event)
_BOOKMARK = msgspec.json.Decoder(_Marked)
_PAGE = msgspec.json.Decoder(_Page)


class Reflector(Generic[Decoded]):
    """Keeps a sink's picture true for as long as `run` runs."""

    def __init__(
        self,
        client: WatchClient,
        resource: Resource,
        sink: Sink[Decoded],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        streaming: bool = True,
        counts: Counter[str] | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter() if counts is None else counts
        """What happened so far: `list`, `watch`, `event`, `bookmark`, `undecodable`, and faults by their names."""
        self._client = client
        self._resource = resource
        self._sink = sink
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._clock: Clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._backoff = Backoff(clock=self._clock, rng=self._rng)
        self._streaming = streaming
        self._stream: Stream | None = None
        self._lines: deque[bytes] = deque()
        self._splitter = LineSplitter()
        self._opened = 0.0
        self._deadline = 0.0
        self._stall = float("inf")
        self._current: tuple[str, Decoded] | None = None
        self._items: list[msgspec.Raw] | None = None
        self._retry_after: float | None = None
        self._absent = False
        self._turn_ends = 0.0
        self.last_progress = self._clock.monotonic()
        """When the server last told something (event, bookmark, page), by the clock's `monotonic`."""

    async def run(self) -> None:
        """List and watch until cancelled.

        Raises:
            Exception: only what is a defect here or in the sink; the informer starts a new reflector then.
        """
        state: State = Empty(streaming=self._streaming)
        happened: Input = Start()
        try:
            while True:
                state, effects = step(state, happened)
                outcome: Input | None = None
                for effect in effects:
                    match effect:
                        case Apply():
                            assert self._current is not None
                            self._sink.apply(*self._current)
                        case Stage():
                            await self._stage()
                        case Begin():
                            self._sink.begin()
                        case Discard():
                            self._sink.discard()
                        case Commit(version=version):
                            self._stall = float("inf")
                            self._sink.commit(version)
                        case Pause(fault=fault):
                            await self._pause(fault)
                        case FetchPage():
                            outcome = await self._fetch(effect)
                        case OpenStream():
                            outcome = await self._open(effect)
                happened = outcome if outcome is not None else await self._next()
        finally:
            self._close()

    # --- requests ---------------------------------------------------------------------------------------------

    async def _fetch(self, page: FetchPage) -> Input:
        self._close()
        self.counts["list"] += 1
        first = not page.continue_
        try:
            body = await self._client.list(
                self._resource,
                namespace=self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                limit=PAGE_SIZE if page.paged else None,
                continue_=page.continue_ or None,
                resource_version=page.version if first and page.version else None,
                resource_version_match="NotOlderThan" if first and page.version else None,
                timeout=LIST_TIMEOUT,
            )
            answer = _PAGE.decode(body)
        except (ApiError, TransportError) as error:
            return self._failed(fault_of_error(error), error)
        except msgspec.DecodeError as error:
            return self._failed(Fault.OTHER, error)
        self._progress()
        self._items = answer.items or []
        return Page(answer.metadata.resource_version, answer.metadata.continue_)

    async def _open(self, wish: OpenStream) -> Input | None:
        """Open a watch; None if it is open and its events come next."""
        self._close()
        self.counts["watch"] += 1
        seconds = self._rng.randint(SHORTEST_WATCH, LONGEST_WATCH)
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        if wish.initial:
            query["sendInitialEvents"] = "true"
            query["resourceVersionMatch"] = "NotOlderThan"
        if wish.version:
            query["resourceVersion"] = wish.version
        if self._label_selector:
            query["labelSelector"] = self._label_selector
        if self._field_selector:
            query["fieldSelector"] = self._field_selector
        path = self._resource.path(namespace=self._namespace)
        try:
            self._stream = await self._client.stream(path, query=query)
        except (ApiError, TransportError) as error:
            return self._failed(fault_of_error(error, streaming_list=wish.initial), error)
        self._opened = self._clock.monotonic()
        self._deadline = self._opened + seconds + DEADLINE_MARGIN
        self._stall = LIST_STALL if wish.initial else float("inf")
        return None

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._lines.clear()
        self._splitter = LineSplitter()

    # --- events -----------------------------------------------------------------------------------------------

    async def _next(self) -> Input:
        """What the stream tells next."""
        while True:
            while self._lines:
                if self._clock.monotonic() >= self._turn_ends:
                    await self._give_turn()
                happened = self._read(self._lines.popleft())
                if happened is not None:
                    return happened
            end = await self._receive()
            if end is not None:
                return end

    async def _receive(self) -> Input | None:
        """Wait for more lines; or how the stream ended."""
        stream = self._stream
        if stream is None:
            return self._failed(Fault.CUT, "no stream is open")
        patience = min(self._deadline - self._clock.monotonic(), self._stall)
        try:
            async with asyncio.timeout(max(patience, 0.0)):
                chunk = await stream.chunk()
        except TimeoutError:
            return self._failed(Fault.STALLED, f"nothing came for {patience:.0f} s")
        except TransportError as error:
            return self._failed(Fault.CUT, error)
        if chunk:
            self._lines.extend(self._splitter.feed(chunk))
            return None
        lasted = self._clock.monotonic() - self._opened
        self._close()
        if lasted < DECENT_SECONDS:
            return self._failed(Fault.CUT, f"the server ended the watch after {lasted:.2f} s")
        return Ended()

    def _read(self, line: bytes) -> Input | None:
        """One event; None for an object of which nothing can be read."""
        try:
            event = _EVENT.decode(line)
            if event.type == "BOOKMARK":
                metadata = _BOOKMARK.decode(event.object).metadata
                self._progress()
                self.counts["bookmark"] += 1
                return Bookmark(metadata.resource_version, metadata.annotations.get(_END_OF_LIST) == "true")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return self._failed(Fault.OTHER, f"a line is no watch event: {error}")
        if event.type not in ("ADDED", "MODIFIED", "DELETED"):
            # Never an object of our kind: a Status (trap 1).
            status = decode_status(event.object)
            self._retry_after = status.details.retry_after_seconds if status.details else None
            return self._failed(
                fault_of_event(status), f"{event.type} event: {status.code} {status.reason}: {status.message}"
            )
        self._progress()
        self.counts["event"] += 1
        item = self._sink.decode(event.object)
        if item is None:
            return None
        self._current = (event.type, item)
        return Item(item.metadata.resource_version)

    async def _stage(self) -> None:
        """Put what came into the new picture: one event's object, or a page's."""
        items, self._items = self._items, None
        if items is None:
            assert self._current is not None
            self._sink.stage(*self._current)
            return
        for raw in items:
            if self._clock.monotonic() >= self._turn_ends:
                await self._give_turn()
            item = self._sink.decode(raw)
            if item is not None:
                self._sink.stage("ADDED", item)

    # --- waits ------------------------------------------------------------------------------------------------

    async def _give_turn(self) -> None:
        await asyncio.sleep(0)
        self._turn_ends = self._clock.monotonic() + TURN_SECONDS

    async def _pause(self, fault: Fault) -> None:
        self._close()
        seconds = self._backoff.delay(fault, at_least=self._retry_after)
        self._retry_after = None
        await self._clock.sleep(seconds)

    def _progress(self) -> None:
        self.last_progress = self._clock.monotonic()
        if self._absent:
            self._absent = False
            log.info("%s: served now", self._resource)

    def _failed(self, fault: Fault, error: object) -> Failed:
        self.counts[fault.value] += 1
        if isinstance(error, ApiError):
            self._retry_after = error.retry_after
        if fault is Fault.ABSENT:
            if not self._absent:
                log.warning(
                    "%s cannot be watched, tried again every 10 s until it is installed and allowed: %s",
                    self._resource,
                    error,
                )
            self._absent = True
        elif fault in (Fault.EXPIRED, Fault.CUT, Fault.UNSUPPORTED):
            log.info("%s: %s: %s", self._resource, fault.value, error)
        else:
            log.warning("%s: %s: %s", self._resource, fault.value, error)
        return Failed(fault)
