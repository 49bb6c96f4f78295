"""One kind of object, kept true in a store: a reflector, a decoder, and somebody who starts the reflector again.

Relies on `watch` for how a list-and-watch goes. Controllers, the operator's snapshot and the simulator read its
`store`.
"""

import asyncio
import logging
import random
from collections import Counter
from typing import Generic, TypeVar

import msgspec

from controller_runtime.cache.decoding import ObjectDecoder, Undecodable
from controller_runtime.cache.objects import KubeObject
from controller_runtime.cache.scope import scope
from controller_runtime.cache.store import Store
from controller_runtime.clock import Clock, SystemClock
from controller_runtime.transport import Resource
from controller_runtime.watch import Reflector, WatchClient
from controller_runtime.watch.backoff import Backoff
from controller_runtime.watch.machine import Fault

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubeObject)


class Informer(Generic[T]):
    """Keeps `store` true for as long as `run` runs; the last picture stays readable while the server is away."""

    def __init__(
        self,
        client: WatchClient,
        resource: Resource,
        type_: type[T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        streaming: bool = True,
    ) -> None:
        self.resource = resource
        self.counts: Counter[str] = Counter()
        """What happened, for metrics: `list`, `watch`, `event`, `bookmark`, `undecodable`, `restart`, and faults by
        name.
        """
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._clock: Clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._streaming = streaming
        self.store: Store[T] = Store(
            type_, clock=self._clock, name=str(resource), scope=scope(namespace, label_selector, field_selector)
        )
        self._picture = _Picture(self.store, type_, self.counts)
        self._reflector: Reflector[T | Undecodable] | None = None
        self._started = self._clock.monotonic()

    @property
    def last_progress(self) -> float:
        """When the server last told something, by the clock's `monotonic`; the start if it never did."""
        return self._reflector.last_progress if self._reflector is not None else self._started

    @property
    def quarantined(self) -> frozenset[str]:
        """Keys whose newest version cannot be read; the store holds the last readable one, or none (trap 50)."""
        return frozenset(self._picture.unreadable)

    async def wait_synced(self) -> None:
        """Wait until a whole list was taken in and every handler has been told of it (trap 47)."""
        await self._picture.synced.wait()

    async def run(self) -> None:
        """Keep the store true until cancelled.

        Whatever unexpected ends the reflector is logged, and a new one starts from a full list: a watch never dies
        silently.
        """
        backoff = Backoff(clock=self._clock, rng=self._rng)
        while True:
            last = self.last_progress
            self._reflector = Reflector(
                self._client,
                self.resource,
                self._picture,
                namespace=self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                clock=self._clock,
                rng=self._rng,
                streaming=self._streaming,
                counts=self.counts,
            )
            self._reflector.last_progress = last
            try:
                await self._reflector.run()
            except Exception:
                log.exception("the watch of %s failed unexpectedly; it starts again from a full list", self.resource)
                self.counts["restart"] += 1
                self._picture.discard()
                await self._clock.sleep(backoff.delay(Fault.OTHER))


class _Picture(Generic[T]):
    """The reflector's sink: decodes, collects a new picture aside, and hands everything to the store."""

    def __init__(self, store: Store[T], type_: type[T], counts: Counter[str]) -> None:
        self.synced = asyncio.Event()
        self.unreadable: set[str] = set()
        self._store = store
        self._decoder = ObjectDecoder(type_)
        self._counts = counts
        self._staged: dict[str, T] = {}
        self._staged_unreadable: set[str] = set()

    def decode(self, raw: bytes | msgspec.Raw) -> T | Undecodable | None:
        try:
            item = self._decoder.decode_or_quarantine(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._counts["undecodable"] += 1
            log.warning("%s: an object without readable metadata is left out: %s", self._store.name, error)
            return None
        if isinstance(item, Undecodable):
            self._counts["undecodable"] += 1
            key = item.metadata.key
            if key not in self.unreadable:
                log.warning(
                    "%s %s cannot be read and is left as it was last readable: %s", self._store.name, key, item.error
                )
        return item

    def begin(self) -> None:
        self.discard()

    def discard(self) -> None:
        self._staged = {}
        self._staged_unreadable = set()

    def stage(self, kind: str, item: T | Undecodable) -> None:
        key = item.metadata.key
        self._staged.pop(key, None)
        self._staged_unreadable.discard(key)
        if kind == "DELETED":
            return
        if isinstance(item, Undecodable):
            self._staged_unreadable.add(key)
        else:
            self._staged[key] = item

    def commit(self, resource_version: str) -> None:
        staged, self.unreadable = self._staged, self._staged_unreadable
        self.discard()
        self._store.replace(staged, resource_version, unreadable=self.unreadable)
        self.synced.set()

    def apply(self, kind: str, item: T | Undecodable) -> None:
        metadata = item.metadata
        if kind == "DELETED":
            self.unreadable.discard(metadata.key)
            self._store.remove(metadata.key, metadata.uid, metadata.resource_version)
        elif isinstance(item, Undecodable):
            self.unreadable.add(metadata.key)
            self._store.touch(metadata.key, metadata.resource_version)
        else:
            self.unreadable.discard(metadata.key)
            self._store.apply(item)
