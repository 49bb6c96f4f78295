"""One HTTP exchange with the API server: credentials, TLS, retries, deadlines, and the fence before each write.

Relies on aiohttp (HTTP/1.1, so there are no pings: TCP keepalive and deadlines find dead connections) and on `config`
for what changes under way. `Client` puts the API's verbs on top of it.
"""

# ruff: noqa: ASYNC109 - a deadline is part of every call here, kept with `asyncio.timeout` inside

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from controller_runtime.clock import Clock, SystemClock
from controller_runtime.transport.config import ClientConfig, Credentials, Trust
from controller_runtime.transport.errors import ApiError, ConfigError, TransportError, api_error, decode_status
from controller_runtime.transport.resource import Resource
from controller_runtime.transport.retry import MAX_ATTEMPTS, retry_after, wait_before_retry
from controller_runtime.transport.sessions import Stream, open_session

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 30.0
_APPLY = "application/apply-patch+yaml"

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Query = Mapping[str, str]
ClientMetrics = Callable[[str, str, float], None]
"""Called after each attempt with status code (or `<error>`), method and seconds: `rest_client_requests_total` and its
duration.
"""


class WriteFence(Protocol):
    """Says whether this process may still write (trap 33)."""

    def check(self) -> None:
        """Return if writing is allowed; raise (`NotLeaderError`) if not."""


class RequestObserver(Protocol):
    """Sees every request, for tracing."""

    def started(self, method: str, resource: Resource | None, name: str | None, subresource: str | None) -> object:
        """A request begins; what is returned comes back in `finished`."""

    def finished(self, handle: object, outcome: int | BaseException, attempts: int) -> None:
        """A request ended with an HTTP status or an exception after so many attempts."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: HTTP status (2xx), body, and how many attempts it took."""

    status: int
    body: bytes
    attempts: int = 1


