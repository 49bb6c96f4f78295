"""The picture of one kind of object: what was last heard of each, with indexes, read by everybody and written in one
place.

Everything here is synchronous: between a change of the objects, of the indexes, and the calls of the handlers no
other task runs (trap 17). Two sources write: the watch (`replace`, `apply`, `remove`), and the answers of own writes
and live reads (`observe`, `observe_deleted`), which come in any order. Resource versions put them in order; they are
compared as integers, which the API guarantees since 1.35. A key holds the newest version heard of; a deleted UID
stays dead (trap 36, in the shape of a store that already knows, instead of a barrier).
"""

import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, KeysView, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from controller_runtime.cache.decoding import ObjectDecoder, same_but_version
from controller_runtime.cache.objects import KubeObject, ObjectMeta
from controller_runtime.cache.tombstones import Tombstones
from controller_runtime.clock import Clock, SystemClock

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubeObject)

_NOTHING: tuple[()] = ()


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What happened to one key: `old` None is new, `new` None is gone, both set is an update of one UID."""

    old: T | None
    new: T | None


class Index(Generic[T]):
    """Objects by the values a function finds in them."""

    def __init__(self, function: Callable[[T], Iterable[str]]) -> None:
        self._function = function
        self._keys: dict[str, list[str]] = {}
        self._tuples: dict[str, tuple[T, ...]] = {}

    def values(self) -> Collection[str]:
        """The values that have objects."""
        return self._keys.keys()

    def bucket(self, value: str, objects: Mapping[str, T]) -> tuple[T, ...]:
        """The objects of a value, sorted by key: the same tuple object until one of them changes."""
        found = self._tuples.get(value)
        if found is None:
            keys = self._keys.get(value)
            if keys is None:
                return _NOTHING
            found = self._tuples[value] = tuple([objects[key] for key in keys])
        return found

    def move(self, key: str, old: T | None, new: T | None) -> None:
        """Follow one object's change."""
        before = self._values_of(key, old)
        after = self._values_of(key, new)
        for value in before:
            self._tuples.pop(value, None)
            if value not in after:
                keys = self._keys[value]
                del keys[bisect_left(keys, key)]
                if not keys:
                    del self._keys[value]
        for value in after:
            self._tuples.pop(value, None)
            if value not in before:
                insort(self._keys.setdefault(value, []), key)

    def _values_of(self, key: str, item: T | None) -> frozenset[str]:
        if item is None:
            return frozenset()
        try:
            return frozenset(self._function(item))
        except Exception:
            # Frozen objects: the same function fails alike for old and new, so nothing is left behind.
            log.exception("the index function failed for %s; it is not in this index", key)
            return frozenset()


