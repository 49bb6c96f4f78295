"""A CR's status as stored, decoded field by field when somebody asks: of a megabyte of it a pass reads a few lines (LIF-1)."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class PublishedStatus(Mapping[str, Any]):
    """The status as a read-only map; a status that is no object reads as empty."""

    __slots__ = ("_decoded", "_raw", "_split")

    def __init__(self, raw: msgspec.Raw) -> None:
        self._raw = raw
        self._split: dict[str, msgspec.Raw] | None = None
        self._decoded: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        found = self._decoded.get(key)
        if found is None:
            found = self._decoded[key] = msgspec.json.decode(self._parts()[key])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts())

    def __len__(self) -> int:
        return len(self._parts())

    def _parts(self) -> dict[str, msgspec.Raw]:
        if self._split is None:
            try:
                self._split = _fields.decode(self._raw)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self._split = {}
        return self._split
