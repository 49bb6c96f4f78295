"""aiohttp sessions as an API server needs them, and the body of an open watch."""

import socket
from typing import Any

import aiohttp

from controller_runtime.transport.errors import TransportError

CONNECT_TIMEOUT = 5.0
KEEPALIVE_SECONDS = 60.0
"""Idle connections are closed before the API server (90 s) does it: a request sent into a closing connection has no
known fate.
"""


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
