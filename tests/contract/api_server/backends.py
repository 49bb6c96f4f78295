"""The servers a claim is held against, behind one small interface: the embedded one in process and over HTTPS, and the real one.

The claims see requests and answers only. What a real cluster's controllers do by themselves (a budget's status, a namespace's service
account) is waited for there and done by hand here: `settle_*`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from controller_runtime.testing.api_server import ApiRequest, ApiServer
from controller_runtime.testing.api_server.watches import Watch
from controller_runtime.transport import PatchType

DEADLINE = 30.0
"""Seconds a claim waits for what comes by itself, on a busy machine."""
Object = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """An answer: HTTP status, decoded body (text for what is no JSON), headers in lower case."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def details(self) -> Object:
        return dict(self.body.get("details") or {})

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Reason and field of each cause."""
        return [(cause.get("reason", ""), cause.get("field", "")) for cause in self.details.get("causes", ())]

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])


class Events(Protocol):
    """An open watch."""

    async def next(self) -> Object | None:
        """The next event; None at the end of the stream."""

    def close(self) -> None:
        """End it."""


class Backend(Protocol):
    """A server."""

    embedded: bool

    async def ask(
        self, method: str, path: str, *, query: Mapping[str, str], body: bytes, content_type: str, accept: str
    ) -> Answer: ...

    async def open(self, path: str, query: Mapping[str, str]) -> Events | Answer: ...


class _Lines:
    """Events out of chunks of bytes."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []

    async def chunk(self) -> bytes:
        raise NotImplementedError

    async def next(self) -> Object | None:
        async with asyncio.timeout(DEADLINE):
            while not self._lines:
                chunk = await self.chunk()
                if not chunk:
                    return None
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                self._lines += lines
        return dict(json.loads(self._lines.pop(0)))


class InProcess:
    """The embedded server, by calls."""

    embedded = True

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def ask(
        self, method: str, path: str, *, query: Mapping[str, str], body: bytes, content_type: str, accept: str
    ) -> Answer:
        request = ApiRequest(
            method=method,
            path=path,
            query=dict(query),
            body=body,
            content_type=content_type,
            accept=accept,
            user_agent="claims/1",
        )
        answer = await self.server.serve(request)
        return Answer(
            answer.status, _decoded(answer.body), {key.lower(): value for key, value in answer.headers.items()}
        )

    async def open(self, path: str, query: Mapping[str, str]) -> Events | Answer:
        request = ApiRequest(method="GET", path=path, query={**query, "watch": "true"})
        opened = await self.server.serve_watch(request)
        if not isinstance(opened, Watch):
            return Answer(opened.status, _decoded(opened.body))
        return _WatchEvents(opened)


class _WatchEvents(_Lines):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    async def chunk(self) -> bytes:
        return await self._watch.chunk()

    def close(self) -> None:
        self._watch.close()


