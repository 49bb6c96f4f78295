"""Identity as a cache key, for parsed specs: they are immutable, expensive to hash, and parsed once per change.

The reference held by the key keeps the object alive, so that its address cannot pass to another while an entry lives. Relied on by the
caches of this package, all of them bounded.
"""

from typing import Generic, TypeVar

T = TypeVar("T")


class Same(Generic[T]):
    """Equal only to a `Same` of the very same object."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value
