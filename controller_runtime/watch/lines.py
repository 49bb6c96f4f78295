"""Lines of any length out of chunks of any size (trap 16).

A watch sends one JSON document a line; an object may be larger than any reader's line limit. Nothing is copied more
than once, however many chunks a line spans.
"""


class LineSplitter:
    """Feed it chunks, get whole lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their newlines; blank ones are left out."""
        if b"\n" not in chunk:
            if chunk:
                self._parts.append(chunk)
            return []
        first, *lines = chunk.split(b"\n")
        if self._parts:
            self._parts.append(first)
            first = b"".join(self._parts)
            self._parts.clear()
        rest = lines.pop()
        if rest:
            self._parts.append(rest)
        lines.insert(0, first)
        return [line for line in lines if line and not line.isspace()]

    @property
    def pending(self) -> int:
        """Bytes of the line that is not complete."""
        return sum(map(len, self._parts))