class OverHttp:
    """A server behind a URL."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, embedded: bool) -> None:
        self.session = session
        self.url = url
        self.embedded = embedded

    async def ask(
        self, method: str, path: str, *, query: Mapping[str, str], body: bytes, content_type: str, accept: str
    ) -> Answer:
        headers = {"Accept": accept or "application/json", "User-Agent": "claims/1"}
        if body:
            headers["Content-Type"] = content_type
        async with self.session.request(
            method, self._address(path, query), data=body or None, headers=headers
        ) as answer:
            content = await answer.read()
            return Answer(
                answer.status, _decoded(content), {key.lower(): value for key, value in answer.headers.items()}
            )

    async def open(self, path: str, query: Mapping[str, str]) -> Events | Answer:
        answer = await self.session.get(self._address(path, {**query, "watch": "true"}))
        if answer.status != 200:
            return Answer(answer.status, _decoded(await answer.read()))
        return _HttpEvents(answer)

    def _address(self, path: str, query: Mapping[str, str]) -> URL:
        return URL(f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}", encoded=True)


class _HttpEvents(_Lines):
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        super().__init__()
        self._answer = answer

    async def chunk(self) -> bytes:
        return await self._answer.content.readany()

    def close(self) -> None:
        self._answer.close()


@dataclass(frozen=True)
class Api:
    """What claims use: requests in a namespace of their own."""

    backend: Backend
    namespace: str
    opened: list[Events] = field(default_factory=list)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "",
        **query: str,
    ) -> Answer:
        encoded = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.backend.ask(
            method, path, query=_parameters(query), body=encoded, content_type=content_type, accept=accept
        )

    async def get(self, path: str, **query: str) -> Answer:
        return await self.call("GET", path, **query)

    async def post(self, path: str, body: Any, **query: str) -> Answer:
        return await self.call("POST", path, body, **query)

    async def put(self, path: str, body: Any, **query: str) -> Answer:
        return await self.call("PUT", path, body, **query)

    async def delete(self, path: str, options: Any = None, **query: str) -> Answer:
        return await self.call("DELETE", path, options, **query)

    async def merge(self, path: str, patch: Any, **query: str) -> Answer:
        return await self.call("PATCH", path, patch, content_type=PatchType.MERGE.value, **query)

    async def json_patch(self, path: str, *operations: Object, **query: str) -> Answer:
        return await self.call("PATCH", path, list(operations), content_type=PatchType.JSON.value, **query)

    async def strategic(self, path: str, patch: Any, **query: str) -> Answer:
        return await self.call("PATCH", path, patch, content_type=PatchType.STRATEGIC.value, **query)

    async def apply(self, path: str, item: Any, *, manager: str, **query: str) -> Answer:
        return await self.call("PATCH", path, item, content_type=PatchType.APPLY.value, fieldManager=manager, **query)

    async def watch(self, path: str, **query: str) -> Events:
        opened = await self.backend.open(path, _parameters(query))
        assert not isinstance(opened, Answer), opened
        self.opened.append(opened)
        return opened

    async def made(self, path: str, item: Object) -> Answer:
        """Create, which must succeed; a real cluster may first have to make the namespace's service account."""
        async with asyncio.timeout(DEADLINE):
            while True:
                answer = await self.post(path, item)
                if answer.status == 403 and "serviceaccount" in answer.message:
                    await asyncio.sleep(0.2)
                    continue
                assert answer.status == 201, answer
                return answer

    async def until(self, true: Callable[[], Awaitable[bool]]) -> None:
        """Ask again and again until it is true, for what a real cluster does in its own time."""
        async with asyncio.timeout(DEADLINE):
            while True:
                if await true():
                    return
                await asyncio.sleep(0.2)

    async def status_of(self, path: str) -> int:
        return (await self.get(path)).status

    # --- paths ------------------------------------------------------------------------------------------------------

    def config_maps(self, name: str = "") -> str:
        return self._path("/api/v1", "configmaps", name)

    def pods(self, name: str = "", subresource: str = "") -> str:
        return self._path("/api/v1", "pods", name, subresource)

    def jobs(self, name: str = "", subresource: str = "") -> str:
        return self._path("/apis/batch/v1", "jobs", name, subresource)

    def budgets(self, name: str = "", subresource: str = "") -> str:
        return self._path("/apis/policy/v1", "poddisruptionbudgets", name, subresource)

    def leases(self, name: str = "") -> str:
        return self._path("/apis/coordination.k8s.io/v1", "leases", name)

    def _path(self, root: str, plural: str, name: str, subresource: str = "") -> str:
        parts = [root, "namespaces", self.namespace, plural, name, subresource]
        return "/".join(part for part in parts if part)


def _parameters(query: Mapping[str, str]) -> dict[str, str]:
    """`continue_` is a keyword of Python's."""
    return {key.rstrip("_"): value for key, value in query.items()}


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


@asynccontextmanager
async def own_namespace(backend: Backend) -> AsyncIterator[Api]:
    """A namespace of the claim's own."""
    name = f"claims-{secrets.token_hex(4)}"
    api = Api(backend, name)
    made = await api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.status == 201, made
    try:
        yield api
    finally:
        for events in api.opened:
            events.close()
        await api.delete(f"/api/v1/namespaces/{name}")
