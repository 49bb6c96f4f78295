"""Single writes whose answers go into the store at once (traps 35, 36): what all writers of the executor are made of.

A refusal that says "your picture is old" makes a live read, which is taken in, and becomes `Stale`: the CR is planned again from
what is true now. Everything else is left to the caller as the transport's errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec

from controller_runtime.transport import ApiError, Client, Conflict, NotFound, PatchType, Resource
from nodewright.operator.object_store import ObjectStore

T = TypeVar("T")

Propagation = Literal["Background", "Foreground"]


class Stale(Exception):  # noqa: N818 - not an error: the reason to plan again
    """The picture was out of date; it has been refreshed."""


@dataclass(frozen=True, slots=True)
class Target(Generic[T]):
    """One object and the store that holds its kind. `label` is what brings it into the store's scope, if anything."""

    resource: Resource
    store: ObjectStore[T]
    name: str
    uid: str = ""
    namespace: str | None = None
    label: str | None = None

    @property
    def key(self) -> str:
        """The object's key in the store."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def resource_version(self) -> str | None:
        """The newest version heard of, for preconditions."""
        return self.store.resource_version(self.key)


class _Meta(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}


class _Head(msgspec.Struct, frozen=True):
    kind: str = ""
    metadata: _Meta = _Meta()


_head = msgspec.json.Decoder(_Head)


def is_refusal(error: Exception) -> bool:
    """Whether the server understood and said no, so that trying again at once is pointless (JOB-15a)."""
    return isinstance(error, ApiError) and 400 <= error.status < 500 and error.status not in (401, 408, 409, 429)


class Cluster:
    """The client and what to do with its answers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, target: Target[T], body: Mapping[str, Any]) -> T:
        """Create the object and take the answer in.

        Raises:
            ApiError, TransportError: as they come; the target is untouched by a refusal.
        """
        return target.store.observe(await self.client.create(target.resource, body, namespace=target.namespace))

    async def patch(
        self,
        target: Target[T],
        body: Mapping[str, Any] | Sequence[Any] | bytes,
        patch_type: PatchType,
        *,
        subresource: str | None = None,
    ) -> T:
        """Patch the object and take the answer in.

        Raises:
            Stale: it is gone, or a precondition on UID or resourceVersion failed; the picture was refreshed.
            ApiError, TransportError: anything else.
        """
        try:
            raw = await self.client.patch(
                target.resource, target.name, body, patch_type, namespace=target.namespace, subresource=subresource
            )
        except NotFound as error:
            target.store.observe_deleted(target.key, target.uid)
            raise Stale(str(error)) from error
        except Conflict as error:
            await self.refresh(target)
            raise Stale(str(error)) from error
        return target.store.observe(raw)

    async def delete(
        self, target: Target[T], *, resource_version: str | None = None, propagation: Propagation | None = None
    ) -> None:
        """Delete the object if it is still the one of that UID (and version). One that is gone is deleted.

        Raises:
            Stale: it changed meanwhile; the picture was refreshed.
            ApiError, TransportError: anything else.
        """
        try:
            raw = await self.client.delete(
                target.resource,
                target.name,
                namespace=target.namespace,
                uid=target.uid,
                resource_version=resource_version,
                propagation=propagation,
            )
        except NotFound:
            target.store.observe_deleted(target.key, target.uid)
            return
        except Conflict as error:
            await self.refresh(target)
            raise Stale(str(error)) from error
        if _head.decode(raw).kind == "Status":
            target.store.observe_deleted(target.key, target.uid)
        else:
            target.store.observe(raw)

    async def refresh(self, target: Target[T]) -> T | None:
        """Read the object live and take it in; None when there is none in the store's scope."""
        # What the answer proves gone was there before it was asked for: meanwhile the watch may tell of a new object of that name.
        held: Any = target.store.get(target.key)
        uid = target.uid if held is None else held.metadata.uid
        try:
            raw = await self.client.get(target.resource, target.name, namespace=target.namespace)
        except NotFound:
            target.store.observe_deleted(target.key, uid)
            return None
        # An object that left the scope sends no more events: taken in, it would stay for ever.
        if target.label is not None and target.label not in _head.decode(raw).metadata.labels:
            target.store.observe_deleted(target.key, uid)
            return None
        return target.store.observe(raw)
