"""The execution ledger: what really ran on the simulated nodes, whatever the cluster's objects say.

Fault tests hold their claims against it ("no stage run twice, none lost"). Written by the kubelets at the start and at the end of each
container; kept in memory, and with a path also appended as JSON lines, one `write` a line, so that a killed simulator loses nothing.
"""

import os
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec


class Event(StrEnum):
    """What the ledger records."""

    START = "start"
    END = "end"
    REFUSED = "refused"
    REBOOT = "reboot"


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line. `time` is Unix time in seconds; `outcome` is empty at a start.

    At an end `outcome` is `succeeded`, `failed:<exit code>`, `killed:<cause>` (deleted, deadline, evicted, gone) or `lost` (reboot).
    """

    time: float
    event: Event
    node: str
    pod_uid: str = ""
    pod: str = ""
    job: str = ""
    cr: str = ""
    package: str = ""
    version: str = ""
    stage: str = ""
    run: str = ""
    container: str = ""
    attempt: int = 0
    outcome: str = ""


class Ledger:
    """An append-only list of entries, optionally also a file. Unbounded on purpose: it is evidence."""

    def __init__(self, path: Path | None = None) -> None:
        self.entries: list[Entry] = []
        self._encoder = msgspec.json.Encoder()
        self._file = (
            None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        )

    def record(self, entry: Entry) -> None:
        """Append one entry. Raises OSError when the file cannot be written: a ledger with holes proves nothing."""
        self.entries.append(entry)
        if self._file is not None:
            os.write(self._file, self._encoder.encode(entry) + b"\n")

    def close(self) -> None:
        """Close the file; the entries stay readable."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_ledger(path: Path) -> list[Entry]:
    """The entries of a ledger file; a last line that is still being written is left out."""
    lines = path.read_bytes().split(b"\n")[:-1]
    decoder = msgspec.json.Decoder(Entry)
    return [decoder.decode(line) for line in lines]
