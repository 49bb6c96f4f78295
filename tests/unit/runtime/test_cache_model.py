"""Any order of changes, cuts, compactions, bookmarks and own answers: in the end the store is what the server is."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import looptime
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from controller_runtime.cache import Change, Informer
from controller_runtime.transport import TransportError
from tests.unit.runtime.model_server import AHEAD, EXPIRED, WIDGETS, LoopClock, ModelServer, Widget, status

NAMES = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.sampled_from(["red", "green", "blue"])),
    st.tuples(st.just("heartbeat"), NAMES),
    st.tuples(st.just("break"), NAMES),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("own put"), NAMES, st.sampled_from(["red", "green", "blue"])),
    st.tuples(st.just("own remove"), NAMES),
    st.tuples(st.just("late answer"), st.integers(0, 50)),
    st.tuples(st.just("cut")),
    st.tuples(st.just("end")),
    st.tuples(st.just("forget")),
    st.tuples(st.just("bookmark")),
    st.tuples(st.just("refuse watch"), st.sampled_from(["expired", "ahead", "busy", "500", "reset", "404"])),
    st.tuples(st.just("refuse list"), st.sampled_from(["expired", "ahead", "busy", "500", "reset"])),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.001, 0.5, 3.0, 700.0])),
)
REFUSALS: dict[str, Any] = {
    "expired": EXPIRED,
    "ahead": AHEAD,
    "busy": status(429),
    "500": status(500),
    "404": status(404),
    "reset": TransportError("reset", sent=None),
}


class Checked:
    """Follows the changes a store tells: each must make sense after the one before."""

    def __init__(self, informer: Informer[Widget]) -> None:
        self.alive: dict[str, Widget] = {}
        self.dead: set[str] = set()
        self.store = informer.store
        self.store.subscribe(self.note)

    def note(self, change: Change[Widget]) -> None:
        old, new = change.old, change.new
        if old is not None:
            assert self.alive.pop(old.metadata.key) is old
        if new is None:
            assert old is not None
            assert old.metadata.uid not in self.dead, "deleted twice"
            self.dead.add(old.metadata.uid)
            return
        assert new.metadata.uid not in self.dead, "revived"
        assert new.metadata.key not in self.alive
        if old is not None:
            assert new.metadata.uid == old.metadata.uid
            assert int(new.metadata.resource_version) > int(old.metadata.resource_version), "back in time"
        self.alive[new.metadata.key] = new

    def holds(self) -> None:
        assert dict(zip(self.store.keys(), self.store.values(), strict=True)) == self.alive
        for color in ("red", "green", "blue"):
            bucket = self.store.by_index("color", color)
            assert list(bucket) == [self.alive[key] for key in sorted(self.alive) if self.alive[key].color == color]


def perform(
    server: ModelServer, informer: Informer[Widget], answers: list[dict[str, Any]], step: tuple[Any, ...]
) -> None:
    match step:
        case ("put", name, color):
            answers.append(server.put(name, color=color))
        case ("heartbeat", name):
            server.put(name, noise=str(server.version))
        case ("break", name):
            server.put(name, size="unreadable")
            server.put(name, size=1)
        case ("remove", name):
            server.remove(name)
        case ("own put", name, color):
            answer = server.put(name, color=color)
            informer.store.observe(wire(answer))
        case ("own remove", name):
            gone = server.remove(name)
            if gone is not None:
                informer.store.observe_deleted(f"n/{name}", gone["metadata"]["uid"])
        case ("late answer", which) if answers:
            informer.store.observe(wire(answers[which % len(answers)]))
        case ("cut",):
            server.cut()
        case ("end",):
            server.cut(broken=False)
        case ("forget",):
            server.forget()
        case ("bookmark",):
            server.bookmark()
        case ("refuse watch", how):
            server.on_watch.append(REFUSALS[how])
        case ("refuse list", how):
            server.on_list.append(REFUSALS[how])


def wire(item: dict[str, Any]) -> bytes:
    return json.dumps(item).encode()


async def live(steps: list[tuple[Any, ...]], *, streaming: bool) -> None:
    server = ModelServer(page_size=2)
    server.put("a", color="red")
    informer = Informer(server, WIDGETS, Widget, clock=LoopClock(), streaming=streaming)
    informer.store.add_index("color", lambda item: [item.color])
    checked = Checked(informer)
    failures: list[BaseException] = []
    answers: list[dict[str, Any]] = []

    def note(change: Change[Widget]) -> None:
        try:
            checked.note(change)
        except BaseException as error:
            failures.append(error)
            raise

    informer.store._handlers[:] = [note]
    task = asyncio.create_task(informer.run())
    for step in steps:
        if step[0] == "wait":
            await asyncio.sleep(step[1])
        else:
            perform(server, informer, answers, step)
        if failures:
            raise failures[0]
        checked.holds()
    # Faults queued and not met yet are called off; then everything must come right by itself.
    server.on_watch.clear()
    server.on_list.clear()
    await asyncio.sleep(700)
    if failures:
        raise failures[0]
    checked.holds()
    assert {key: item.color for key, item in checked.alive.items()} == {
        key: item.get("color", "") for key, item in server.objects.items()
    }
    assert {key: item.metadata.uid for key, item in checked.alive.items()} == {
        key: item["metadata"]["uid"] for key, item in server.objects.items()
    }
    assert informer.counts["restart"] == 0
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert len(asyncio.all_tasks()) == 1


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, max_size=40), streaming=st.booleans())
@example(steps=[("own put", "b", "red"), ("cut",), ("remove", "b"), ("forget",), ("late answer", 0)], streaming=False)
@example(steps=[("put", "b", "red"), ("remove", "b"), ("wait", 0.001), ("late answer", 0)], streaming=False)
@example(
    steps=[("heartbeat", "c"), ("wait", 0.0), ("put", "b", "red"), ("wait", 0.0), ("remove", "a")],
    streaming=False,
)
def test_whatever_happens_the_store_becomes_the_server(steps: list[tuple[Any, ...]], *, streaming: bool) -> None:
    """Traps 5 to 11: deletes exactly once, nothing revived, never back in time, indexes always true."""
    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(live(steps, streaming=streaming))
    finally:
        loop.close()
