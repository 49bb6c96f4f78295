"""The parts every Kubernetes object has, as small frozen structs.

An object type of the cache is any frozen `msgspec.Struct` with a `metadata: ObjectMeta` field and names in camelCase
on the wire:

    class Lease(msgspec.Struct, frozen=True, gc=False, rename="camel"):
        metadata: ObjectMeta
        spec: LeaseSpec = LeaseSpec()

It names only the fields somebody reads; the decoder skips the rest (managedFields, images) without making objects of
it. Frozen, since one object is shared by all readers (trap 38). Out of the garbage collector's sight, since what JSON
describes has no cycles.
"""

from typing import Protocol

import msgspec


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whom an object belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`metadata`, without what nobody reads (managedFields). Times are RFC 3339 texts as sent."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`name`, or `namespace/name`: the object's key in a `Store` and in queues."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class KubeObject(Protocol):
    """Anything with metadata; in practice a frozen msgspec struct."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, UID, labels and the rest every object has."""
