"""Who owns whom, by UID, and what becomes of an object when its owners go. Pure; `garbage` carries it out."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from controller_runtime.transport import Resource
from nodewright.simulator.controllers.views import Meta, Owner

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class Item:
    """An object as garbage collection sees it."""

    resource: Resource
    metadata: Meta

    @property
    def owners(self) -> tuple[Owner, ...]:
        """Its owner references."""
        return self.metadata.owner_references

    @property
    def waits_for_dependents(self) -> bool:
        """Being deleted in the foreground."""
        return self.metadata.deletion_timestamp is not None and FOREGROUND in self.metadata.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Being deleted, its dependents are to stay."""
        return self.metadata.deletion_timestamp is not None and ORPHAN in self.metadata.finalizers


class State(Enum):
    """What an owner reference points to."""

    SOLID = auto()
    WAITING = auto()
    """An owner that waits until this object is gone."""
    ABSENT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """Drop references to these UIDs, or delete the object; neither = leave it. `unblock`: make its references non-blocking first."""

    drop: tuple[str, ...] = ()
    delete: str | None = None
    """`Background`, `Foreground` or `Orphan`."""
    unblock: bool = False


def fate(item: Item, states: dict[str, State], dependents: Iterable[Item]) -> Fate:
    """What becomes of an object that is not being deleted, whose owners are in these states (by UID).

    One solid owner keeps it, and references to others go. With none it goes, too: in the foreground when an owner waits for it and it has
    dependents of its own.
    """
    of = {state: tuple(owner.uid for owner in item.owners if states[owner.uid] is state) for state in State}
    if not item.owners:
        return Fate()
    if of[State.SOLID]:
        return Fate(drop=of[State.ABSENT] + of[State.WAITING])
    children = tuple(dependents)
    if of[State.WAITING] and children:
        circle = any(child.waits_for_dependents for child in children)
        return Fate(delete="Foreground", unblock=circle)
    finalizers = item.metadata.finalizers
    if ORPHAN in finalizers:
        return Fate(delete="Orphan")
    return Fate(delete="Foreground" if FOREGROUND in finalizers else "Background")


@dataclass(slots=True)
class Graph:
    """All known objects by UID, and their dependents. `put` and `remove` answer the UIDs that have to be looked at again."""

    items: dict[str, Item] = field(default_factory=dict)
    _dependents: dict[str, dict[str, None]] = field(default_factory=dict)

    def dependents(self, uid: str) -> list[Item]:
        """The known objects that name this owner, oldest first."""
        return [self.items[child] for child in self._dependents.get(uid, ())]

    def blockers(self, uid: str) -> list[Item]:
        """The dependents for which a foreground deletion of the owner waits."""
        return [
            child
            for child in self.dependents(uid)
            if any(owner.uid == uid and owner.block_owner_deletion for owner in child.owners)
        ]

    def put(self, item: Item) -> list[str]:
        """Take in an object."""
        uid = item.metadata.uid
        old = self.items.get(uid)
        self.items[uid] = item
        before = {} if old is None else {owner.uid: owner for owner in old.owners}
        after = {owner.uid: owner for owner in item.owners}
        for owner in before.keys() - after.keys():
            self._leave(owner, uid)
        for owner in after.keys() - before.keys():
            self._dependents.setdefault(owner, {})[uid] = None
        again = [owner for owner in before if before[owner] != after.get(owner) and self._waits(owner)]
        if any(owner not in self.items or self._waits(owner) for owner in after) or before.keys() - after.keys():
            again.append(uid)
        if (item.waits_for_dependents and not (old and old.waits_for_dependents)) or item.orphans_dependents:
            again += [uid, *(child.metadata.uid for child in self.dependents(uid))]
        return again

    def remove(self, uid: str) -> list[str]:
        """Take out an object that is gone."""
        item = self.items.pop(uid, None)
        if item is None:
            return []
        for owner in item.owners:
            self._leave(owner.uid, uid)
        waiting = [owner.uid for owner in item.owners if self._waits(owner.uid)]
        return [*waiting, *self._dependents.get(uid, ())]

    def _waits(self, uid: str) -> bool:
        item = self.items.get(uid)
        return item is not None and item.waits_for_dependents

    def _leave(self, owner: str, child: str) -> None:
        children = self._dependents.get(owner, {})
        children.pop(child, None)
        if not children:
            self._dependents.pop(owner, None)
