"""aiohttp sessions as an API server needs them, and the body of an open watch."""

import asyncio
import contextlib
import socket
import sys
from typing import Any, Final

import aiohttp

from controller_runtime.transport.errors import TransportError

CONNECT_TIMEOUT = 5.0
KEEPALIVE_SECONDS = 60.0
"""Idle connections are closed before the API server (90 s) does it: a request sent into a closing connection has no
known fate.
"""

GATHER_SECONDS: Final = 0.05
"""How long small chunks of a watch are gathered: as long as bursts of changes are folded into one pass anyway."""
_LARGE_CHUNK: Final = 64 * 1024
_CAN_GATHER: Final = sys.platform == "linux"  # others do not wake the reader when the mark is lowered


def open_session(*, user_agent: str, limit: int, read_bufsize: int) -> aiohttp.ClientSession:
    """A session with its own connections, at most `limit` (0: any number), without cookies, proxies or passwords of
    the environment.
    """
    connector = aiohttp.TCPConnector(limit=limit, keepalive_timeout=KEEPALIVE_SECONDS, socket_factory=_socket)
    return aiohttp.ClientSession(
        connector=connector,
        headers={"User-Agent": user_agent, "Accept": "application/json"},
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=read_bufsize,
        skip_auto_headers=("Content-Type",),
        trust_env=False,
    )


class Stream:
    """The body of an open watch.

    Events that come in quick succession are taken in together: while chunks are small, at most one is read per `gather` seconds, and the
    kernel keeps what arrives in between without waking this process. A watch of a thousand nodes with heartbeats costs a third then, and
    what comes after a pause is not delayed at all.
    """

    def __init__(self, answer: aiohttp.ClientResponse, *, gather: float = GATHER_SECONDS) -> None:
        self._answer = answer
        self._gather = gather
        self._next_read = 0.0
        connection = answer.connection
        transport = connection.transport if connection is not None else None
        self._socket = transport.get_extra_info("socket") if transport is not None and _CAN_GATHER else None

    async def chunk(self) -> bytes:
        """The next bytes; empty at the end.

        Raises:
            TransportError: the connection broke.
        """
        loop = asyncio.get_running_loop()
        wait = self._next_read - loop.time()
        if wait > 0:
            await self._let_gather(wait)
        try:
            read = await self._answer.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(
                f"watch {self._answer.url.path}: {type(error).__name__}: {error}", sent=None
            ) from error
        # A list on its way comes in large chunks, which need no gathering.
        self._next_read = loop.time() + self._gather if len(read) < _LARGE_CHUNK else 0.0
        return read

    async def _let_gather(self, seconds: float) -> None:
        if self._socket is None:
            return
        try:
            # Readable only when so much is there; a connection that ends is readable all the same.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _LARGE_CHUNK)
            await asyncio.sleep(seconds)
        except OSError:  # it was closed under us, which the read will say better
            return
        finally:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    def close(self) -> None:
        """Close the connection; harmless twice."""
        self._answer.close()


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
