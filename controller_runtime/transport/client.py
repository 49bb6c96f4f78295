"""The one way to the API server: bytes in, bytes out, every call with a deadline.

Relies on aiohttp's session (HTTP/1.1, so there are no pings: TCP keepalive and deadlines find dead connections) and
on `config` for credentials and TLS. Informers, the executor, the event recorder and the leader elector rely on it;
the elector makes its own, since a client belongs to one event loop. Requests and watches have separate connection
pools: many watches cannot starve requests.
"""

# ruff: noqa: ASYNC109 - a deadline is part of every call here, kept with `asyncio.timeout` inside

import asyncio
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from types import TracebackType
from typing import Any, Literal, Protocol, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from controller_runtime.clock import Clock, SystemClock
from controller_runtime.transport.config import ClientConfig, Credentials, Trust
from controller_runtime.transport.errors import ApiError, TransportError, api_error, decode_status
from controller_runtime.transport.resource import Resource

DEFAULT_TIMEOUT = 30.0
CONNECT_TIMEOUT = 5.0
MAX_ATTEMPTS = 6
MAX_RETRY_AFTER = 30.0
"""Seconds; a server that asks for more gets its refusal handed to the caller instead."""
_KEEPALIVE_SECONDS = 60.0
"""Idle connections are closed before the API server (90 s) does it: a request sent into a closing connection has no
known fate.
"""

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Query = Mapping[str, str]
ClientMetrics = Callable[[str, str, float], None]
"""Called after each attempt with status code (or `<error>`), method and seconds: `rest_client_requests_total` and its
duration.
"""


