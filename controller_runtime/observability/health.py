"""`/healthz` and `/readyz`: named checks, and what they found.

A check returns None when all is well, else a sentence. Checks are synchronous and read what is known; they ask nobody.
Relied on by the probe server; relies on `http` for nothing but the routes' type.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

_logger = logging.getLogger(__name__)
Check = Callable[[], str | None]


class Health:
    """The checks of one process. Without any, both probes succeed as soon as the server answers."""

    def __init__(self) -> None:
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def add_liveness(self, name: str, check: Check) -> None:
        """A failing check gets the process restarted: only for what a restart cures. Raises ValueError if taken."""
        _add(self._live, name, check)

    def add_readiness(self, name: str, check: Check) -> None:
        """A failing check takes the process out of its Services. Raises ValueError if the name is taken."""
        _add(self._ready, name, check)

    def routes(self) -> list[web.RouteDef]:
        """`/healthz` and `/readyz`; each takes `?verbose` and `?exclude=<name>`, and has a path for each check."""
        return [
            route
            for path, checks in (("/healthz", self._live), ("/readyz", self._ready))
            for route in (
                web.get(path, _handler(path, checks)),
                web.get(path + "/{name}", _single_handler(checks)),
            )
        ]


def _add(checks: dict[str, Check], name: str, check: Check) -> None:
    if name in checks:
        raise ValueError(f"there is a check named {name!r} already")
    checks[name] = check


def _handler(path: str, checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", []))
        found = {name: _run(name, check) for name, check in checks.items() if name not in excluded}
        failed = {name: complaint for name, complaint in found.items() if complaint is not None}
        if failed:
            _logger.info("%s: %s", path, "; ".join(f"{name}: {complaint}" for name, complaint in failed.items()))
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[+]{name} ok" if it is None else f"[-]{name} failed: {it}" for name, it in found.items()]
        lines += [f"[+]{name} excluded: ok" for name in sorted(excluded & checks.keys())]
        lines.append(f"{path.strip('/')} check {'failed' if failed else 'passed'}")
        return web.Response(text="\n".join(lines) + "\n", status=500 if failed else 200)

    return handle


def _single_handler(checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        check = checks.get(name)
        if check is None:
            return web.Response(text="no such check\n", status=404)
        complaint = _run(name, check)
        return web.Response(text="ok") if complaint is None else web.Response(text=complaint + "\n", status=500)

    return handle


def _run(name: str, check: Check) -> str | None:
    try:
        return check()
    except Exception:
        _logger.exception("the check %s could not be made", name)
        return "the check could not be made"
