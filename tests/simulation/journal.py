"""Every write, in order, seen below the API server, with who asked for it; and a digest by which two histories are compared.

The picture and the moments are those of the fault tests, so that their claims hold here too.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from controller_runtime.testing.api_server import ApiServer
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.values import ApiRequest, ApiResponse
from nodewright.model.objects import Job, Node, NodeWrightObject, Pod
from tests.faults.journal import Lease, Moment, Picture

SHELVES: Final[dict[tuple[str, str], tuple[str, type[msgspec.Struct]]]] = {
    ("", "nodes"): ("Node", Node),
    ("batch", "jobs"): ("Job", Job),
    ("", "pods"): ("Pod", Pod),
    ("nodewright.nvidia.com", "nodewrights"): ("NodeWright", NodeWrightObject),
    ("coordination.k8s.io", "leases"): ("Lease", Lease),
}


@dataclass(frozen=True, slots=True)
class Write(Moment):
    """A moment, and the user agent that caused it."""

    by: str = ""

    @property
    def by_operator(self) -> bool:
        """Whether one of the operators wrote it."""
        return self.by.startswith("operator")


class Journal:
    """Hooked into a server's store on construction. `see` is called with each write after `now` has it."""

    def __init__(self, server: ApiServer, now: Callable[[], float], see: Callable[[Write, Picture], None]) -> None:
        self.now = Picture()
        self.writes: list[tuple[float, str, str, str, str]] = []
        """All writes, of all kinds: time, who, what, resource, key."""
        self.by = "start"
        self._digest = hashlib.blake2b(digest_size=16)
        self.time = now
        """Virtual seconds."""
        self._see = see
        self._decoders = {shelf: msgspec.json.Decoder(type_) for shelf, (_, type_) in SHELVES.items()}
        store, handle = server._core.store, server.handle
        put, remove = store.put, store.remove

        def handled(request: ApiRequest) -> ApiResponse:
            before, self.by = self.by, request.user_agent or "nobody"
            try:
                return handle(request)
            finally:
                self.by = before

        def putting(shelf: tuple[str, str], key: str, fields: dict[str, Any]) -> Stored:
            fresh = key not in store.shelf(shelf).objects
            stored = put(shelf, key, fields)
            self._record("create" if fresh else "write", shelf, key, stored)
            return stored

        def removing(shelf: tuple[str, str], key: str) -> Stored:
            stored = remove(shelf, key)
            self._record("delete", shelf, key, stored)
            return stored

        server.handle = handled  # type: ignore[method-assign]
        store.put, store.remove = putting, removing  # type: ignore[method-assign, assignment]

    @property
    def digest(self) -> str:
        """Of everything written so far: two equal histories have the same."""
        return self._digest.hexdigest()

    def _record(self, verb: str, shelf: tuple[str, str], key: str, stored: Stored) -> None:
        time = self.time()
        self.writes.append((time, self.by, verb, shelf[1], key))
        self._digest.update(f"{time:.6f} {self.by} {verb} {shelf[1]} {key} ".encode())
        self._digest.update(stored.json)
        if shelf not in SHELVES:
            return
        kind, name = SHELVES[shelf][0], key.rpartition("/")[2]
        if kind == "Lease" and not key.startswith("nodewright/"):
            return
        new = None if verb == "delete" else self._decoders[shelf].decode(stored.json)
        moment = Write(stored.version, time, kind, name, self.now.of(kind).get(name), new, self.by)
        self.now.apply(moment)
        self._see(moment, self.now)
