"""A small HTTP server as a part of the process: probes on one port, metrics on another.

Relies on aiohttp's server. Relied on by whoever wires a process, in stage HTTP.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from controller_runtime.observability.authorization import ApiServerAuthorizer, Verdict
from controller_runtime.transport import ApiError, TransportError

Render = Callable[[str], tuple[bytes, str]]
"""From an `Accept` header to a body and its content type."""


class HttpServer:
    """Serves `routes` at `host`:`port`; an empty host is every interface, port 0 any free one. With `tls` it is HTTPS."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        routes: Iterable[web.RouteDef],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self.port = port
        """The port that is served: the real one once started, if 0 was asked for."""
        self._host = host or None
        self._routes = list(routes)
        self._tls = tls
        self._started = asyncio.Event()

    async def wait_started(self) -> None:
        """Return once connections are accepted."""
        await self._started.wait()

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError when the address cannot be had."""
        app = web.Application()
        app.add_routes(self._routes)
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=90.0, shutdown_timeout=2.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self.port, ssl_context=self._tls).start()
            self.port = runner.addresses[0][1]
            self._started.set()
            await asyncio.Event().wait()
        finally:
            self._started.clear()
            await runner.cleanup()


def metrics_route(render: Render, *, authorizer: ApiServerAuthorizer | None = None) -> web.RouteDef:
    """`/metrics`, for everybody, or only for those whom the API server lets (OBS-3).

    Without a bearer token it answers 401, to a caller who may not read it 403, and 503 as long as the API server
    cannot be asked: never open by mistake.
    """

    async def handle(request: web.Request) -> web.Response:
        body, content_type = render(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    if authorizer is None:
        return web.get("/metrics", handle)
    return web.get("/metrics", _guarded(handle, authorizer))


def _guarded(
    handle: Callable[[web.Request], Awaitable[web.Response]], authorizer: ApiServerAuthorizer
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def guard(request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return _refusal(401)
        try:
            verdict = await authorizer.judge(token.strip())
        except (ApiError, TransportError, ValueError) as error:
            return web.Response(status=503, text=f"the API server could not be asked: {type(error).__name__}\n")
        match verdict:
            case Verdict.ALLOWED:
                return await handle(request)
            case Verdict.UNKNOWN:
                return _refusal(401)
            case Verdict.FORBIDDEN:
                return _refusal(403)

    return guard


def _refusal(status: int) -> web.Response:
    if status == 401:
        return web.Response(status=401, text="Unauthorized\n", headers={"WWW-Authenticate": "Bearer"})
    return web.Response(status=status, text="Forbidden\n")