class Store(Generic[T]):
    """The newest version of each object of one kind, by key (`name` or `namespace/name`)."""

    def __init__(
        self,
        type_: type[T],
        *,
        clock: Clock | None = None,
        name: str = "",
        scope: Callable[[ObjectMeta], bool] | None = None,
    ) -> None:
        self.name = name or type_.__name__
        self.version = 0
        """Rises with each change a reader can see."""
        self.synced = False
        """Whether a whole list was taken in at least once."""
        self._decoder = ObjectDecoder(type_)
        self._same = same_but_version(type_)
        self._scope = scope
        self._objects: dict[str, T] = {}
        self._versions: dict[str, int] = {}
        self._indexes: dict[str, Index[T]] = {}
        self._handlers: list[Callable[[Change[T]], None]] = []
        self._tombstones = Tombstones(clock or SystemClock())
        self._heard = 0  # the version up to which lists and events told everything

    # --- reading --------------------------------------------------------------------------------------------

    def get(self, key: str) -> T | None:
        """The object, or None."""
        return self._objects.get(key)

    def values(self) -> Collection[T]:
        """All objects; a live view, do not keep it across an await."""
        return self._objects.values()

    def keys(self) -> KeysView[str]:
        """All keys; a live view, do not keep it across an await."""
        return self._objects.keys()

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def resource_version(self, key: str) -> str | None:
        """The newest resourceVersion heard of for this key: the one to send as a precondition.

        It can be newer than that of the object in the store, when only fields changed that the struct does not name.
        """
        if key not in self._objects:
            return None
        version = self._versions.get(key, 0)
        return str(version) if version else self._objects[key].metadata.resource_version

    def add_index(self, name: str, function: Callable[[T], Iterable[str]]) -> None:
        """Keep objects by the values `function` finds in them. Pure, and added before the first object.

        Raises:
            ValueError: there are objects already, or an index of that name.
        """
        if self._objects or name in self._indexes:
            raise ValueError(f"index {name!r} of {self.name}: it exists, or objects came before it")
        self._indexes[name] = Index(function)

    def by_index(self, name: str, value: str) -> tuple[T, ...]:
        """The objects under a value, sorted by key; the same tuple object until one of them changes, comes or goes."""
        return self._indexes[name].bucket(value, self._objects)

    def index_values(self, name: str) -> Collection[str]:
        """The values of an index that have objects; a live view."""
        return self._indexes[name].values()

    def subscribe(self, handler: Callable[[Change[T]], None]) -> None:
        """Call `handler` with each later change, after objects and indexes changed; what is there already is not told.

        An exception of a handler is logged and stops neither the others nor the watch (trap 17).
        """
        self._handlers.append(handler)

    # --- own answers ----------------------------------------------------------------------------------------

    def observe(self, raw: bytes) -> T:
        """Take in the answer of an own write or a live read, at once if it is newer than what is there.

        Returns what the answer says; the very object in the store if that is what it holds now. An answer outside the
        store's scope takes the object out, as the watch will (trap 37).

        Raises:
            msgspec.DecodeError: the answer is not of this kind.
        """
        item = self._decoder.decode(raw)
        metadata = item.metadata
        version = _number(metadata.resource_version)
        if self._scope is not None and not self._scope(metadata):
            self._leave(metadata.key, metadata.uid, version)
            return item
        if metadata.key not in self._objects and 0 < version <= self._heard:
            # Whatever was true up to that version has been told, and this object was not part of it: it is gone again.
            return item
        self._notify(self._accept(metadata.key, item, version))
        held = self._objects.get(metadata.key)
        return held if held is not None and self._same(held, item) else item

    def observe_deleted(self, key: str, uid: str) -> None:
        """Take in that an object is gone: a DELETE answered so, or a live read found nothing under the key.

        A late answer about this UID revives nothing. Another object of the same name is not touched.
        """
        self._tombstones.bury(uid, None)
        held = self._objects.get(key)
        if held is not None and held.metadata.uid == uid:
            self._notify(self._set(key, None))

    # --- the watch ------------------------------------------------------------------------------------------

    def apply(self, item: T) -> None:
        """Take in an event's object, unless something newer is known of its key or its UID is dead."""
        metadata = item.metadata
        version = _number(metadata.resource_version)
        self._heard = max(self._heard, version)
        self._notify(self._accept(metadata.key, item, version))

    def remove(self, key: str, uid: str, resource_version: str) -> None:
        """Take in that the object of this UID was deleted, or left the scope, at this version."""
        version = _number(resource_version)
        self._heard = max(self._heard, version)
        self._leave(key, uid, version)

    def touch(self, key: str, resource_version: str) -> None:
        """Remember a newer version of a key whose object could not be read; the last readable one stays."""
        if key in self._objects:
            self._versions[key] = max(self._versions.get(key, 0), _number(resource_version))

    def replace(self, items: Mapping[str, T], resource_version: str, *, unreadable: Collection[str] = ()) -> None:
        """Take in a whole list: what it does not hold is gone (traps 5, 6), all in one step (trap 7).

        Own answers newer than the list stay. A list that is older than what a list or watch told before means that the
        cluster's history went back (a restored backup): then the list is the truth.
        """
        version = _number(resource_version)
        if version < self._heard:
            log.warning("%s: the list's version %d is before %d: history went back", self.name, version, self._heard)
            self._tombstones.clear()
            self._versions.clear()
        self._heard = version
        changes: list[Change[T]] = []
        for key, held in list(self._objects.items()):
            if key not in items and key not in unreadable and self._versions.get(key, 0) <= version:
                self._tombstones.bury(held.metadata.uid, version or None)
                changes += self._set(key, None)
        for key, item in items.items():
            changes += self._accept(key, item, _number(item.metadata.resource_version))
        self._notify(changes)
        self.synced = True

    # --- within ---------------------------------------------------------------------------------------------

    def _leave(self, key: str, uid: str, version: int) -> None:
        self._tombstones.bury(uid, version or None)
        held = self._objects.get(key)
        if held is None or held.metadata.uid != uid:
            return
        if not version or self._versions.get(key, 0) <= version:
            self._notify(self._set(key, None))

    def _accept(self, key: str, item: T, version: int) -> list[Change[T]]:
        if self._tombstones.refuses(item.metadata.uid, version):
            return []
        held = self._objects.get(key)
        if held is None:
            self._versions[key] = version
            return self._set(key, item)
        known = self._versions.get(key, 0)
        if version and version < known:
            return []
        if held.metadata.uid != item.metadata.uid:
            if version and version == known:
                return []
            self._tombstones.bury(held.metadata.uid, None)
            changes = self._set(key, None)
            self._versions[key] = version
            return changes + self._set(key, item)
        self._versions[key] = version
        # The old object stays the object: who remembers what it made of it need not look again.
        return [] if self._same(held, item) else self._set(key, item)

    def _set(self, key: str, item: T | None) -> list[Change[T]]:
        held = self._objects.get(key)
        if item is None:
            if held is None:
                return []
            del self._objects[key]
            self._versions.pop(key, None)
        else:
            self._objects[key] = item
        for index in self._indexes.values():
            index.move(key, held, item)
        self.version += 1
        return [Change(held, item)]

    def _notify(self, changes: list[Change[T]]) -> None:
        for change in changes:
            for handler in self._handlers:
                try:
                    handler(change)
                except Exception:
                    log.exception("a handler of %s failed; the others go on", self.name)


def _number(resource_version: str) -> int:
    """A resourceVersion as a number; 0 if it is none, which is ordered before all."""
    return int(resource_version) if resource_version.isascii() and resource_version.isdigit() else 0
