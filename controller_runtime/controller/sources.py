"""From changed objects to keys: which changes matter, and whose keys they concern.

Predicates and mappers are pure functions. Relied on by `controller`; relies on nothing but the shape of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ChangeView(Protocol[T_co]):
    """One change of a store: an add has no `old`, a delete no `new`, an update has both."""

    @property
    def old(self) -> T_co | None:
        """The object before the change."""

    @property
    def new(self) -> T_co | None:
        """The object after the change."""


class Source(Protocol[T_co]):
    """What a controller needs of a store."""

    @property
    def synced(self) -> bool:
        """Whether the first list is complete and every subscriber was told of it (trap 47)."""

    def values(self) -> Collection[T_co]:
        """All objects."""

    def subscribe(self, handler: Callable[[ChangeView[T_co]], None], /) -> None:
        """Call `handler` after each change."""


Mapper = Callable[[T], Iterable[str]]
"""The keys an object concerns. Called for the old and the new object of a change (trap 49)."""
Predicate = Callable[[ChangeView[T]], bool]
"""Whether a change matters."""


@dataclass(frozen=True, slots=True)
class Existing(Generic[T]):
    """The change that an object found in a store stands for."""

    new: T
    old: None = None


class _OwnerReference(Protocol):
    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def controller(self) -> bool: ...


class _Metadata(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def deletion_timestamp(self) -> str | None: ...
    @property
    def owner_references(self) -> Sequence[_OwnerReference]: ...


class _Object(Protocol):
    @property
    def metadata(self) -> _Metadata: ...


O = TypeVar("O", bound=_Object)  # noqa: E741 - the usual name for an object's type


def object_key(obj: _Object) -> Iterable[str]:
    """Map an object to its own key: `name`, or `namespace/name`."""
    return (f"{obj.metadata.namespace}/{obj.metadata.name}" if obj.metadata.namespace else obj.metadata.name,)


def owner_key(kind: str, group: str, *, namespaced: bool = False) -> Callable[[_Object], Iterable[str]]:
    """Map an object to the key of its controlling owner of this kind and API group, whatever the group's version.

    The key of a cluster-scoped owner (the default) is its name, that of a namespaced one has the object's namespace. Owners
    that are not marked as the controller do not count.
    """

    def keys(obj: _Object) -> Iterable[str]:
        for owner in obj.metadata.owner_references:
            owner_group = owner.api_version.rpartition("/")[0]
            if owner.controller and owner.kind == kind and owner_group == group:
                yield f"{obj.metadata.namespace}/{owner.name}" if namespaced else owner.name

    return keys


def changed_by(projection: Callable[[O], Hashable]) -> Callable[[ChangeView[O]], bool]:
    """Let adds and deletes pass, and updates only if `projection` of the object differs.

    An update that sets the deletion timestamp always passes, as does one to another UID: a deletion must not wait for the
    projection to notice (trap 54).
    """

    def passes(change: ChangeView[O]) -> bool:
        old, new = change.old, change.new
        if old is None or new is None:
            return True
        return (
            old.metadata.uid != new.metadata.uid
            or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
            or projection(old) != projection(new)
        )

    return passes
