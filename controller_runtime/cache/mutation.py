"""Finds who changed a shared object: a check for tests and debugging (trap 38).

Structs are frozen, but the dicts in them (labels, annotations) are not. Costs an encoding of every object at every
change: not for production.
"""

from typing import Generic, TypeVar

import msgspec

from controller_runtime.cache.objects import KubeObject
from controller_runtime.cache.store import Change, Store

T = TypeVar("T", bound=KubeObject)


class MutationDetector(Generic[T]):
    """Remembers each object of a store as it came, from its making on."""

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self._as_it_came = {item.metadata.key: msgspec.json.encode(item) for item in store.values()}
        store.subscribe(self._note)

    def mutated(self) -> list[str]:
        """The keys whose objects are not what they were, sorted."""
        return sorted(
            item.metadata.key
            for item in self._store.values()
            if self._as_it_came[item.metadata.key] != msgspec.json.encode(item)
        )

    def _note(self, change: Change[T]) -> None:
        if change.new is not None:
            self._as_it_came[change.new.metadata.key] = msgspec.json.encode(change.new)
        elif change.old is not None:
            self._as_it_came.pop(change.old.metadata.key, None)
