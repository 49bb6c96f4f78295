"""Watches: events after a version, or the present state first, with bookmarks and an end. Relies on the store's window.

A watch keeps a place in the shelf's events and reads on from there when woken, so that a slow or frozen one costs
nothing, and one that falls out of the window is ended as the real server ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from controller_runtime.testing.api_server.core import Core, encoded
from controller_runtime.testing.api_server.refusals import (
    FieldProblem,
    RefusalError,
    expired,
    invalid,
    plain_error,
    too_large_version,
)
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.selection import Selection, select
from controller_runtime.testing.api_server.store import Event, Shelf, Stored
from controller_runtime.testing.api_server.values import AnswerLostError, ApiRequest

BOOKMARK_SECONDS = 60.0
TIMER_SLACK = 0.001
"""asyncio fires timers up to a clock's resolution early; what is due then is due, or virtual time would stand still."""
DEFAULT_TIMEOUT = 1800.0
LONGEST_CHUNK = 500
"""Events in one chunk, so that a large state leaves other tasks their turn."""
Show = Callable[[Stored], bytes]


class Watch:
    """An open watch; used by one task. Ends by itself after its timeout."""

    def __init__(
        self,
        core: Core,
        route: Route,
        request: ApiRequest,
        *,
        show: Show | None = None,
        on_close: Callable[[Watch], None] | None = None,
    ) -> None:
        self._core = core
        self._kind = route.kind
        self._shelf: Shelf = core.store.shelf(route.kind.shelf)
        self._selection: Selection = select(route.kind, route.namespace, route.name, request.query)
        self._show: Show = show or (lambda stored: encoded(route.kind, stored))
        self._on_close = on_close
        self._pending: list[bytes] = []
        self._bookmarks = request.query.get("allowWatchBookmarks", "") in ("true", "1")
        timeout = request.query.get("timeoutSeconds", "")
        self._lifetime = float(timeout) if timeout.isdigit() and timeout != "0" else DEFAULT_TIMEOUT
        self._ends: float | None = None
        self._next_bookmark = 0.0
        self._over = False
        self._lost = False
        self._frozen = False
        self._position = self._begin(request)

    async def chunk(self) -> bytes:
        """The next lines, at least one; empty when the watch is over.

        Raises:
            AnswerLostError: it was cut.
        """
        loop = asyncio.get_running_loop()
        if self._ends is None:
            self._ends = loop.time() + self._lifetime
            self._next_bookmark = loop.time() + BOOKMARK_SECONDS
        while True:
            if self._lost:
                raise AnswerLostError
            if not self._frozen:
                self._read()
                if self._pending:
                    ready, self._pending = self._pending[:LONGEST_CHUNK], self._pending[LONGEST_CHUNK:]
                    return b"".join(ready)
                if self._over:
                    return b""
                now = loop.time() + TIMER_SLACK
                if self._bookmarks and now >= self._next_bookmark:
                    self._next_bookmark = loop.time() + BOOKMARK_SECONDS
                    return self._bookmark(self._core.store.version)
                if now >= self._ends:
                    return b""
            await self._wait()

    def close(self) -> None:
        """Over, from the client's side; harmless twice."""
        self._over = True
        if self._on_close is not None:
            self._on_close(self)
            self._on_close = None

    def cut(self, *, cleanly: bool = False) -> None:
        """Over, from the server's side: at the end of a line, or as a broken connection."""
        self._over, self._lost = True, not cleanly
        self._frozen = False
        self._shelf.wake()

    def freeze(self, *, frozen: bool = True) -> None:
        """Say nothing any more, not even an end; or go on."""
        self._frozen = frozen
        self._shelf.wake()

    async def _wait(self) -> None:
        if self._frozen:
            await self._shelf.changed(self._shelf.end)
            return
        assert self._ends is not None
        until = min(self._next_bookmark, self._ends) if self._bookmarks else self._ends
        try:
            async with asyncio.timeout_at(until):
                await self._shelf.changed(self._position)
        except TimeoutError:
            return

    # --- what to send ---------------------------------------------------------------------------------------------

    def _begin(self, request: ApiRequest) -> int:
        query = request.query
        asked = query.get("resourceVersion", "")
        initial = query.get("sendInitialEvents", "")
        match = query.get("resourceVersionMatch", "")
        _check_options(initial, match)
        if asked and not asked.isdigit():
            said = f'resourceVersion: Invalid value: "{asked}": strconv.ParseUint: parsing "{asked}": invalid syntax'
            raise plain_error(said)
        if initial == "true" or (initial == "" and asked in ("", "0")):
            if initial == "true" and asked and int(asked) > self._core.store.version:
                return self._refuse(too_large_version(int(asked), self._core.store.version))
            self._send_state()
            if initial == "true" and self._bookmarks:
                self._pending.append(self._bookmark(self._core.store.version, end_of_state=True))
            return self._shelf.end
        version = int(asked) if asked else self._core.store.version
        position = self._shelf.position_of(version)
        if position is None:
            return self._refuse(expired(f"too old resource version: {version} ({self._shelf.forgotten})"))
        return position

    def _refuse(self, refusal: RefusalError) -> int:
        """Once the options are read, a watch is refused by an event."""
        self._pending.append(_line("ERROR", msgspec.json.encode(refusal.status())))
        self._over = True
        return self._shelf.end

    def _send_state(self) -> None:
        for key in self._shelf.sorted_keys():
            stored = self._shelf.objects[key]
            if self._selection.covers(key) and self._selection.matches(stored):
                self._pending.append(_line("ADDED", self._show(stored)))

    def _read(self) -> None:
        if self._over:
            return
        window = self._shelf.since(self._position)
        if window is None:
            self._over = True
            return
        for event in window.events:
            line = self._told(event)
            if line is not None:
                self._pending.append(line)
        self._position = window.position

    def _told(self, event: Event) -> bytes | None:
        """What a change looks like through the selection: leaving it is a deletion, entering it an addition."""
        selection = self._selection
        if not selection.covers(event.key):
            return None
        before = event.previous is not None and selection.matches(event.previous)
        after = event.type != "DELETED" and selection.matches(event.stored)
        if after:
            return _line("MODIFIED" if before else "ADDED", self._show(event.stored))
        if not before or event.previous is None:
            return None
        last = event.stored
        if event.type != "DELETED":
            metadata = {**event.previous.fields["metadata"], "resourceVersion": str(event.version)}
            last = Stored({**event.previous.fields, "metadata": metadata}, event.version)
        return _line("DELETED", self._show(last))

    def _bookmark(self, version: int, *, end_of_state: bool = False) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
        if end_of_state:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        item = {"kind": self._kind.kind, "apiVersion": self._kind.resource.api_version, "metadata": metadata}
        return _line("BOOKMARK", msgspec.json.encode(item))


def _check_options(initial: str, match: str) -> None:
    where, problems = "resourceVersionMatch", []
    if initial and match != "NotOlderThan":
        said = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        problems.append(FieldProblem(where, "FieldValueForbidden", said))
    elif match and not initial:
        said = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        problems.append(FieldProblem(where, "FieldValueForbidden", said))
    if match not in ("", "NotOlderThan"):
        said = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
        problems.append(FieldProblem(where, "FieldValueNotSupported", said))
    if problems:
        raise invalid("meta.k8s.io", "ListOptions", "", problems)


def _line(kind: str, item: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + item + b"}\n"
