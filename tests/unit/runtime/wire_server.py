"""A real HTTP(S) server on loopback that answers what a test tells it, and certificates for it."""

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any

from aiohttp import web

Answer = web.StreamResponse | Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class WireServer:
    """Answers come from `answers`, in order; then 200 and `{}`."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    async def handle(self, request: Any) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(Seen(request.method, request.raw_path, dict(request.query), dict(request.headers), body))
        if not self.answers:
            return web.json_response({})
        answer = self.answers.pop(0)
        return answer if isinstance(answer, web.StreamResponse) else await answer(request)


@asynccontextmanager
async def serving(*answers: Answer, tls: SSLContext | None = None) -> AsyncIterator[WireServer]:
    """Serve on a free port."""
    server = WireServer(answers=list(answers))
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


def refusing(code: int, reason: str = "", *, headers: dict[str, str] | None = None, **status: Any) -> web.Response:
    """A refusal with a `Status` for a body."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, **status}
    return web.json_response(body, status=code, headers=headers)


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)


def make_authority(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate authority's certificate and key."""
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-keyout", str(key), "-out", str(cert)),
    )
    return cert, key


def make_leaf(
    folder: Path, name: str, authority: tuple[Path, Path], *, subject: str = "IP:127.0.0.1"
) -> tuple[Path, Path]:
    """A certificate signed by `authority`, and its key."""
    cert, key, request, extra = (folder / f"{name}.{end}" for end in ("crt", "key", "csr", "ext"))
    openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"),
        *("-keyout", str(key), "-out", str(request)),
    )
    extra.write_text(f"subjectAltName={subject}\n")
    openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(authority[0]), "-CAkey", str(authority[1]), "-days", "2"),
        *("-set_serial", str(abs(hash(name)) % 10**9 + 1), "-extfile", str(extra), "-out", str(cert)),
    )
    return cert, key
