"""A Lease server in memory and clocks to move, for the tests of the election."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from controller_runtime.transport import AlreadyExists, Conflict, NotFound, Resource


class LoopClock:
    """The running loop's time, with suspends and steps of the wall clock added by hand."""

    def __init__(self) -> None:
        self.suspended = 0.0
        self.wall_step = 0.0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def boottime(self) -> float:
        return self.monotonic() + self.suspended

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.boottime() + self.wall_step)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


Hook = Callable[[str], Awaitable[None]]


class LeaseServer:
    """One Lease, with resourceVersions and everything that goes wrong on request."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.requests: list[tuple[str, str]] = []
        self.before: Hook | None = None
        """Called with the verb before a request is executed."""
        self.after: Hook | None = None
        """Called with the verb after it was executed, before the answer."""

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    def set(self, **spec: Any) -> None:
        """Write the lease as somebody else would."""
        self.version += 1
        old = self.lease["spec"] if self.lease else {}
        self.lease = {
            "metadata": {
                "name": "lease",
                "namespace": "ns",
                "resourceVersion": str(self.version),
                "labels": {"a": "b"},
            },
            "spec": {**old, **spec},
        }

    def writes(self, holder: str | None = None) -> list[tuple[str, str]]:
        return [it for it in self.requests if it[0] != "get" and (holder is None or it[1] == holder)]

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> bytes:
        self.requests.append(("get", ""))
        await self._hook(self.before, "get")
        if self.lease is None:
            raise NotFound(status=404)
        answer = json.dumps(self.lease).encode()
        await self._hook(self.after, "get")
        return answer

    async def create(
        self, resource: Resource, body: Mapping[str, Any] | bytes, *, namespace: str | None = None
    ) -> bytes:
        return await self._write("create", body)

    async def replace(
        self, resource: Resource, name: str, body: Mapping[str, Any] | bytes, *, namespace: str | None = None
    ) -> bytes:
        return await self._write("replace", body)

    async def _write(self, verb: str, body: Mapping[str, Any] | bytes) -> bytes:
        assert isinstance(body, Mapping)
        self.requests.append((verb, body["spec"]["holderIdentity"]))
        await self._hook(self.before, verb)
        if verb == "create" and self.lease is not None:
            raise AlreadyExists(status=409)
        if verb == "replace":
            if self.lease is None:
                raise NotFound(status=404)
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise Conflict(status=409)
        self.version += 1
        self.lease = json.loads(json.dumps(body))
        assert self.lease is not None
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        answer = json.dumps(self.lease).encode()
        await self._hook(self.after, verb)
        return answer

    @staticmethod
    async def _hook(hook: Hook | None, verb: str) -> None:
        if hook is not None:
            await hook(verb)


async def hang(verb: str) -> None:
    """A request that never gets an answer."""
    await asyncio.Event().wait()
