"""Probes and metrics over HTTP, plain and with the API server's word."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from controller_runtime.observability.authorization import ApiServerAuthorizer
from controller_runtime.observability.health import Health
from controller_runtime.observability.http import HttpServer, metrics_route
from controller_runtime.observability.tls import self_signed_context
from controller_runtime.transport import Forbidden, Resource, TransportError
from tests.unit.runtime.leases import LoopClock


@asynccontextmanager
async def serving(
    *routes: web.RouteDef, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpServer]:
    server = HttpServer("test", host, 0, routes, tls=tls)
    task = asyncio.create_task(server.run())
    try:
        async with asyncio.timeout(5):
            await server.wait_started()
        yield server
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "no leaked task"


async def get(
    server: HttpServer, path: str, *, token: str | None = None, host: str = "127.0.0.1", scheme: str = "http"
) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"{scheme}://{host}:{server.port}{path}", headers=headers) as answer,
    ):
        return answer.status, await answer.text()


def render(accept: str) -> tuple[bytes, str]:
    return b"metric 1\n", "text/plain; version=0.0.4; charset=utf-8"


class ApiServer:
    """Knows two tokens, of which one may read metrics."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.error: Exception | None = None
        self.specs: list[dict[str, Any]] = []

    async def create(self, resource: Resource, body: Mapping[str, Any] | bytes) -> bytes:
        assert isinstance(body, Mapping)
        assert (body["apiVersion"], body["kind"]) == (resource.api_version, resource.kind)
        self.requests.append(resource.plural)
        self.specs.append(body["spec"])
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        spec = body["spec"]
        if resource.kind == "TokenReview":
            user = {"username": spec["token"], "groups": ["g"], "uid": "1", "extra": {"a": ["b"]}}
            known = spec["token"] in ("prometheus", "somebody")
            status: dict[str, Any] = {"authenticated": True, "user": user} if known else {}
        else:
            status = {"allowed": spec["user"] == "prometheus"}
        return msgspec.json.encode({"status": status})


async def test_probes_succeed_without_checks_and_fail_with_the_names_of_failing_ones() -> None:
    health = Health()
    fine = True
    health.add_readiness("caches", lambda: None if fine else "nodes are not listed yet")
    health.add_readiness("certificate", lambda: None)
    async with serving(*health.routes()) as server:
        assert await get(server, "/healthz") == (200, "ok")
        assert await get(server, "/readyz") == (200, "ok")
        assert await get(server, "/readyz?verbose") == (
            200,
            "[+]caches ok\n[+]certificate ok\nreadyz check passed\n",
        )
        fine = False
        assert await get(server, "/readyz") == (
            500,
            "[-]caches failed: nodes are not listed yet\n[+]certificate ok\nreadyz check failed\n",
        )
        assert (await get(server, "/healthz"))[0] == 200, "a restart would not help"
        assert (await get(server, "/readyz?exclude=caches"))[0] == 200
        assert (await get(server, "/readyz/caches"))[0] == 500
        assert (await get(server, "/readyz/certificate"))[0] == 200
        assert (await get(server, "/readyz/unknown"))[0] == 404


async def test_a_check_that_raises_is_a_failing_check(caplog: pytest.LogCaptureFixture) -> None:
    health = Health()

    def broken() -> str | None:
        raise ZeroDivisionError

    health.add_liveness("broken", broken)
    async with serving(*health.routes()) as server:
        status, text = await get(server, "/healthz")
    assert status == 500
    assert "the check could not be made" in text
    assert "ZeroDivisionError" in caplog.text


def test_two_checks_of_one_name_are_refused() -> None:
    health = Health()
    health.add_liveness("a", lambda: None)
    health.add_readiness("a", lambda: None)
    with pytest.raises(ValueError, match="'a' already"):
        health.add_liveness("a", lambda: None)


async def test_plain_metrics_are_for_everybody() -> None:
    """OBS-3."""
    async with serving(metrics_route(render)) as server:
        assert await get(server, "/metrics") == (200, "metric 1\n")


async def test_metrics_are_for_those_whom_the_api_server_lets() -> None:
    """OBS-3."""
    api = ApiServer()
    async with serving(metrics_route(render, authorizer=ApiServerAuthorizer(api))) as server:
        assert (await get(server, "/metrics"))[0] == 401
        assert (await get(server, "/metrics", token="nobody"))[0] == 401
        assert (await get(server, "/metrics", token="somebody"))[0] == 403
        assert await get(server, "/metrics", token="prometheus") == (200, "metric 1\n")
    assert api.specs[-1] == {
        "user": "prometheus",
        "uid": "1",
        "groups": ["g"],
        "extra": {"a": ["b"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize("error", [TransportError("refused", sent=False), Forbidden(status=403)])
async def test_without_an_answer_of_the_api_server_metrics_stay_closed(error: Exception) -> None:
    """OBS-3."""
    api = ApiServer()
    api.error = error
    async with serving(metrics_route(render, authorizer=ApiServerAuthorizer(api))) as server:
        status, text = await get(server, "/metrics", token="prometheus")
        assert status == 503
        assert "metric" not in text
        api.error = None
        assert (await get(server, "/metrics", token="prometheus"))[0] == 200, "a failure is not remembered"


@pytest.mark.looptime
async def test_a_verdict_is_asked_for_once_and_again_after_its_time() -> None:
    """OBS-3."""
    api = ApiServer()
    authorizer = ApiServerAuthorizer(api, clock=LoopClock())
    for _ in range(10):
        await authorizer.judge("prometheus")
    assert api.requests == ["tokenreviews", "subjectaccessreviews"]
    await asyncio.sleep(61)
    await authorizer.judge("prometheus")
    assert len(api.requests) == 4
    await authorizer.judge("nobody")
    await asyncio.sleep(11)
    await authorizer.judge("nobody")
    assert len(api.requests) == 6


@pytest.mark.looptime
async def test_the_memory_of_verdicts_is_bounded_and_holds_no_token() -> None:
    authorizer = ApiServerAuthorizer(ApiServer(), clock=LoopClock())
    for number in range(1000):
        await authorizer.judge(f"token-{number}")
    assert len(authorizer._verdicts) <= 256
    assert all(b"token" not in digest for digest in authorizer._verdicts)


async def test_https_works_with_a_certificate_made_in_memory() -> None:
    """OBS-3."""
    async with serving(metrics_route(render), tls=self_signed_context("metrics.test")) as server:
        assert await get(server, "/metrics", scheme="https") == (200, "metric 1\n")


async def test_ipv6_addresses_are_served() -> None:
    async with serving(metrics_route(render), host="::1") as server:
        assert (await get(server, "/metrics", host="[::1]"))[0] == 200


async def test_an_address_that_is_taken_is_an_error_of_the_part() -> None:
    async with serving(metrics_route(render)) as server:
        with pytest.raises(OSError, match="address already in use"):
            await HttpServer("second", "127.0.0.1", server.port, []).run()
