"""The client against a real socket: what is sent, what refusals become, what is tried again."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controller_runtime.transport import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Client,
    ClientConfig,
    ConfigError,
    Conflict,
    Credential,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    NotFound,
    PatchType,
    Resource,
    ServerTimeout,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from tests.unit.runtime.model_server import ManualClock
from tests.unit.runtime.wire_server import Answer, WireServer, refusing, serving

JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)


@asynccontextmanager
async def talking(*answers: Answer, **options: Any) -> AsyncIterator[tuple[Client, WireServer]]:
    async with serving(*answers) as server:
        config = ClientConfig(server=server.url, token="secret")
        async with Client(
            options.pop("config", None) or config, user_agent="test/1", clock=ManualClock(), **options
        ) as client:
            yield client, server


async def test_each_verb_sends_what_the_api_expects() -> None:
    async with talking() as (client, server):
        await client.get(NODES, "n1")
        await client.list(
            PODS,
            label_selector="a=b,c",
            field_selector="spec.nodeName=n1",
            limit=500,
            continue_="x y",
            resource_version="7",
        )
        await client.create(JOBS, {"a": 1}, namespace="ns")
        await client.patch(NODES, "n1", [{"op": "test", "path": "/x", "value": None}], PatchType.JSON)
        await client.patch(NODES, "n1", {"a": None}, PatchType.MERGE, subresource="status")
        await client.patch(NODES, "n1", {"a": 1}, PatchType.STRATEGIC)
        await client.patch(NODES, "n1", b'{"a":1}', PatchType.APPLY, field_manager="me", force=True)
        await client.replace(NODES, "n1", {"a": 1})
        await client.create_subresource(PODS, "p", "eviction", {"kind": "Eviction"}, namespace="ns")
        await client.delete(
            PODS, "p", namespace="ns", uid="u", resource_version="7", propagation="Background", grace_period_seconds=0
        )
        await client.delete(NODES, "n1")
    sent = [
        (seen.method, seen.path.partition("?")[0], seen.headers.get("Content-Type"), seen.body) for seen in server.seen
    ]
    assert sent == [
        ("GET", "/api/v1/nodes/n1", None, b""),
        ("GET", "/api/v1/pods", None, b""),
        ("POST", "/apis/batch/v1/namespaces/ns/jobs", "application/json", b'{"a":1}'),
        ("PATCH", "/api/v1/nodes/n1", "application/json-patch+json", b'[{"op":"test","path":"/x","value":null}]'),
        ("PATCH", "/api/v1/nodes/n1/status", "application/merge-patch+json", b'{"a":null}'),
        ("PATCH", "/api/v1/nodes/n1", "application/strategic-merge-patch+json", b'{"a":1}'),
        ("PATCH", "/api/v1/nodes/n1", "application/apply-patch+yaml", b'{"a":1}'),
        ("PUT", "/api/v1/nodes/n1", "application/json", b'{"a":1}'),
        ("POST", "/api/v1/namespaces/ns/pods/p/eviction", "application/json", b'{"kind":"Eviction"}'),
        (
            "DELETE",
            "/api/v1/namespaces/ns/pods/p",
            "application/json",
            b'{"preconditions":{"uid":"u","resourceVersion":"7"},"propagationPolicy":"Background","gracePeriodSeconds":0}',
        ),
        ("DELETE", "/api/v1/nodes/n1", None, b""),
    ]
    assert server.seen[1].query == {
        "labelSelector": "a=b,c",
        "fieldSelector": "spec.nodeName=n1",
        "limit": "500",
        "continue": "x y",
        "resourceVersion": "7",
    }
    assert server.seen[6].query == {"fieldManager": "me", "force": "true"}
    assert {seen.headers["User-Agent"] for seen in server.seen} == {"test/1"}
    assert {seen.headers["Authorization"] for seen in server.seen} == {"Bearer secret"}
    assert [seen.headers["Accept-Encoding"] for seen in server.seen[:2]] == ["identity", "gzip"]


async def test_a_list_that_comes_compressed_is_handed_out_plain() -> None:
    text = json.dumps({"items": ["x" * 1000] * 100}).encode()
    async with talking(web.Response(body=gzip.compress(text), headers={"Content-Encoding": "gzip"})) as (client, _):
        assert await client.list(NODES) == text


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (413, "RequestEntityTooLarge", ApiError),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", InternalError),
        (500, "ServerTimeout", ServerTimeout),
        (502, "", InternalError),
        (503, "ServiceUnavailable", InternalError),
        (504, "Timeout", ServerTimeout),
        (404, "", NotFound),
    ],
)
async def test_a_refusal_becomes_the_error_of_its_reason(code: int, reason: str, kind: type[ApiError]) -> None:
    causes = [{"reason": "DisruptionBudget", "message": "why", "field": "spec.x"}]
    answer = refusing(code, reason, message="the server's words", details={"name": "n1", "causes": causes})
    async with talking(answer) as (client, server):
        with pytest.raises(ApiError) as caught:
            await client.patch(NODES, "n1", {}, PatchType.MERGE)
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (code, reason, "the server's words")
    assert (error.details.name, error.details.causes[0].type, error.details.causes[0].field) == (
        "n1",
        "DisruptionBudget",
        "spec.x",
    )
    assert json.loads(error.body)["code"] == code
    assert str(error) == f"PATCH /api/v1/nodes/n1: {code} {reason}: the server's words"
    assert len(server.seen) == 1


async def test_a_refusal_that_is_no_status_keeps_its_words() -> None:
    async with talking(web.Response(status=413, text="<html>too large")) as (client, _):
        with pytest.raises(ApiError, match=r"413 .*too large") as caught:
            await client.create(JOBS, {}, namespace="ns")
        assert caught.value.body == b"<html>too large"


async def test_a_redirect_is_not_followed_and_is_no_success() -> None:
    """Whoever redirects an API server's client is a proxy's login page; the token must not go there."""
    async with talking(web.Response(status=302, headers={"Location": "/elsewhere"})) as (client, server):
        with pytest.raises(ApiError) as caught:
            await client.get(NODES, "n")
        assert caught.value.status == 302
        assert len(server.seen) == 1


VERBS = {
    "GET": lambda client: client.get(NODES, "n"),
    "POST": lambda client: client.create(NODES, {}),
    "PUT": lambda client: client.replace(NODES, "n", {}),
    "PATCH": lambda client: client.patch(NODES, "n", {}, PatchType.MERGE),
    "APPLY": lambda client: client.patch(NODES, "n", {}, PatchType.APPLY, field_manager="m"),
    "DELETE": lambda client: client.delete(NODES, "n"),
}


@pytest.mark.parametrize("verb", list(VERBS))
@pytest.mark.parametrize(
    ("code", "retry_after", "verbs"),
    [
        (429, None, {"GET", "POST", "PUT", "PATCH", "APPLY", "DELETE"}),
        (429, "2", {"GET", "POST", "PUT", "PATCH", "APPLY", "DELETE"}),
        (500, "2", {"GET", "PUT", "APPLY", "DELETE"}),
        (503, "2", {"GET", "PUT", "APPLY", "DELETE"}),
        (503, None, set()),
        (500, None, set()),
        (409, "2", set()),
        (429, "3600", set()),
    ],
)
async def test_what_is_sent_again(verb: str, code: int, retry_after: str | None, verbs: set[str]) -> None:
    """Trap 34: the matrix of verb and status. On 429 nothing was executed; on 5xx the server may have acted."""
    headers = {"Retry-After": retry_after} if retry_after else None
    async with talking(refusing(code, headers=headers)) as (client, server):
        clock = client._clock
        assert isinstance(clock, ManualClock)
        if verb in verbs:
            await VERBS[verb](client)
            assert len(server.seen) == 2
            wish = float(retry_after or 1)
            assert wish <= sum(clock.slept) <= wish * 1.25
        else:
            with pytest.raises(ApiError) as caught:
                await VERBS[verb](client)
            assert caught.value.retry_after == (float(retry_after) if retry_after else None)
            assert len(server.seen) == 1


async def test_a_retry_after_may_be_a_date() -> None:
    """Trap 34."""
    clock = ManualClock()
    when = format_datetime(clock.now().replace(microsecond=0), usegmt=True)
    async with talking(
        refusing(429, headers={"Retry-After": when}), refusing(429, headers={"Retry-After": "soon"})
    ) as (client, server):
        client._clock = clock
        clock.time -= 7
        await client.get(NODES, "n")
        assert len(server.seen) == 3
        assert 7 <= clock.slept[0] <= 7 * 1.25
        assert 1 <= clock.slept[1] <= 1.25


async def test_retries_are_bounded() -> None:
    async with talking(*[refusing(429) for _ in range(20)]) as (client, server):
        with pytest.raises(TooManyRequests):
            await client.get(NODES, "n")
        assert len(server.seen) == 6


async def test_a_wait_for_the_server_can_be_interrupted() -> None:
    """Trap 34: shutting down waits for nobody."""
    async with (
        serving(refusing(429, headers={"Retry-After": "20"})) as server,
        Client(ClientConfig(server=server.url), user_agent="t") as client,
    ):
        task = asyncio.create_task(client.get(NODES, "n"))
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begun < 1


async def test_the_deadline_covers_the_waits() -> None:
    async with (
        serving(refusing(429, headers={"Retry-After": "20"})) as server,
        Client(ClientConfig(server=server.url), user_agent="t") as client,
    ):
        with pytest.raises(TransportError) as caught:
            await client.create(NODES, {}, timeout=0.2)
        # Refused, then given up while waiting: it was not executed.
        assert caught.value.sent is False


async def test_a_disruption_budgets_not_yet_is_the_answer() -> None:
    """Trap 57: the caller decides when to evict again."""
    details = {"causes": [{"reason": "DisruptionBudget", "message": "needs 3"}]}
    async with talking(refusing(429, "TooManyRequests", details=details, headers={"Retry-After": "10"})) as (
        client,
        server,
    ):
        with pytest.raises(TooManyRequests) as caught:
            await client.create_subresource(PODS, "p", "eviction", {}, namespace="ns")
        assert caught.value.retry_after == 10
        assert caught.value.details.has_cause("DisruptionBudget")
        assert len(server.seen) == 1


class Fence:
    def __init__(self, *, passes: int) -> None:
        self.passes = passes
        self.checks = 0

    def check(self) -> None:
        self.checks += 1
        if self.checks > self.passes:
            raise PermissionError("not the leader")


async def test_the_fence_is_asked_before_each_attempt_to_write() -> None:
    """Trap 33: also before a retry; what it refuses is not sent. Reads pass."""
    fence = Fence(passes=2)  # before it gets a connection, and as its bytes go out
    async with talking(refusing(429), fence=fence) as (client, server):
        with pytest.raises(PermissionError):
            await client.patch(NODES, "n", {}, PatchType.MERGE)
        assert (fence.checks, len(server.seen)) == (3, 1)
        await client.get(NODES, "n")
        assert (fence.checks, len(server.seen)) == (3, 2)
        for write in ("POST", "PUT", "APPLY", "DELETE"):
            with pytest.raises(PermissionError):
                await VERBS[write](client)
        assert len(server.seen) == 2


async def test_a_lease_that_is_lost_while_the_connection_is_made_stops_the_write() -> None:
    """Trap 33: a process may be stopped between the check and the first byte, for longer than its lease."""
    fence = Fence(passes=1)
    async with talking(refusing(429), fence=fence) as (client, server):
        for write in ("POST", "PUT", "APPLY"):
            fence.checks = 0
            with pytest.raises(PermissionError):
                await VERBS[write](client)
            assert fence.checks >= 2
        await client.get(NODES, "n")
        assert {one.method for one in server.seen} == {"GET"}


async def test_after_a_conflict_a_live_read_ends_the_loop() -> None:
    """Trap 35: 409 on a stale version; the second try, with what was read live, succeeds. A failed `test` is 422."""
    version = 9

    async def guarded(request: web.Request) -> web.Response:
        sent = json.loads(await request.read())
        return web.json_response({}) if sent["rv"] == version else refusing(409, "Conflict")

    live = web.json_response({"rv": version})
    async with talking(guarded, live, guarded) as (client, server):
        with pytest.raises(Conflict):
            await client.replace(NODES, "n", {"rv": 7})
        known = json.loads(await client.get(NODES, "n"))["rv"]
        await client.replace(NODES, "n", {"rv": known})
        assert [seen.method for seen in server.seen] == ["PUT", "GET", "PUT"]


async def test_a_401_reads_the_token_again_and_tries_once_more(tmp_path: Path) -> None:
    """Trap 40."""
    token = tmp_path / "token"
    token.write_text("old\n")
    async with (
        serving(refusing(401), web.json_response({}), refusing(401), refusing(401)) as server,
        Client(ClientConfig(server=server.url, token_file=token), user_agent="t") as client,
    ):
        token.write_text("new\n")
        await client.create(NODES, {})
        with pytest.raises(Unauthorized):
            await client.get(NODES, "n")
    assert [seen.headers["Authorization"] for seen in server.seen] == [
        "Bearer old",
        "Bearer new",
        "Bearer new",
        "Bearer new",
    ]


async def test_a_credential_that_cannot_be_had_sends_nothing(tmp_path: Path) -> None:
    """The plugin fails: what is asked for is not sent; what was answered with 401 stays so."""

    async def broken() -> Credential:
        raise ConfigError("the plugin failed")

    ended = Credential(authorization="Bearer x", expires_at=datetime(2000, 1, 1, tzinfo=UTC))
    valid = Credential(authorization="Bearer x", expires_at=datetime(2100, 1, 1, tzinfo=UTC))
    async with serving(refusing(401)) as server:
        clock = ManualClock()
        config = ClientConfig(server=server.url, credential=ended, refresh=broken)
        async with Client(config, user_agent="t", clock=clock) as client:
            clock.time += 11
            with pytest.raises(TransportError, match="plugin failed") as caught:
                await client.create(NODES, {})
            assert caught.value.sent is False
            with pytest.raises(TransportError, match="plugin failed"):
                await client.stream("/x", query={})
        assert server.seen == []
        async with Client(replace(config, credential=valid), user_agent="t", clock=clock) as client:
            with pytest.raises(Unauthorized):
                await client.get(NODES, "n")
        assert len(server.seen) == 1
    config = ClientConfig(server="https://x.invalid", ca_file=tmp_path / "missing")
    async with Client(config, user_agent="t") as client:
        with pytest.raises(TransportError, match="missing") as caught:
            await client.get(NODES, "n")
        assert caught.value.sent is False


async def test_a_connection_refused_was_not_sent_and_a_cut_one_may_have_been() -> None:
    async def cut(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        await asyncio.sleep(10)
        raise AssertionError

    async with talking(cut) as (client, server):
        with pytest.raises(TransportError, match="/api/v1/nodes") as caught:
            await client.create(NODES, {})
        assert caught.value.sent is None
        assert len(server.seen) == 1
    async with Client(ClientConfig(server=server.url), user_agent="t") as client:
        with pytest.raises(TransportError) as caught:
            await client.create(NODES, {})
        assert caught.value.sent is False


async def test_a_silent_server_is_given_up_at_the_deadline() -> None:
    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(10)
        raise AssertionError

    async with talking(silent) as (client, _):
        begun = time.monotonic()
        with pytest.raises(TransportError, match=r"no answer within 0\.2 s") as caught:
            await client.create(NODES, {}, timeout=0.2)
        assert caught.value.sent is None
        assert time.monotonic() - begun < 2


async def test_no_more_requests_are_under_way_than_allowed() -> None:
    busy = most = 0

    async def slow(request: web.Request) -> web.Response:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.02)
        busy -= 1
        return web.json_response({})

    async with talking(*[slow] * 12, max_in_flight=3) as (client, server):
        await asyncio.gather(*(client.get(NODES, "n") for _ in range(12)))
        assert (most, len(server.seen)) == (3, 12)


async def test_waiting_for_a_slot_counts_against_the_deadline_and_sends_nothing() -> None:
    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return web.json_response({})

    async with talking(slow, max_in_flight=1) as (client, server):
        first = asyncio.create_task(client.get(NODES, "n"))
        await asyncio.sleep(0.05)
        with pytest.raises(TransportError) as caught:
            await client.create(NODES, {}, timeout=0.1)
        assert caught.value.sent is False
        await first
        assert len(server.seen) == 1


async def test_metrics_and_observer_see_each_attempt_and_each_request() -> None:
    attempts: list[tuple[str, str]] = []

    class Observer:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def started(self, method: str, resource: Resource | None, name: str | None, subresource: str | None) -> object:
            return (method, str(resource), name, subresource)

        def finished(self, handle: object, outcome: int | BaseException, attempts: int) -> None:
            self.seen.append((handle, outcome if isinstance(outcome, int) else type(outcome), attempts))

    observer = Observer()
    metrics = lambda code, method, seconds: attempts.append((code, method))  # noqa: E731
    async with talking(refusing(429), web.json_response({}), refusing(404), metrics=metrics, observer=observer) as (
        client,
        _,
    ):
        await client.patch(NODES, "n", {}, PatchType.MERGE, subresource="status")
        with pytest.raises(NotFound):
            await client.get(JOBS, "j", namespace="ns")
    assert attempts == [("429", "PATCH"), ("200", "PATCH"), ("404", "GET")]
    assert observer.seen == [
        (("PATCH", "nodes", "n", "status"), 200, 2),
        (("GET", "jobs.batch", "j", None), NotFound, 1),
    ]


async def test_cancelling_a_request_leaves_no_connection_behind() -> None:
    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(1)
        return web.json_response({})

    async with talking(silent, max_in_flight=1) as (client, server):
        task = asyncio.create_task(client.get(NODES, "n"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.get(NODES, "n")
        assert len(server.seen) == 2
