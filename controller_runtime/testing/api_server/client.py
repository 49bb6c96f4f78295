"""`EmbeddedClient`: the transport's client without sockets, for the operator in process and in virtual time.

Relies on the transport for everything but the sending itself: the fence before each write, retries, deadlines and
errors are the very same code.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from controller_runtime.clock import Clock
from controller_runtime.testing.api_server.api import ApiServer
from controller_runtime.testing.api_server.values import ADMINISTRATOR, AnswerLostError, ApiRequest, ApiResponse, User
from controller_runtime.testing.api_server.watches import Watch
from controller_runtime.transport import Client, ClientConfig, RequestObserver, Stream, TransportError, WriteFence
from controller_runtime.transport.errors import api_error, decode_status
from controller_runtime.transport.retry import retry_after

if TYPE_CHECKING:
    from types import TracebackType

    from controller_runtime.transport.exchange import Query, _Flight


class EmbeddedClient(Client):
    """Requests to an `ApiServer` of this process, as one user. Each request gives other tasks a turn, twice."""

    def __init__(
        self,
        server: ApiServer,
        *,
        user: User = ADMINISTRATOR,
        user_agent: str = "embedded",
        fence: WriteFence | None = None,
        max_in_flight: int = 32,
        clock: Clock | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        super().__init__(
            ClientConfig(server="https://embedded"),
            user_agent=user_agent,
            fence=fence,
            max_in_flight=max_in_flight,
            clock=clock or server.clock,
            observer=observer,
        )
        self._server = server
        self._user = user
        self._agent = user_agent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def stream(self, path: str, *, query: Query) -> Stream:
        """Open a watch.

        Raises:
            ApiError: the server refused.
            TransportError: a fault took the answer.
        """
        request = self._request("GET", path, {**query, "watch": "true"}, b"", "")
        await asyncio.sleep(0)
        try:
            opened = await self._server.serve_watch(request)
        except AnswerLostError as error:
            raise TransportError(f"watch {path}: the connection broke", sent=None) from error
        if isinstance(opened, Watch):
            return EmbeddedStream(opened, path)
        raise api_error(
            decode_status(opened.body),
            code=opened.status,
            request=f"GET {path}",
            body=opened.body,
            retry_after=retry_after(opened.headers.get("Retry-After"), self._clock),
        )

    async def _attempt(self, flight: _Flight) -> tuple[int, str | None, bytes]:
        async with self._slots:
            if self._fence is not None and flight.method != "GET":
                self._fence.check()
            flight.sent = True
            query = dict(flight.url.query)
            request = self._request(flight.method, flight.path, query, flight.payload or b"", flight.content_type)
            await asyncio.sleep(0)
            try:
                answer: ApiResponse = await self._server.serve(request)
            except AnswerLostError as error:
                message = f"{flight.method} {flight.path}: the connection broke"
                raise TransportError(message, sent=None) from error
            await asyncio.sleep(0)
        return answer.status, answer.headers.get("Retry-After"), answer.body

    def _request(self, method: str, path: str, query: dict[str, str], body: bytes, content_type: str) -> ApiRequest:
        return ApiRequest(
            method=method,
            path=path,
            query=query,
            body=body,
            content_type=content_type,
            user=self._user,
            user_agent=self._agent,
        )


class EmbeddedStream(Stream):
    """An open watch of an `ApiServer` of this process."""

    def __init__(self, watch: Watch, path: str) -> None:
        self._watch = watch
        self._path = path

    async def chunk(self) -> bytes:
        """The next bytes; empty at the end.

        Raises:
            TransportError: the watch was cut.
        """
        try:
            return await self._watch.chunk()
        except AnswerLostError as error:
            raise TransportError(f"watch {self._path}: the connection broke", sent=None) from error

    def close(self) -> None:
        """End the watch; harmless twice."""
        self._watch.close()
