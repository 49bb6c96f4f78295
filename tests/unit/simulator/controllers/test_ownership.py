"""Who goes when an owner goes, without an API server."""

from typing import Any

import msgspec
import pytest

from nodewright.simulator.controllers.ownership import FOREGROUND, Fate, Graph, Item, State, fate
from nodewright.simulator.controllers.views import POD, Meta

SOLID, WAITING, ABSENT = State.SOLID, State.WAITING, State.ABSENT


def item(uid: str, *owners: str, blocks: bool = True, deleted: bool = False, finalizers: tuple[str, ...] = ()) -> Item:
    body: dict[str, Any] = {"name": uid, "namespace": "ns", "uid": uid, "finalizers": finalizers}
    body["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": one, "uid": one, "blockOwnerDeletion": blocks} for one in owners
    ]
    if deleted:
        body["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    return Item(POD, msgspec.convert(body, Meta))


LEAVING = item("leaving", deleted=True, finalizers=(FOREGROUND,))


@pytest.mark.parametrize(
    ("states", "dependents", "finalizers", "expected"),
    [
        ({}, [], (), Fate()),
        ({"a": SOLID}, [], (), Fate()),
        ({"a": SOLID, "b": ABSENT}, [], (), Fate(drop=("b",))),
        ({"a": SOLID, "b": WAITING}, [], (), Fate(drop=("b",))),
        ({"a": ABSENT}, [], (), Fate(delete="Background")),
        ({"a": ABSENT, "b": ABSENT}, [item("x")], (), Fate(delete="Background")),
        ({"a": ABSENT}, [], ("orphan",), Fate(delete="Orphan")),
        ({"a": ABSENT}, [], (FOREGROUND,), Fate(delete="Foreground")),
        ({"a": WAITING}, [], (), Fate(delete="Background")),
        ({"a": WAITING}, [item("x")], (), Fate(delete="Foreground")),
        ({"a": WAITING}, [LEAVING], (), Fate(delete="Foreground", unblock=True)),
    ],
)
def test_what_becomes_of_an_object(
    states: dict[str, State], dependents: list[Item], finalizers: tuple[str, ...], expected: Fate
) -> None:
    assert fate(item("me", *states, finalizers=finalizers), states, dependents) == expected


def test_dependents_are_looked_at_when_their_owner_goes() -> None:
    graph = Graph()
    assert graph.put(item("owner")) == []
    assert graph.put(item("child", "owner")) == []
    assert graph.remove("owner") == ["child"]


def test_an_object_of_an_unknown_owner_is_looked_at() -> None:
    assert Graph().put(item("child", "nobody")) == ["child"]


def test_a_foreground_deletion_looks_at_dependents_and_ends_with_the_last_blocker() -> None:
    graph = Graph()
    graph.put(item("owner"))
    graph.put(item("blocks", "owner"))
    graph.put(item("other", "owner", blocks=False))
    leaving = item("owner", deleted=True, finalizers=(FOREGROUND,))
    assert graph.put(leaving) == ["owner", "blocks", "other"]
    assert [one.metadata.uid for one in graph.blockers("owner")] == ["blocks"]
    assert graph.remove("blocks") == ["owner"]
    assert graph.blockers("owner") == []


def test_an_owner_that_waits_is_looked_at_when_a_reference_stops_blocking() -> None:
    graph = Graph()
    graph.put(item("owner", deleted=True, finalizers=(FOREGROUND,)))
    graph.put(item("child", "owner"))
    assert "owner" in graph.put(item("child", "owner", blocks=False))
    assert "owner" in graph.put(item("child"))
    assert graph.dependents("owner") == []
