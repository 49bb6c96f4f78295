"""From changes to keys: predicates, mapping, and waiting for the first list."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import pytest

from controller_runtime.controller import (
    ChangeView,
    Controller,
    Request,
    Result,
    changed_by,
    object_key,
    owner_key,
)

pytestmark = pytest.mark.looptime


@dataclass(frozen=True)
class Owner:
    api_version: str
    kind: str
    name: str
    controller: bool = True


@dataclass(frozen=True)
class Metadata:
    name: str
    namespace: str = ""
    uid: str = "1"
    deletion_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[Owner, ...] = ()


@dataclass(frozen=True)
class Thing:
    metadata: Metadata
    spec: str = ""
    status: str = ""


@dataclass(frozen=True)
class Change:
    old: Thing | None = None
    new: Thing | None = None


class Shelf:
    """A store reduced to what a controller sees of it."""

    def __init__(self, *things: Thing, synced: bool = True) -> None:
        self.things = list(things)
        self.synced = synced
        self.handlers: list[Callable[[ChangeView[Thing]], None]] = []

    def values(self) -> Collection[Thing]:
        return self.things

    def subscribe(self, handler: Callable[[ChangeView[Thing]], None], /) -> None:
        self.handlers.append(handler)

    def tell(self, old: Thing | None = None, new: Thing | None = None) -> None:
        for handler in self.handlers:
            handler(Change(old, new))


def label_of(thing: Thing) -> list[str]:
    return [thing.metadata.labels["parent"]]


def thing(parent: str = "a", **fields: str) -> Thing:
    return Thing(Metadata("thing", labels={"parent": parent}), **fields)


class Log:
    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Result:
        self.requests.append(request)
        return Result()


async def test_an_update_concerns_the_parents_of_the_old_and_the_new_object() -> None:
    """Trap 49."""
    shelf, subject = Shelf(), Controller("test", Log())
    subject.watches(shelf, label_of, trigger="thing")
    shelf.tell(old=thing("a"), new=thing("b"))
    assert {(await subject.queue.get()).key for _ in range(2)} == {"a", "b"}
    assert len(subject.queue) == 0


async def test_what_is_in_the_store_already_counts_as_added() -> None:
    subject = Controller("test", Log())
    subject.watches(Shelf(thing("a"), thing("b")), label_of)
    assert len(subject.queue) == 2


async def test_the_first_list_comes_with_low_priority_and_changes_overtake_it() -> None:
    shelf, subject = Shelf(synced=False), Controller("test", Log())
    subject.watches(shelf, label_of)
    shelf.tell(new=thing("listed"))
    shelf.synced = True
    shelf.tell(new=thing("changed"))
    assert [(await subject.queue.get()).key for _ in range(2)] == ["changed", "listed"]


async def test_no_pass_starts_before_every_source_has_told_of_its_first_list(caplog: pytest.LogCaptureFixture) -> None:
    """Trap 47."""
    ready, slow, log = Shelf(), Shelf(synced=False), Log()
    subject = Controller("test", log)
    subject.watches(ready, label_of, trigger="ready")
    subject.watches(slow, label_of, trigger="slow")
    ready.tell(new=thing("a"))
    run = asyncio.create_task(subject.run())
    await asyncio.sleep(31)
    assert log.requests == []
    assert "still waits for the first list of: slow" in caplog.text
    slow.synced = True
    await asyncio.sleep(1)
    assert [request.key for request in log.requests] == ["a"]
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


async def test_triggers_name_the_sources_of_a_request() -> None:
    nodes, jobs, subject = Shelf(), Shelf(), Controller("test", Log())
    subject.watches(nodes, label_of, trigger="node")
    subject.watches(jobs, label_of, trigger="job")
    nodes.tell(new=thing("a"))
    jobs.tell(new=thing("a"))
    nodes.tell(new=thing("a"))
    assert (await subject.queue.get()).triggers == ("node", "job")


async def test_a_change_the_predicate_holds_back_adds_nothing() -> None:
    shelf, subject = Shelf(), Controller("test", Log())
    subject.watches(shelf, label_of, predicate=changed_by(lambda it: it.spec))
    shelf.tell(old=thing(status="1"), new=thing(status="2"))
    assert len(subject.queue) == 0
    shelf.tell(old=thing(spec="1"), new=thing(spec="2"))
    assert len(subject.queue) == 1


def test_an_update_that_only_sets_the_deletion_timestamp_always_passes() -> None:
    """Trap 54."""
    passes = changed_by(lambda it: "never differs")
    before = thing()
    deleted = replace(before, metadata=replace(before.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    recreated = replace(before, metadata=replace(before.metadata, uid="2"))
    assert not passes(Change(before, before))
    assert passes(Change(before, deleted))
    assert passes(Change(before, recreated))
    assert passes(Change(None, before))
    assert passes(Change(before, None))


@pytest.mark.parametrize(
    ("owner", "keys"),
    [
        (Owner("acme.com/v1", "Parent", "p"), ["p"]),
        (Owner("acme.com/v2beta1", "Parent", "p"), ["p"]),
        (Owner("other.com/v1", "Parent", "p"), []),
        (Owner("acme.com/v1", "Other", "p"), []),
        (Owner("acme.com/v1", "Parent", "p", controller=False), []),
    ],
)
def test_an_object_concerns_its_controlling_owner_of_that_kind_and_group(owner: Owner, keys: list[str]) -> None:
    child = Thing(Metadata("child", namespace="ns", owner_references=(owner,)))
    assert list(owner_key("Parent", "acme.com")(child)) == keys
    assert list(owner_key("Parent", "acme.com", namespaced=True)(child)) == [f"ns/{key}" for key in keys]


def test_the_core_group_is_the_empty_one() -> None:
    child = Thing(Metadata("child", owner_references=(Owner("v1", "Node", "n"),)))
    assert list(owner_key("Node", "")(child)) == ["n"]


def test_the_key_of_an_object_is_its_name_with_its_namespace_if_it_has_one() -> None:
    assert list(object_key(Thing(Metadata("n")))) == ["n"]
    assert list(object_key(Thing(Metadata("n", namespace="ns")))) == ["ns/n"]
