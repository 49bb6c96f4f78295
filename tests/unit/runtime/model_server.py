"""A small API server for one kind of object, without sockets: what tests of watches and caches hold the real thing
against.

It keeps a history with one version for all, serves lists in pages, watches with bookmarks and streaming lists,
forgets history on demand (410), and misbehaves when told to. `requests` is its access log.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from controller_runtime.cache import ObjectMeta
from controller_runtime.transport import Resource, TransportError
from controller_runtime.transport.errors import ApiError, api_error, decode_status

WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)


class Widget(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the tests' caches read of a widget: not its `noise`."""

    metadata: ObjectMeta
    color: str = ""
    size: int = 0


class LoopClock:
    """The event loop's time, which looptime makes virtual."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def boottime(self) -> float:
        return self.monotonic()

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_800_000_000 + self.monotonic(), UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """Time that moves only when told to, for what does not wait."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.time

    def boottime(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_800_000_000 + self.time, UTC)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def status(
    code: int, reason: str = "", message: str = "", causes: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    """A `v1.Status` that refuses."""
    details = {"causes": causes} if causes else {}
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


EXPIRED = status(410, "Expired", "too old resource version")
AHEAD = status(504, "Timeout", "Too large resource version: 9, current: 5", [{"reason": "ResourceVersionTooLarge"}])


def refusal(answer: dict[str, Any]) -> ApiError:
    """The exception the client makes of a refusal."""
    body = json.dumps(answer).encode()
    return api_error(decode_status(body), code=answer["code"], body=body)


@dataclass
class Line:
    """One open watch."""

    after: int
    chunks: deque[bytes] = field(default_factory=deque)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False
    broken: bool = False
    closed: bool = False

    def send(self, *events: dict[str, Any]) -> None:
        for event in events:
            self.chunks.append(json.dumps(event).encode() + b"\n")
        self.ready.set()

    def end(self, *, broken: bool = False) -> None:
        self.ended, self.broken = not broken, broken
        self.ready.set()

    async def chunk(self) -> bytes:
        while not self.chunks:
            if self.broken:
                raise TransportError("cut", sent=None)
            if self.ended:
                return b""
            self.ready.clear()
            await self.ready.wait()
        return self.chunks.popleft()

    def close(self) -> None:
        self.closed = True


class ModelServer:
    """Holds widgets; has a client's `list` and `stream`."""

    def __init__(self, *, page_size: int | None = None) -> None:
        self.version = 10
        self.oldest = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.requests: list[dict[str, str]] = []
        self.lines: list[Line] = []
        self.on_watch: deque[Callable[[Line], None] | dict[str, Any] | Exception] = deque()
        """What happens to the next watches instead of being served: a function of the stream, a Status, an exception.
        """
        self.on_list: deque[Callable[[], bytes | None] | dict[str, Any] | Exception] = deque()
        self.streaming = True
        self._page_size = page_size
        self._snapshots: dict[int, list[dict[str, Any]]] = {}
        self._uids = 0

    # --- what the cluster does --------------------------------------------------------------------------------

    def put(self, name: str, **fields: Any) -> dict[str, Any]:
        """Create or change a widget in namespace `n`."""
        key = f"n/{name}"
        self.version += 1
        old = self.objects.get(key)
        if old is None:
            self._uids += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self._uids}"
        metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(self.version)}
        item = {**(old or {}), **fields, "metadata": metadata}
        self.objects[key] = item
        self._tell("MODIFIED" if old else "ADDED", item)
        return item

    def remove(self, name: str) -> dict[str, Any] | None:
        """Delete a widget, if it is there."""
        old = self.objects.pop(f"n/{name}", None)
        if old is None:
            return None
        self.version += 1
        gone = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
        self._tell("DELETED", gone)
        return gone

    def bookmark(self) -> None:
        """Tell every open watch how far it is."""
        for line in self.open_lines:
            line.send(self._bookmark())

    def cut(self, *, broken: bool = True) -> None:
        """End every open watch."""
        for line in self.open_lines:
            line.end(broken=broken)

    def forget(self) -> None:
        """Compact: no version before the present one can be watched."""
        self.oldest = self.version

    @property
    def open_lines(self) -> list[Line]:
        return [line for line in self.lines if not line.closed and not line.ended and not line.broken]

    def asked(self, what: str) -> list[dict[str, str]]:
        """The requests of a kind: `list`, `watch` (plain ones) or `streaming`."""
        return [request for request in self.requests if request["what"] == what]

    # --- the client's side ------------------------------------------------------------------------------------

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        timeout: float = 60.0,  # noqa: ASYNC109
    ) -> bytes:
        asked = {"what": "list", "version": resource_version or "", "match": resource_version_match or ""}
        selectors = {"labelSelector": label_selector or "", "fieldSelector": field_selector or ""}
        paging = {"continue": continue_ or "", "limit": str(limit or "")}
        self.requests.append({**asked, **paging, **selectors, "path": resource.path(namespace=namespace)})
        await asyncio.sleep(0)
        if (odd := self._misbehave(self.on_list)) is not None:
            return odd
        start, version = (int(part) for part in continue_.split("@")) if continue_ else (0, self.version)
        if not continue_:
            # All pages of a list are of one moment, as etcd's are.
            self._snapshots[version] = sorted(self.objects.values(), key=lambda item: str(item["metadata"]["name"]))
        items = self._snapshots[version]
        size = (self._page_size or limit) if limit else len(items) + 1
        more = f"{start + size}@{version}" if start + size < len(items) else ""
        metadata = {"resourceVersion": str(version), "continue": more}
        return json.dumps({"kind": "WidgetList", "metadata": metadata, "items": items[start : start + size]}).encode()

    async def stream(self, path: str, *, query: dict[str, str]) -> Any:
        initial = query.get("sendInitialEvents") == "true"
        version = query.get("resourceVersion", "")
        self.requests.append({**query, "what": "streaming" if initial else "watch", "version": version, "path": path})
        await asyncio.sleep(0)
        line = Line(int(version or 0))
        if self.on_watch:
            what = self.on_watch.popleft()
            if callable(what):
                what(line)
                self.lines.append(line)
                return line
            raise what if isinstance(what, Exception) else refusal(what)
        if initial and not self.streaming:
            raise refusal(status(422, "Invalid", "sendInitialEvents is forbidden"))
        if version and int(version) < self.oldest and not initial:
            line.send({"type": "ERROR", "object": EXPIRED})
            line.end()
            return line
        if initial:
            for item in self.objects.values():
                line.send({"type": "ADDED", "object": item})
            line.send(self._bookmark(end=True))
        else:
            for at, kind, item in self.history:
                if at > line.after:
                    line.send({"type": kind, "object": item})
        self.lines.append(line)
        return line

    def _misbehave(self, queue: deque[Any]) -> bytes | None:
        """Do what was ordered; bytes are the answer."""
        if not queue:
            return None
        what = queue.popleft()
        if not callable(what):
            raise what if isinstance(what, Exception) else refusal(what)
        answer = what()
        return answer if isinstance(answer, bytes) else None

    def _tell(self, kind: str, item: dict[str, Any]) -> None:
        self.history.append((self.version, kind, item))
        for line in self.open_lines:
            line.send({"type": kind, "object": item})

    def _bookmark(self, *, end: bool = False) -> dict[str, Any]:
        metadata: dict[str, Any] = {"resourceVersion": str(self.version)}
        if end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return {"type": "BOOKMARK", "object": {"kind": "Widget", "metadata": metadata}}
