"""ConfigMap data kept as digests: what 1,000 node metadata ConfigMaps say need not be in memory to know whether it changed.

A `DigestedConfigMap` is a `ConfigMap` whose `data` equals a plain map iff the texts are the same; the keys stay readable. So
`workloads.configmaps.differs` works on it unchanged. Relied on by the informer of the node metadata ConfigMaps (CON-16).
"""

import hashlib
from collections.abc import Mapping

import msgspec

from nodewright.model.objects import ConfigMap

_DIGEST_BYTES = 12


class Digests(dict[str, str]):
    """Key to digest; compares equal to a map with the same keys whose texts have these digests."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Digests):
            return dict.__eq__(self, other)
        if not isinstance(other, Mapping) or len(other) != len(self):
            return False
        return all(self.get(key) == digest(text) for key, text in other.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


def digest(text: str) -> str:
    """A short text that stands for `text`; latin-1, so that it takes a byte for each of its characters."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest().decode("latin-1")


class DigestedConfigMap(ConfigMap, frozen=True, rename="camel"):
    """A ConfigMap that forgets its texts as soon as it was decoded."""

    def __post_init__(self) -> None:
        if not isinstance(self.data, Digests):
            kept = Digests({key: digest(text) for key, text in self.data.items()})
            msgspec.structs.force_setattr(self, "data", kept)