class Exchange:
    """The one way out, for requests and for watches; used in `async with`, belongs to one event loop.

    Every mutating attempt first asks `fence`, right before it is sent. Waits the server asks for (`Retry-After`) are
    obeyed within the deadline: on 429 for every verb, since nothing was executed; on 5xx only for verbs that may be
    sent twice (trap 34). A disruption budget's 429 is an answer, not a reason to wait here. A 401 makes it read the
    token again and try once more.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        user_agent: str,
        fence: WriteFence | None = None,
        max_in_flight: int = 32,
        clock: Clock | None = None,
        metrics: ClientMetrics | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        self.config = config
        self._user_agent = user_agent
        self._fence = fence
        self._clock: Clock = clock or SystemClock()
        self._metrics = metrics
        self.observer = observer
        self._max_in_flight = max_in_flight
        self._slots = asyncio.Semaphore(max_in_flight)
        self._base = config.server.rstrip("/")
        self._credentials = Credentials(config, clock=self._clock)
        self._trust = Trust(config, self._credentials, clock=self._clock)
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._requests = open_session(user_agent=self._user_agent, limit=self._max_in_flight, read_bufsize=2**18)
        self._watches = open_session(user_agent=self._user_agent, limit=0, read_bufsize=2**17)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()
        self._requests = self._watches = None

    # --- requests --------------------------------------------------------------------------------------------

    async def request(
        self,
        method: Method,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | Sequence[Any] | bytes | None = None,
        content_type: str = "application/json",
        timeout: float = DEFAULT_TIMEOUT,
        gzip: bool = False,
    ) -> Response:
        """Send one request within `timeout` seconds, waits and retries included.

        Raises:
            ApiError: the server refused. The body is kept.
            TransportError: no answer, or nothing to ask with: no credential, no TLS files.
            Exception: what `fence.check()` raises; nothing was sent by this attempt.
        """
        url = self._url(path, query)
        payload = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        flight = _Flight(method, path, url, payload, content_type, gzip)
        try:
            async with asyncio.timeout(timeout):
                return await self._attempts(flight)
        except TimeoutError as error:
            raise TransportError(
                f"{method} {path}: no answer within {timeout:g} s", sent=None if flight.sent else False
            ) from error

    async def _attempts(self, flight: "_Flight") -> Response:
        unauthorized = False
        attempt = 0
        while True:
            attempt += 1
            status, retry_header, body = await self._attempt(flight)
            if status < 300:
                return Response(status, body, attempt)
            # Refused before it was looked at, unless the server failed.
            flight.sent = status >= 500
            error = self._refusal(flight, status, retry_header, body)
            if status == 401 and not unauthorized and await self._renewed(flight):
                unauthorized = True
                continue
            wait = wait_before_retry(flight.method, error, apply=flight.content_type == _APPLY)
            if wait is None or attempt >= MAX_ATTEMPTS:
                raise error
            # Jitter only upwards: never earlier than the server asked for.
            await self._clock.sleep(wait * (1.0 + 0.25 * random.random()))

    async def _attempt(self, flight: "_Flight") -> tuple[int, str | None, bytes]:
        """Send it once; what comes back is status, `Retry-After` and body."""
        session = self._requests
        if session is None:
            raise RuntimeError("the client is not open: use it in `async with`")
        headers = await self._headers(flight)
        async with self._slots:
            if self._fence is not None and flight.method != "GET":
                self._fence.check()
            fenced = self._fenced(flight)
            begun = time.perf_counter()
            code = "<error>"
            flight.sent = True
            try:
                answer = await session.request(
                    flight.method,
                    flight.url,
                    data=flight.payload if fenced is None else fenced,
                    headers=headers,
                    ssl=self._tls(flight),
                    server_hostname=self.config.server_name,
                    proxy=self.config.proxy,
                    allow_redirects=False,
                )
                try:
                    body = await answer.read()
                finally:
                    # Reading to the end gives the connection back; whatever interrupts it closes the connection.
                    answer.close()
                code = str(answer.status)
            except (aiohttp.ClientError, OSError) as error:
                if fenced is not None and fenced.refusal is not None:
                    flight.sent = False
                    raise fenced.refusal from None
                raise self._no_answer(flight, error) from error
            finally:
                if self._metrics is not None:
                    self._metrics(code, flight.method, time.perf_counter() - begun)
        return answer.status, answer.headers.get("Retry-After"), body

    def _fenced(self, flight: "_Flight") -> "_FencedBody | None":
        if self._fence is None or flight.method == "GET" or not flight.payload:
            return None
        return _FencedBody(flight.payload, self._fence)

    def _no_answer(self, flight: "_Flight", error: BaseException) -> TransportError:
        never_connected = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        if never_connected:
            self._trust.suspect()
        return TransportError(
            f"{flight.method} {flight.path}: {type(error).__name__}: {error}", sent=False if never_connected else None
        )

    def _refusal(self, flight: "_Flight", status: int, retry_header: str | None, body: bytes) -> ApiError:
        return api_error(
            decode_status(body),
            code=status,
            request=f"{flight.method} {flight.path}",
            body=body,
            retry_after=retry_after(retry_header, self._clock),
        )

    # --- watches ----------------------------------------------------------------------------------------------------

    async def stream(self, path: str, *, query: Query) -> "Stream":
        """Open a watch: the answer's chunks as they come, until closed. The caller holds the deadlines and closes it.

        Raises:
            ApiError: the server refused.
            TransportError: no connection, or no answer's head within 30 s.
        """
        session = self._watches
        if session is None:
            raise RuntimeError("the client is not open: use it in `async with`")
        url = self._url(path, query)
        flight = _Flight("GET", path, url, None, "", gzip=False)
        for last_try in (False, True):
            headers = await self._headers(flight)
            begun = time.perf_counter()
            code = "<error>"
            try:
                async with asyncio.timeout(DEFAULT_TIMEOUT):
                    answer = await session.get(
                        url,
                        headers=headers,
                        ssl=self._tls(flight),
                        server_hostname=self.config.server_name,
                        proxy=self.config.proxy,
                        allow_redirects=False,
                    )
                    code = str(answer.status)
                    if answer.status == 200:
                        return Stream(answer)
                    body = await answer.read()
            except aiohttp.ClientError as error:
                raise self._no_answer(flight, error) from error
            except TimeoutError as error:
                raise TransportError(f"watch {path}: no answer within {DEFAULT_TIMEOUT:g} s", sent=None) from error
            except OSError as error:
                raise self._no_answer(flight, error) from error
            finally:
                if self._metrics is not None:
                    self._metrics(code, "GET", time.perf_counter() - begun)
            if answer.status == 401 and not last_try and await self._renewed(flight):
                continue
            break
        raise self._refusal(flight, answer.status, answer.headers.get("Retry-After"), body)

    # --- parts ------------------------------------------------------------------------------------------------------

    async def _headers(self, flight: "_Flight") -> dict[str, str]:
        headers = {"Accept-Encoding": "gzip" if flight.gzip else "identity"}
        try:
            flight.authorization = await self._credentials.authorization()
        except ConfigError as error:
            raise TransportError(f"{flight.method} {flight.path}: {error}", sent=False) from error
        if flight.authorization is not None:
            headers["Authorization"] = flight.authorization
        if flight.payload is not None:
            headers["Content-Type"] = flight.content_type
        return headers

    async def _renewed(self, flight: "_Flight") -> bool:
        """After a 401: whether there may be another credential now."""
        try:
            return await self._credentials.rejected(flight.authorization)
        except ConfigError as error:
            log.warning("%s %s was answered with 401, and: %s", flight.method, flight.path, error)
            return False

    def _tls(self, flight: "_Flight") -> ssl.SSLContext | bool:
        try:
            return self._trust.context()
        except ConfigError as error:
            raise TransportError(f"{flight.method} {flight.path}: {error}", sent=False) from error

    def _url(self, path: str, query: Query | None) -> URL:
        text = f"{self._base}{path}"
        if query:
            text = f"{text}?{urlencode(query)}"
        return URL(text, encoded=True)


class _FencedBody(aiohttp.BytesPayload):
    """A write's body that asks the fence once more as its bytes go out.

    Getting a connection takes time, with TLS many turns of the loop, and a process may be stopped in it past its lease. What has no
    body yet is not carried out by the server.
    """

    def __init__(self, body: bytes, fence: WriteFence) -> None:
        super().__init__(body)
        self._fence = fence
        self.refusal: Exception | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Ask, then write."""
        try:
            self._fence.check()
        except Exception as error:
            self.refusal = error
            raise
        await super().write_with_length(writer, content_length)


@dataclass(slots=True)
class _Flight:
    """A request under way."""

    method: Method
    path: str
    url: URL
    payload: bytes | None
    content_type: str
    gzip: bool
    sent: bool = False
    authorization: str | None = None
