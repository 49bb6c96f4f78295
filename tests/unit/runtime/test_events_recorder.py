"""The event recorder, in virtual time."""

import asyncio
import json
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Literal

import pytest

from controller_runtime.events import EventRecorder, ObjectReference
from controller_runtime.events.event import NOTE_BYTES, clipped, event_name
from controller_runtime.transport import (
    AlreadyExists,
    Forbidden,
    InternalError,
    NotFound,
    PatchType,
    Resource,
    TransportError,
)
from tests.unit.runtime.leases import LoopClock

pytestmark = pytest.mark.looptime


class EventServer:
    """Keeps events, and fails on request."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], dict[str, Any]] = {}
        self.requests: list[str] = []
        self.fail: Callable[[str], Awaitable[None]] | None = None
        self.active = 0
        self.most_active = 0

    async def create(
        self, resource: Resource, body: Mapping[str, Any] | bytes, *, namespace: str | None = None
    ) -> bytes:
        assert isinstance(body, Mapping)
        async with self._request("create"):
            key = (namespace or "", body["metadata"]["name"])
            if key in self.events:
                raise AlreadyExists(status=409)
            self.events[key] = json.loads(json.dumps(body))
        return b"{}"

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any] | Sequence[Any] | bytes,
        patch_type: PatchType,
        *,
        namespace: str | None = None,
    ) -> bytes:
        assert isinstance(body, Mapping)
        assert patch_type is PatchType.MERGE
        async with self._request("patch"):
            event = self.events.get((namespace or "", name))
            if event is None:
                raise NotFound(status=404)
            event.update(json.loads(json.dumps(body)))
        return b"{}"

    @asynccontextmanager
    async def _request(self, verb: str) -> AsyncIterator[None]:
        self.requests.append(verb)
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            if self.fail is not None:
                await self.fail(verb)
            await asyncio.sleep(0.01)
            yield
        finally:
            self.active -= 1

    @property
    def only(self) -> dict[str, Any]:
        assert len(self.events) == 1
        return next(iter(self.events.values()))


class Drops(Counter[str]):
    def written(self) -> None:
        self["written"] += 1

    def dropped(self, *, reason: str) -> None:
        self[reason] += 1


def recorder(server: EventServer, drops: Drops | None = None) -> EventRecorder:
    return EventRecorder(server, "acme.com/operator", "pod-1", clock=LoopClock(), metrics=drops)


@asynccontextmanager
async def writing(subject: EventRecorder) -> AsyncIterator[None]:
    task = asyncio.create_task(subject.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "no leaked task"


NODE = ObjectReference(api_version="v1", kind="Node", name="node-1", uid="u1")
POD = ObjectReference(api_version="v1", kind="Pod", name="pod", namespace="ns", uid="u2")


def say(
    subject: EventRecorder,
    about: ObjectReference = NODE,
    *,
    reason: str = "Drained",
    note: str = "drained",
    kind: Literal["Normal", "Warning"] = "Normal",
) -> None:
    subject.event(about, type=kind, reason=reason, action="Drain", note=note)


async def away(verb: str) -> None:
    raise TransportError("refused", sent=False)


async def test_an_event_is_one_post_with_what_the_api_requires() -> None:
    server = EventServer()
    subject = recorder(server)
    async with writing(subject):
        subject.event(NODE, type="Warning", reason="Interrupt", action="Reboot", note="rebooting", related=POD)
        await asyncio.sleep(600)
    assert server.requests == ["create"]
    (namespace, name), event = next(iter(server.events.items()))
    assert namespace == "default"
    assert name.startswith("node-1.")
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u1"}
    assert event["related"]["namespace"] == "ns"
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "Interrupt", "Reboot")
    assert (event["note"], event["reportingController"], event["reportingInstance"]) == (
        "rebooting",
        "acme.com/operator",
        "pod-1",
    )
    assert "series" not in event


async def test_the_event_of_a_namespaced_object_lives_in_its_namespace() -> None:
    """Trap 46."""
    server = EventServer()
    subject = recorder(server)
    async with writing(subject):
        say(subject, POD)
        await asyncio.sleep(1)
    assert [namespace for namespace, _ in server.events] == ["ns"]


async def test_two_events_of_each_of_a_thousand_nodes_are_two_thousand_posts() -> None:
    server, drops = EventServer(), Drops()
    subject = recorder(server, drops)
    async with writing(subject):
        for number in range(1000):
            node = ObjectReference(api_version="v1", kind="Node", name=f"node-{number}", uid=str(number))
            say(subject, node, reason="Started")
            say(subject, node, reason="Completed")
            await asyncio.sleep(0.1)
        await asyncio.sleep(600)
    assert Counter(server.requests) == {"create": 2000}
    assert drops == {"written": 2000}


async def test_events_about_different_subjects_are_different_series() -> None:
    """JOB-17: two packages that end the same stage on a node are two events, with their own notes."""
    server = EventServer()
    subject = recorder(server)
    async with writing(subject):
        for package in ("tuning", "drivers", "tuning"):
            subject.event(NODE, type="Normal", reason="Apply", action="apply", note=f"{package} done", subject=package)
        await asyncio.sleep(60)
    notes = {event["note"]: event.get("series", {}).get("count", 1) for event in server.events.values()}
    assert notes == {"tuning done": 2, "drivers done": 1}


async def test_a_thousand_events_of_one_reason_are_one_series_with_few_writes() -> None:
    server = EventServer()
    subject = recorder(server)
    async with writing(subject):
        for number in range(1000):
            say(subject, note=f"node {number} is done")
            await asyncio.sleep(0.6)
        await asyncio.sleep(600)
    assert server.only["series"]["count"] == 1000
    assert server.only["note"] == "node 0 is done", "the API lets nothing but the series change"
    assert Counter(server.requests)["patch"] <= 14, "ten minutes"


async def test_a_repetition_is_written_after_five_seconds_and_then_ever_more_rarely() -> None:
    server = EventServer()
    times: list[float] = []

    async def note_time(verb: str) -> None:
        times.append(round(asyncio.get_running_loop().time(), 1))

    server.fail = note_time
    subject = recorder(server)
    async with writing(subject):
        for _ in range(200):
            say(subject)
            await asyncio.sleep(1)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps[:5] == pytest.approx([5, 10, 20, 40, 60], abs=1.1)


async def test_when_events_cease_the_last_count_is_written_soon_and_then_nothing() -> None:
    """Idle is silent: what is counted is not written a minute after the last event."""
    server = EventServer()
    times: list[float] = []

    async def note_time(verb: str) -> None:
        times.append(asyncio.get_running_loop().time())

    server.fail = note_time
    subject = recorder(server)
    async with writing(subject):
        for _ in range(100):
            say(subject)
            await asyncio.sleep(1)
        ceased = asyncio.get_running_loop().time()
        await asyncio.sleep(600)
    assert server.only["series"]["count"] == 100
    assert times[-1] - ceased < 10


async def test_after_six_quiet_minutes_a_new_series_begins() -> None:
    server = EventServer()
    subject = recorder(server)
    async with writing(subject):
        say(subject)
        await asyncio.sleep(359)
        say(subject)
        await asyncio.sleep(361)
        say(subject)
        await asyncio.sleep(10)
    assert server.requests == ["create", "patch", "create"]


async def test_what_is_repeated_before_the_first_write_is_written_with_it() -> None:
    server = EventServer()
    subject = recorder(server)
    for _ in range(5):
        say(subject)
    async with writing(subject):
        await asyncio.sleep(60)
    assert server.requests == ["create"]
    assert server.only["series"]["count"] == 5


async def test_a_series_the_server_forgot_begins_anew_with_its_count() -> None:
    server = EventServer()
    subject = recorder(server)
    async with writing(subject):
        say(subject)
        await asyncio.sleep(1)
        server.events.clear()
        say(subject)
        await asyncio.sleep(60)
    assert server.requests == ["create", "patch", "create"]
    assert server.only["series"]["count"] == 2


async def test_the_spam_filter_slows_a_series_down_and_keeps_its_count() -> None:
    server = EventServer()
    subject = recorder(server)
    async with writing(subject):
        for _ in range(480):
            say(subject)
            await asyncio.sleep(30)
        await asyncio.sleep(700)
    assert len(server.requests) <= 25 + 4 * 12 + 3
    assert server.only["series"]["count"] == 480


async def test_the_spam_filter_drops_new_series_of_one_reason_and_starves_no_other() -> None:
    server, drops = EventServer(), Drops()
    subject = recorder(server, drops)
    async with writing(subject):
        for number in range(100):
            subject.event(NODE, type="Normal", reason="Noisy", action=f"action-{number}", note="")
        say(subject, reason="Quiet")
        say(subject, POD, reason="Noisy")
        await asyncio.sleep(60)
    assert Counter(event["reason"] for event in server.events.values()) == {"Noisy": 26, "Quiet": 1}
    assert drops["spam"] == 75


async def test_with_the_api_server_down_ten_thousand_events_stay_in_bounds() -> None:
    """Trap 46: neither memory nor the caller suffers."""
    server, drops = EventServer(), Drops()
    server.fail = away
    subject = recorder(server, drops)
    async with writing(subject):
        tracemalloc.start()
        for number in range(10_000):
            say(subject, ObjectReference(api_version="v1", kind="Node", name=f"node-{number}"))
        await asyncio.sleep(1)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(subject._queue) <= 4096
        assert drops["queue_full"] >= 5_890
        assert size < 12 * 2**20
        server.fail = None
        await asyncio.sleep(600)
    assert len(server.events) == 10_000 - drops["queue_full"], "the newest are kept and written later"
    assert ("default", "node-9999") in {(namespace, name.split(".")[0]) for namespace, name in server.events}


async def test_an_event_dropped_for_lack_of_room_does_not_swallow_the_next_of_its_kind() -> None:
    server = EventServer()
    subject = EventRecorder(server, "acme.com/operator", "pod-1", clock=LoopClock(), capacity=1)
    say(subject, reason="First")
    say(subject, reason="Second")
    async with writing(subject):
        await asyncio.sleep(1)
        say(subject, reason="First")
        await asyncio.sleep(1)
    assert [event["reason"] for event in server.events.values()] == ["Second", "First"]


async def test_an_unreachable_server_is_given_up_on_after_twelve_tries() -> None:
    server, drops = EventServer(), Drops()
    server.fail = away
    subject = recorder(server, drops)
    async with writing(subject):
        say(subject)
        await asyncio.sleep(600)
    assert len(server.requests) == 12
    assert drops == {"unreachable": 1}


async def test_a_server_that_hangs_is_not_waited_for_longer_than_ten_seconds_a_try() -> None:
    server, drops = EventServer(), Drops()

    async def hang(verb: str) -> None:
        await asyncio.Event().wait()

    server.fail = hang
    subject = recorder(server, drops)
    async with writing(subject):
        say(subject)
        await asyncio.sleep(600)
    assert drops == {"unreachable": 1}


async def test_an_answer_lost_on_the_way_makes_no_second_event() -> None:
    server = EventServer()
    tries = 0
    original = server.create

    async def lost_once(resource: Resource, body: Mapping[str, Any] | bytes, *, namespace: str | None = None) -> bytes:
        nonlocal tries
        answer = await original(resource, body, namespace=namespace)
        tries += 1
        if tries == 1:
            raise TransportError("cut", sent=None)
        return answer

    server.create = lost_once  # type: ignore[method-assign]
    drops = Drops()
    subject = recorder(server, drops)
    async with writing(subject):
        say(subject)
        await asyncio.sleep(60)
        say(subject)
        await asyncio.sleep(60)
    assert server.requests == ["create", "create", "patch"]
    assert server.only["series"]["count"] == 2
    assert drops == {"written": 2}


@pytest.mark.parametrize("error", [Forbidden(status=403), NotFound(status=404)])
async def test_a_refusal_is_final_and_the_next_event_begins_anew(error: Exception) -> None:
    server, drops = EventServer(), Drops()

    async def refuse(verb: str) -> None:
        raise error

    server.fail = refuse
    subject = recorder(server, drops)
    async with writing(subject):
        say(subject)
        await asyncio.sleep(10)
        assert drops == {"rejected": 1}
        server.fail = None
        say(subject)
        await asyncio.sleep(10)
    assert server.requests == ["create", "create"]


async def test_a_failing_server_is_tried_again() -> None:
    server = EventServer()
    calls = 0

    async def twice(verb: str) -> None:
        nonlocal calls
        calls += 1
        if calls <= 2:
            raise InternalError(status=500)

    server.fail = twice
    subject = recorder(server)
    async with writing(subject):
        say(subject)
        await asyncio.sleep(60)
    assert len(server.events) == 1


async def test_at_most_two_requests_run_at_once() -> None:
    server = EventServer()
    subject = recorder(server)
    async with writing(subject):
        for number in range(100):
            say(subject, reason=f"Reason{number}")
        await asyncio.sleep(60)
    assert len(server.events) == 100
    assert server.most_active == 2


async def test_nothing_that_is_wrong_with_an_event_reaches_the_caller() -> None:
    """Trap 46, OBS-6."""
    drops = Drops()
    subject = recorder(EventServer(), drops)
    say(subject, kind="Error")  # type: ignore[arg-type]
    say(subject, reason="")
    subject.event(None, type="Normal", reason="A", action="B", note="C")  # type: ignore[arg-type]
    assert drops == {"invalid": 3}


async def test_flush_writes_what_waits_counts_included() -> None:
    """Trap 46."""
    server = EventServer()
    subject = recorder(server)
    async with writing(subject):
        say(subject)
        await asyncio.sleep(1)
        say(subject)
        say(subject, POD)
        await subject.flush(5)
        assert Counter(server.requests) == {"create": 2, "patch": 1}


async def test_flush_works_after_the_run_was_cancelled_in_the_middle_of_a_write() -> None:
    """Trap 46."""
    server = EventServer()
    subject = recorder(server)
    async with writing(subject):
        say(subject)
        await asyncio.sleep(0.005)
        assert server.requests == ["create"]
    await subject.flush(5)
    assert len(server.events) == 1


async def test_flush_ends_in_time_with_the_api_server_down() -> None:
    """Trap 46."""
    server = EventServer()
    server.fail = away
    subject = recorder(server)
    async with writing(subject):
        for number in range(100):
            say(subject, reason=f"Reason{number}")
        await subject.flush(5)
        assert asyncio.get_running_loop().time() == pytest.approx(5)


@pytest.mark.parametrize("text", ["a" * 2000, "é" * 700, "漢" * 500, "😀" * 300, "\ud800" * 2000])
def test_a_long_note_is_cut_to_valid_utf8_within_the_limit(text: str) -> None:
    cut = clipped(text, NOTE_BYTES)
    assert NOTE_BYTES - 6 < len(cut.encode()) <= NOTE_BYTES
    assert cut.endswith("…")


def test_a_short_note_stays_as_it_is() -> None:
    assert clipped("é" * 512, NOTE_BYTES) == "é" * 512


def test_names_are_unique_and_valid_however_long_the_object_is_called() -> None:
    assert event_name("node-1") != event_name("node-1")
    assert len(event_name("n" * 253)) == 253
    assert "-." not in event_name("n" * 235 + "-" * 18)
