"""What the operator needs of a store of the cache, for objects of the model: reading, indexes, and taking in answers."""

from collections.abc import Callable, Collection, Iterable, KeysView
from typing import Protocol, TypeVar

from controller_runtime.controller import ChangeView

T_co = TypeVar("T_co", covariant=True)


class ObjectStore(Protocol[T_co]):
    """The newest version of each object of one kind, by key (`name` or `namespace/name`); see `controller_runtime.cache.Store`."""

    @property
    def synced(self) -> bool:
        """Whether a whole list was taken in at least once."""

    def get(self, key: str) -> T_co | None:
        """The object, or None."""

    def values(self) -> Collection[T_co]:
        """All objects; a live view."""

    def keys(self) -> KeysView[str]:
        """All keys; a live view."""

    def by_index(self, name: str, value: str) -> tuple[T_co, ...]:
        """The objects under a value; the same tuple until one of them changes."""

    def add_index(self, name: str, function: Callable[[T_co], Iterable[str]]) -> None:
        """Keep objects by the values `function` finds in them."""

    def resource_version(self, key: str) -> str | None:
        """The newest version heard of, which may be newer than the object's own when nothing we read changed."""

    def observe(self, raw: bytes) -> T_co:
        """Take in the answer of an own write or a live read."""

    def observe_deleted(self, key: str, uid: str) -> None:
        """Take in that an object is gone."""

    def subscribe(self, handler: Callable[[ChangeView[T_co]], None], /) -> None:
        """Call `handler` after each change."""