class PatchType(StrEnum):
    """How a patch is to be read; the values are the content types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


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
    """An answer: HTTP status (below 400), body, and how many attempts it took."""

    status: int
    body: bytes
    attempts: int = 1


class Client:
    """Requests to one API server.

    Every mutating attempt first asks `fence`, right before it is sent. Waits the server asks for (`Retry-After`) are
    obeyed within the deadline: on 429 for every verb, since nothing was executed; on 5xx only for verbs that may be
    sent twice (trap 34). A disruption budget's 429 is an answer, not a reason to wait here. A 401 makes the client
    read its token again and try once more.
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
        self._observer = observer
        self._max_in_flight = max_in_flight
        self._slots = asyncio.Semaphore(max_in_flight)
        self._base = config.server.rstrip("/")
        self._credentials = Credentials(config, clock=self._clock)
        self._trust = Trust(config, self._credentials, clock=self._clock)
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._requests = self._session(limit=self._max_in_flight, read_bufsize=2**18)
        self._watches = self._session(limit=0, read_bufsize=2**17)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()
        self._requests = self._watches = None

    # --- what callers ask for ---------------------------------------------------------------------------------------

    async def get(
        self, resource: Resource, name: str, *, namespace: str | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> bytes:
        """Read one object, live."""
        return await self._call("GET", resource, name, None, namespace, timeout=timeout)

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
        timeout: float = 60.0,
    ) -> bytes:
        """Read a collection, or one page of it; compressed on the wire when it is large."""
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit) if limit else None,
            "continue": continue_,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
        }
        return await self._call("GET", resource, None, None, namespace, query=query, timeout=timeout, gzip=True)

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any] | bytes,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """Create an object.

        After a `TransportError` with `sent` None it may exist: use a name of your own choice and read it.
        """
        query = {"fieldManager": field_manager}
        return await self._call("POST", resource, None, None, namespace, body=body, query=query, timeout=timeout)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any] | Sequence[Any] | bytes,
        patch_type: PatchType,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """Change parts of an object.

        A JSON patch whose `test` fails is answered with `Invalid` (422), not `Conflict` (trap 35).
        """
        query = {"fieldManager": field_manager, "force": "true" if force else None}
        return await self._call(
            "PATCH",
            resource,
            name,
            subresource,
            namespace,
            body=body,
            query=query,
            content_type=patch_type.value,
            timeout=timeout,
        )

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any] | bytes,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """Write a whole object.

        Never for an object made of a cached struct: what the struct does not name would be lost.
        """
        return await self._call("PUT", resource, name, subresource, namespace, body=body, timeout=timeout)

    async def create_subresource(
        self,
        resource: Resource,
        name: str,
        subresource: str,
        body: Mapping[str, Any] | bytes,
        *,
        namespace: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """POST to a subresource: `eviction`, `token`, `binding`."""
        return await self._call("POST", resource, name, subresource, namespace, body=body, timeout=timeout)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
        grace_period_seconds: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """Delete an object, if it is the one with this UID and resourceVersion.

        Answers the object if it lives on, or a `Status`.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, Any] = {
            "preconditions": {key: value for key, value in preconditions.items() if value} or None,
            "propagationPolicy": propagation,
            "gracePeriodSeconds": grace_period_seconds,
        }
        body = {key: value for key, value in options.items() if value is not None}
        return await self._call("DELETE", resource, name, None, namespace, body=body or None, timeout=timeout)

    async def _call(
        self,
        method: Method,
        resource: Resource,
        name: str | None,
        subresource: str | None,
        namespace: str | None,
        *,
        query: Mapping[str, str | None] | None = None,
        body: Mapping[str, Any] | Sequence[Any] | bytes | None = None,
        content_type: str = "application/json",
        timeout: float,
        gzip: bool = False,
    ) -> bytes:
        path = resource.path(name, namespace=namespace, subresource=subresource)
        arguments = {key: value for key, value in query.items() if value is not None} if query else None
        observer = self._observer
        if observer is None:
            answer = await self.request(
                method, path, query=arguments, body=body, content_type=content_type, timeout=timeout, gzip=gzip
            )
            return answer.body
        handle = observer.started(method, resource, name, subresource)
        try:
            answer = await self.request(
                method, path, query=arguments, body=body, content_type=content_type, timeout=timeout, gzip=gzip
            )
        except BaseException as error:
            observer.finished(handle, error, 1)
            raise
        observer.finished(handle, answer.status, answer.attempts)
        return answer.body

    # --- the one way out --------------------------------------------------------------------------------------------

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
            TransportError: no answer.
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
            if status < 400:
                return Response(status, body, attempt)
            error = self._refusal(flight, status, retry_header, body)
            if status == 401 and not unauthorized and await self._credentials.rejected():
                unauthorized = True
                continue
            wait = _wait_before_retry(flight.method, flight.content_type, error)
            if wait is None or attempt >= MAX_ATTEMPTS:
                raise error
            # Jitter only upwards: never earlier than the server asked for.
            await self._clock.sleep(wait * (1.0 + 0.25 * random.random()))

    async def _attempt(self, flight: "_Flight") -> tuple[int, str | None, bytes]:
        """Send it once; what comes back is status, `Retry-After` and body."""
        session = self._requests
        if session is None:
            raise RuntimeError("the client is not open: use it in `async with`")
        headers = {"Accept-Encoding": "gzip" if flight.gzip else "identity"}
        authorization = await self._credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        if flight.payload is not None:
            headers["Content-Type"] = flight.content_type
        async with self._slots:
            if self._fence is not None and flight.method != "GET":
                self._fence.check()
            begun = time.perf_counter()
            code = "<error>"
            flight.sent = True
            try:
                answer = await session.request(
                    flight.method,
                    flight.url,
                    data=flight.payload,
                    headers=headers,
                    ssl=self._trust.context(),
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
                raise self._no_answer(flight, error) from error
            finally:
                if self._metrics is not None:
                    self._metrics(code, flight.method, time.perf_counter() - begun)
        return answer.status, answer.headers.get("Retry-After"), body

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
            retry_after=_retry_after(retry_header, self._clock),
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
            headers = {"Accept-Encoding": "identity"}
            authorization = await self._credentials.authorization()
            if authorization is not None:
                headers["Authorization"] = authorization
            begun = time.perf_counter()
            code = "<error>"
            try:
                async with asyncio.timeout(DEFAULT_TIMEOUT):
                    answer = await session.get(
                        url,
                        headers=headers,
                        ssl=self._trust.context(),
                        server_hostname=self.config.server_name,
                        proxy=self.config.proxy,
                        allow_redirects=False,
                    )
                    code = str(answer.status)
                    if answer.status == 200:
                        return Stream(answer)
                    body = await answer.read()
            except TimeoutError as error:
                raise TransportError(f"watch {path}: no answer within {DEFAULT_TIMEOUT:g} s", sent=None) from error
            except (aiohttp.ClientError, OSError) as error:
                raise self._no_answer(flight, error) from error
            finally:
                if self._metrics is not None:
                    self._metrics(code, "GET", time.perf_counter() - begun)
            if answer.status == 401 and not last_try and await self._credentials.rejected():
                continue
            break
        raise self._refusal(flight, answer.status, answer.headers.get("Retry-After"), body)

    # --- parts ------------------------------------------------------------------------------------------------------

    def _url(self, path: str, query: Query | None) -> URL:
        text = f"{self._base}{path}"
        if query:
            text = f"{text}?{urlencode(query)}"
        return URL(text, encoded=True)

    def _session(self, *, limit: int, read_bufsize: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=limit, keepalive_timeout=_KEEPALIVE_SECONDS, socket_factory=_socket)
        return aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._user_agent, "Accept": "application/json"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=read_bufsize,
            skip_auto_headers=("Content-Type",),
            trust_env=False,
        )


class Stream:
    """The body of an open watch."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def chunk(self) -> bytes:
        """The next bytes; empty at the end.

        Raises:
            TransportError: the connection broke.
        """
        try:
            return await self._answer.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(
                f"watch {self._answer.url.path}: {type(error).__name__}: {error}", sent=None
            ) from error

    def close(self) -> None:
        """Close the connection; harmless twice."""
        self._answer.close()


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


def _wait_before_retry(method: Method, content_type: str, error: ApiError) -> float | None:
    """Seconds to wait before the same request is sent again; None when the refusal is the answer (trap 34)."""
    if error.status == 429:
        if error.details.has_cause("DisruptionBudget"):
            return None
        wait = 1.0 if error.retry_after is None else error.retry_after
    elif error.status >= 500 and error.retry_after is not None:
        twice_is_once = method in ("GET", "PUT", "DELETE") or content_type == PatchType.APPLY
        if not twice_is_once:
            return None
        wait = error.retry_after
    else:
        return None
    return None if wait > MAX_RETRY_AFTER else max(wait, 0.1)


def _retry_after(header: str | None, clock: Clock) -> float | None:
    """Seconds from a `Retry-After` header: a number, or a date; None for anything else."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        return max((moment - clock.now()).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def _socket(address: Any) -> socket.socket:
    """A socket that notices a dead peer: probes after 30 s of silence, gives up 45 s later, or 30 s after unanswered
    bytes (trap 14).
    """
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
