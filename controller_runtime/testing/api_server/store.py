"""All objects, one version counter for all of them, and what happened lately, by resource.

Relies on nothing. An object's dict is never changed after it was stored: a write stores a new one. So readers and
watches share it, and its JSON is made once.

What happened is kept as long as the window allows. It serves watches, and lists of the past: a former state is the
present one with the events since undone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from controller_runtime.testing.api_server.values import Object

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Stored:
    """One version of one object: `fields` is everything but `apiVersion` and `kind`."""

    __slots__ = ("_json", "fields", "version")

    def __init__(self, fields: Object, version: int) -> None:
        self.fields = fields
        self.version = version
        self._json: bytes | None = None

    @property
    def json(self) -> bytes:
        """The fields as JSON."""
        if self._json is None:
            self._json = msgspec.json.encode(self.fields)
        return self._json

    def release(self) -> None:
        """It is past: a watch that lags, or a list of the past, makes the JSON again."""
        self._json = None

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels."""
        return self.fields["metadata"].get("labels") or {}

    @property
    def uid(self) -> str:
        """The object's UID."""
        uid: str = self.fields["metadata"]["uid"]
        return uid


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `stored` is the object after it; of a deletion its last version, with the version of the deletion."""

    version: int
    type: EventType
    key: str
    stored: Stored
    previous: Stored | None


class Window(NamedTuple):
    """Events from a place on, and the place after them."""

    events: list[Event]
    position: int


class Shelf:
    """The objects of one resource by key (`name` or `namespace/name`), and their events."""

    def __init__(self, window: int) -> None:
        self.objects: dict[str, Stored] = {}
        self.forgotten = 0
        """No version below this one can be watched from or listed."""
        self._events: deque[Event] = deque()
        self._window = window
        self._first = 0
        self._sorted: list[str] | None = None
        self._waiting: set[asyncio.Future[None]] = set()

    def sorted_keys(self) -> list[str]:
        """All keys, sorted as etcd sorts them."""
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        return self._sorted

    @property
    def end(self) -> int:
        """The place after the newest event."""
        return self._first + len(self._events)

    def since(self, position: int) -> Window | None:
        """The events from `position` on; None if some of them are forgotten."""
        if position < self._first:
            return None
        fresh = self.end - position
        if fresh == 0:
            return Window([], position)
        newest = [event for event, _ in zip(reversed(self._events), range(fresh), strict=False)]
        return Window(newest[::-1], self.end)

    def position_of(self, version: int) -> int | None:
        """The place of the first event after `version`; None if that is forgotten."""
        if version < self.forgotten:
            return None
        position = self.end
        for event in reversed(self._events):
            if event.version <= version:
                break
            position -= 1
        return position

    def at(self, version: int) -> dict[str, Stored] | None:
        """The objects as they were at `version`; None if that is forgotten. Read it only."""
        if version < self.forgotten:
            return None
        if not self._events or self._events[-1].version <= version:
            return self.objects
        state = dict(self.objects)
        for event in reversed(self._events):
            if event.version <= version:
                break
            if event.previous is None:
                state.pop(event.key, None)
            else:
                state[event.key] = event.previous
        return state

    def forget(self, version: int) -> None:
        """Drop all events, as a compaction at `version` would."""
        self._first += len(self._events)
        self._events.clear()
        self.forgotten = max(self.forgotten, version)

    async def changed(self, position: int) -> None:
        """Wait until there is an event at `position`."""
        if self.end > position:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        for waiter in tuple(self._waiting):
            if not waiter.done():
                waiter.set_result(None)

    def record(self, event: Event) -> None:
        """Take in a change."""
        if event.type == "DELETED":
            del self.objects[event.key]
            self._sorted = None
        else:
            if event.previous is None:
                self._sorted = None
            self.objects[event.key] = event.stored
        self._events.append(event)
        if len(self._events) > self._window:
            self.forgotten = self._events.popleft().version
            self._first += 1
        self.wake()


ShelfKey = tuple[str, str]
"""Group and plural under which a resource is stored."""


class Store:
    """Every resource's shelf, and the one version counter."""

    def __init__(self, *, window: int = 10_000) -> None:
        self.version = 1
        self._window = window
        self._forgotten = 0
        self._shelves: dict[ShelfKey, Shelf] = {}

    def shelf(self, key: ShelfKey) -> Shelf:
        """The shelf of a resource, empty at first."""
        shelf = self._shelves.get(key)
        if shelf is None:
            shelf = self._shelves[key] = Shelf(self._window)
            shelf.forgotten = self._forgotten
        return shelf

    def shelves(self) -> Iterator[tuple[ShelfKey, Shelf]]:
        """All shelves there are."""
        yield from list(self._shelves.items())

    def put(self, shelf_key: ShelfKey, key: str, fields: Object) -> Stored:
        """Store a new version of an object; its `metadata.resourceVersion` is set here. `fields` is the store's now."""
        shelf = self.shelf(shelf_key)
        previous = shelf.objects.get(key)
        stored = self._versioned(fields)
        shelf.record(Event(stored.version, "MODIFIED" if previous else "ADDED", key, stored, previous))
        if previous is not None:
            previous.release()
        return stored

    def remove(self, shelf_key: ShelfKey, key: str) -> Stored:
        """Take an object away; gives its last version under the version of the deletion."""
        shelf = self.shelf(shelf_key)
        previous = shelf.objects[key]
        last = self._versioned(dict(previous.fields))
        shelf.record(Event(last.version, "DELETED", key, last, previous))
        return last

    def forget(self, shelf_key: ShelfKey | None = None) -> None:
        """Compact one resource's past, or everything's."""
        if shelf_key is None:
            self._forgotten = self.version
        for key, shelf in self.shelves():
            if shelf_key is None or key == shelf_key:
                shelf.forget(self.version)

    def _versioned(self, fields: Object) -> Stored:
        self.version += 1
        fields["metadata"] = {**fields["metadata"], "resourceVersion": str(self.version)}
        return Stored(fields, self.version)
