"""Live reads whose answers come late (traps 35, 36)."""

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from controller_runtime.cache import ObjectMeta, Store
from controller_runtime.transport import Client, NotFound
from nodewright.operator import resources
from nodewright.operator.cluster import Cluster, Target
from tests.unit.operator.fake_api import refusal

pytestmark = pytest.mark.looptime


class Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


def node(uid: str, version: str) -> Node:
    return Node(ObjectMeta(name="n1", uid=uid, resource_version=version))


class LateClient:
    """A read finds nothing; before its answer is there, something happens."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    async def get(self, *_arguments: Any, **_options: Any) -> bytes:
        self._meanwhile()
        raise refusal(NotFound, 404)


async def refreshed(held: Node | None, meanwhile: Callable[[Store[Node]], None]) -> Store[Node]:
    store = Store(Node)
    if held is not None:
        store.apply(held)
    client = cast(Client, LateClient(lambda: meanwhile(store)))
    target = Target(resources.NODE, store, "n1", uid="old")
    assert await Cluster(client).refresh(target) is None
    return store


async def test_a_late_answer_that_a_node_is_gone_is_not_about_the_one_that_came_after_it() -> None:
    """ROL-19, seed 1781 of the simulation: the new node was taken for dead and not seen any more."""

    def replaced(store: Store[Node]) -> None:
        store.remove("n1", "old", "6")
        store.apply(node("new", "7"))

    store = await refreshed(node("old", "5"), replaced)
    assert store.get("n1") == node("new", "7")
    store.apply(node("new", "8"))
    assert store.resource_version("n1") == "8"


async def test_the_node_that_was_there_before_the_question_is_gone() -> None:
    """Trap 36: also when it is not the one that was planned for; and late news of it revives nothing."""
    store = await refreshed(node("newer", "5"), lambda _: None)
    store.apply(node("newer", "5"))
    assert "n1" not in store
