"""The embedded API server over HTTPS, for `kubectl` and for programs of other processes.

Relies on aiohttp, and on the control plane's module for certificates and kubeconfigs. Who asks is known by bearer
token; certificates and kubeconfigs go into a folder of the caller's.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from controller_runtime.testing.api_server.api import ApiServer
from controller_runtime.testing.api_server.refusals import RefusalError, unauthorized
from controller_runtime.testing.api_server.values import ADMINISTRATOR, AnswerLostError, ApiRequest, ApiResponse, User
from controller_runtime.testing.api_server.watches import Watch
from controller_runtime.testing.control_plane.credentials import write_kubeconfig, write_serving_certificate

_LARGEST_BODY = 3 * 1024 * 1024
_SHUTDOWN_SECONDS = 1.0
_SERVICE_ACCOUNT = "system:serviceaccount:"


class HttpApiServer:
    """Serves an `ApiServer` on a port of loopback; used in `async with`."""

    def __init__(self, server: ApiServer, *, folder: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        self.server = server
        self._folder = folder
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """`https://host:port`, once it is served."""
        return f"https://{self._host}:{self._port}"

    @property
    def admin_kubeconfig(self) -> Path:
        """The administrator's."""
        return self._folder / "admin.kubeconfig"

    def kubeconfig(self, user: User) -> Path:
        """A kubeconfig with a new token of this user."""
        token = secrets.token_urlsafe(32)
        self.server.tokens.add(token, user)
        path = self._folder / f"{user.name.replace(':', '-')}-{secrets.token_hex(4)}.kubeconfig"
        self._write(path, user, token)
        return path

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(write_serving_certificate, self._folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "apiserver.crt", self._folder / "apiserver.key")
        application = web.Application(client_max_size=_LARGEST_BODY)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=context)
        await site.start()
        self._port = self._runner.addresses[0][1]
        token = secrets.token_urlsafe(32)
        self.server.tokens.add(token, ADMINISTRATOR)
        self._write(self.admin_kubeconfig, ADMINISTRATOR, token)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.cut_watches(cleanly=True)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _write(self, path: Path, user: User, token: str) -> None:
        authority = self._folder / "ca.crt"
        write_kubeconfig(path, server=self.url, authority=authority, user=user.name, token=token)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            asked = await self._asked(request)
        except RefusalError as refusal:
            return _response(refusal.response())
        try:
            if asked.is_watch:
                opened = await self.server.serve_watch(asked)
                if isinstance(opened, Watch):
                    return await self._stream(request, opened)
                return _response(opened)
            return _response(await self.server.serve(asked))
        except AnswerLostError:
            return _cut(request)

    async def _asked(self, request: web.Request) -> ApiRequest:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            said = f"Request entity too large: limit is {_LARGEST_BODY}"
            raise RefusalError(413, "RequestEntityTooLarge", said) from error
        return ApiRequest(
            method=request.method,
            path=request.raw_path.partition("?")[0],
            query=dict(request.query),
            body=body,
            content_type=request.headers.get("Content-Type", "application/json"),
            accept=request.headers.get("Accept", ""),
            user=self._user(request),
            user_agent=request.headers.get("User-Agent", ""),
        )

    def _user(self, request: web.Request) -> User:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        user = self.server.tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return _impersonated(request) or user

    async def _stream(self, request: web.Request, watch: Watch) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        try:
            await answer.prepare(request)
            while chunk := await watch.chunk():
                await answer.write(chunk)
            await answer.write_eof()
        except AnswerLostError:
            return _cut(request, answer)
        except ConnectionError:
            return answer
        finally:
            watch.close()
        return answer


def _impersonated(request: web.Request) -> User | None:
    """Whom an administrator wants to be, as `kubectl --as` asks for; everybody may."""
    headers = request.headers
    name = headers.get("Impersonate-User")
    if not name:
        return None
    groups = list(headers.getall("Impersonate-Group", ()))
    if name.startswith(_SERVICE_ACCOUNT) and not groups:
        namespace = name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return User(name, headers.get("Impersonate-Uid", ""), tuple(dict.fromkeys([*groups, "system:authenticated"])))


def _response(answer: ApiResponse) -> web.Response:
    return web.Response(
        status=answer.status,
        body=answer.body,
        headers={"Content-Type": answer.content_type, **answer.headers},
    )


def _cut(request: web.Request, answer: web.StreamResponse | None = None) -> web.StreamResponse:
    """Break the connection, so that the client sees no end."""
    if request.transport is not None:
        request.transport.abort()
    return answer or web.Response(status=500)
