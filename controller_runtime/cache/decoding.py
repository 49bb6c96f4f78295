"""From bytes to structs, one object at a time, so that one that cannot be read harms nobody else (trap 50)."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec

from controller_runtime.cache.objects import KubeObject, ObjectMeta

T = TypeVar("T", bound=KubeObject)


class Undecodable(msgspec.Struct, frozen=True):
    """An object that is not of the expected shape; its metadata could be read all the same."""

    metadata: ObjectMeta
    error: str = ""


class _OnlyMetadata(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


_METADATA = msgspec.json.Decoder(_OnlyMetadata)


class ObjectDecoder(Generic[T]):
    """Reads one kind of object."""

    def __init__(self, type_: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(type_)

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        """The object.

        Raises:
            msgspec.DecodeError: the bytes are no JSON, or not of this shape.
        """
        return self._decoder.decode(raw)

    def decode_or_quarantine(self, raw: bytes | msgspec.Raw) -> T | Undecodable:
        """The object, or its metadata and why the rest cannot be read.

        Raises:
            msgspec.DecodeError: not even the metadata can be read.
        """
        try:
            return self._decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Undecodable(_METADATA.decode(raw).metadata, str(error))


def same_but_version(type_: type[T]) -> Callable[[T, T], bool]:
    """A comparison of two objects of `type_` in everything but `metadata.resourceVersion`.

    A write that changed only fields nobody here reads (a node's heartbeat) makes two such objects.
    """
    body = _fields(type_, without="metadata")
    metadata = _fields(type(_metadata_of(type_)), without="resource_version")

    def same(one: T, other: T) -> bool:
        return bool(metadata(one.metadata) == metadata(other.metadata) and body(one) == body(other))

    return same


def _fields(type_: type[Any], *, without: str) -> Callable[[Any], object]:
    names = [field.name for field in msgspec.structs.fields(type_) if field.name != without]
    return attrgetter(*names) if names else lambda _: None


def _metadata_of(type_: type[Any]) -> Any:
    for field in msgspec.structs.fields(type_):
        if field.name == "metadata":
            return msgspec.json.decode(b"{}", type=field.type)
    raise TypeError(f"{type_.__name__} has no metadata")
