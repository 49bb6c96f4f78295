"""What all controllers ask of an API server, and how they take in the answers, so that each sees its own writes at once.

Relies on the transport client or its embedded twin. A store that knows its own writes needs no expectations: a pod that was just made is in
it before the watch tells.
"""

# ruff: noqa: ASYNC109 - the client's signatures

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from controller_runtime.cache import KubeObject, ObjectMeta, Store
from controller_runtime.queue import Backoff
from controller_runtime.transport import ApiError, Conflict, NotFound, PatchType, Resource, TransportError
from controller_runtime.watch import WatchClient

T = TypeVar("T", bound=KubeObject)
Propagation = Literal["Background", "Foreground", "Orphan"]
LIFE: tuple[type[Exception], ...] = (ApiError, TransportError)
"""Failures that are part of life: tried again later."""


class ClusterClient(WatchClient, Protocol):
    """The methods of `transport.Client` that controllers use."""

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None, timeout: float = ...) -> bytes:
        """Read one object, live."""

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any] | bytes,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        timeout: float = ...,
    ) -> bytes:
        """Create an object."""

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any] | Sequence[Any] | bytes,
        patch_type: PatchType,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        timeout: float = ...,
    ) -> bytes:
        """Change parts of an object."""

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        timeout: float = ...,
    ) -> bytes:
        """Delete an object."""


class _Answer(msgspec.Struct):
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Requests:
    """Writes whose answers go into the store they concern. Raises ApiError and TransportError like the client."""

    def __init__(self, client: ClusterClient) -> None:
        self.client = client

    async def delete(
        self,
        resource: Resource,
        store: Store[T],
        meta: ObjectMeta,
        *,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete the object of that UID; one that is gone already, or replaced, is fine.

        Raises Conflict only when `resource_version` was given and the object has changed.
        """
        try:
            raw = await self.client.delete(
                resource,
                meta.name,
                namespace=meta.namespace or None,
                uid=meta.uid,
                resource_version=resource_version,
                propagation=propagation,
                grace_period_seconds=grace_period_seconds,
            )
        except NotFound:
            store.observe_deleted(meta.key, meta.uid)
            return
        except Conflict:
            if resource_version is not None:
                raise
            store.observe_deleted(meta.key, meta.uid)
            return
        answer = msgspec.json.decode(raw, type=_Answer)
        if answer.kind == "Status":
            store.observe_deleted(meta.key, meta.uid)
        elif answer.metadata.deletion_timestamp is not None and grace_period_seconds != 0:
            store.observe(raw)

    async def patch(
        self,
        resource: Resource,
        store: Store[T],
        meta: ObjectMeta,
        body: Mapping[str, Any],
        patch_type: PatchType,
        *,
        subresource: str | None = None,
    ) -> T | None:
        """Patch the object; None when it is gone, and is then gone from the store, too.

        A conflict is raised: the UID or version in the body is not the object's.
        """
        try:
            raw = await self.client.patch(
                resource, meta.name, body, patch_type, namespace=meta.namespace or None, subresource=subresource
            )
        except NotFound:
            store.observe_deleted(meta.key, meta.uid)
            return None
        answer = msgspec.json.decode(raw, type=_Answer)
        if answer.metadata.deletion_timestamp is not None and not answer.metadata.finalizers:
            return None  # it may have been the last finalizer: the watch tells whether it is gone
        return store.observe(raw)


def version_of(raw: bytes) -> str:
    """The resourceVersion of an answer: the precondition of the next write."""
    return msgspec.json.decode(raw, type=_Answer).metadata.resource_version


def retry_backoff(base: float, cap: float = 60.0) -> Backoff:
    """Exponential delays without jitter: simulated runs are to be the same each time."""
    return Backoff(base=base, cap=cap, jitter=0.0)
