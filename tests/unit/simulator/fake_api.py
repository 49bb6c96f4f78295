"""An API server for nodes, pods and ConfigMaps in memory: enough for the shell of the kubelets, with switches for what goes wrong."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from controller_runtime.transport import AlreadyExists, InternalError, NotFound, PatchType, Resource, TransportError


class LoopClock:
    """The loop's time, which looptime makes virtual."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def boottime(self) -> float:
        return self.monotonic()

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_800_000_000 + self.monotonic(), UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Line:
    """An open watch."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def chunk(self) -> bytes:
        return await self.lines.get()

    def close(self) -> None:
        self.lines.put_nowait(b"")


class FakeApi:
    """Stands in for the client. `slow`: seconds a patch takes; `fail`: how many writes get no answer; `refuse`: how many get a 500."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.watches: dict[str, list[Line]] = {}
        self.version = 0
        self.writes: list[tuple[str, str, str]] = []
        self.in_flight: dict[str, int] = {}
        self.slow = 0.0
        self.lose = 0
        self.refuse = 0

    def put(self, plural: str, body: dict[str, Any]) -> None:
        self.version += 1
        meta = body["metadata"]
        meta.setdefault("uid", f"uid-{plural}-{meta['name']}")
        meta["resourceVersion"] = str(self.version)
        key = (plural, meta["name"])
        kind = "MODIFIED" if key in self.objects else "ADDED"
        self.objects[key] = body
        self._tell(plural, kind, body)

    def remove(self, plural: str, name: str) -> None:
        self.version += 1
        body = self.objects.pop((plural, name))
        body["metadata"]["resourceVersion"] = str(self.version)
        self._tell(plural, "DELETED", body)

    def phase(self, name: str) -> str:
        return str(self.objects["pods", name].get("status", {}).get("phase", ""))

    def _tell(self, plural: str, kind: str, body: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, "object": body}).encode() + b"\n"
        for watch in self.watches.get(plural, []):
            watch.lines.put_nowait(line)

    async def list(self, resource: Resource, **_: Any) -> bytes:
        items = [body for (plural, _), body in self.objects.items() if plural == resource.plural]
        return json.dumps({"metadata": {"resourceVersion": str(self.version)}, "items": items}).encode()

    async def stream(self, path: str, *, query: dict[str, str]) -> Line:
        plural = path.rsplit("/", 1)[-1]
        line = Line()
        if query.get("sendInitialEvents") == "true":
            for (other, _), body in self.objects.items():
                if other == plural:
                    line.lines.put_nowait(json.dumps({"type": "ADDED", "object": body}).encode() + b"\n")
            meta = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
            line.lines.put_nowait(json.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}).encode() + b"\n")
        self.watches.setdefault(plural, []).append(line)
        return line

    async def get(self, resource: Resource, name: str, **_: Any) -> bytes:
        return json.dumps(self._found(resource, name)).encode()

    async def create(self, resource: Resource, body: dict[str, Any], **_: Any) -> bytes:
        await self._write("create", resource, body["metadata"]["name"])
        if (resource.plural, body["metadata"]["name"]) in self.objects:
            raise AlreadyExists(status=409)
        self.put(resource.plural, json.loads(json.dumps(body)))
        return b"{}"

    async def patch(self, resource: Resource, name: str, body: bytes, kind: PatchType, **_: Any) -> bytes:
        lost = await self._write("patch", resource, name)
        body_now = json.loads(json.dumps(self._found(resource, name)))
        status = body_now.setdefault("status", {})
        for key, value in json.loads(body)["status"].items():
            if key == "conditions":
                old = {one["type"]: one for one in status.get(key, [])}
                value = list((old | {one["type"]: old.get(one["type"], {}) | one for one in value}).values())
            status[key] = value
        self.put(resource.plural, body_now)
        if lost:
            raise TransportError("the answer is lost", sent=None)
        return b"{}"

    async def delete(self, resource: Resource, name: str, **_: Any) -> bytes:
        await self._write("delete", resource, name)
        self._found(resource, name)
        self.remove(resource.plural, name)
        return b"{}"

    def _found(self, resource: Resource, name: str) -> dict[str, Any]:
        found = self.objects.get((resource.plural, name))
        if found is None:
            raise NotFound(status=404)
        return found

    async def _write(self, verb: str, resource: Resource, name: str) -> bool:
        """Whether the answer will be lost."""
        self.writes.append((verb, resource.plural, name))
        self.in_flight[name] = self.in_flight.get(name, 0) + 1
        assert self.in_flight[name] == 1, f"two writes of {name} at once"
        try:
            await asyncio.sleep(self.slow)
        finally:
            self.in_flight[name] -= 1
        if self.refuse:
            self.refuse -= 1
            raise InternalError(status=500)
        if self.lose:
            self.lose -= 1
            return True
        return False
