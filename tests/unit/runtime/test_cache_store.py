"""The store: order, indexes, identity, and the dead that stay dead."""

import json
import logging
from typing import Any

import msgspec
import pytest

from controller_runtime.cache import Change, MutationDetector, ObjectMeta, OwnerReference, Store
from controller_runtime.cache.tombstones import LIFETIME_SECONDS
from tests.unit.runtime.model_server import ManualClock, Widget


def widget(name: str, version: int, *, uid: str = "u", color: str = "", **metadata: Any) -> Widget:
    meta = ObjectMeta(name=name, namespace="n", uid=f"{uid}-{name}", resource_version=str(version), **metadata)
    return Widget(metadata=meta, color=color)


def raw(item: Widget) -> bytes:
    return msgspec.json.encode(item)


class Told:
    def __init__(self, store: Store[Widget]) -> None:
        self.changes: list[Change[Widget]] = []
        store.subscribe(self.changes.append)

    def take(self) -> list[tuple[str | None, str | None]]:
        """Colors before and after, and forget them."""
        found = [(c.old.color if c.old else None, c.new.color if c.new else None) for c in self.changes]
        self.changes.clear()
        return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store[Widget]:
    store = Store(Widget, clock=clock)
    store.add_index("color", lambda item: [item.color] if item.color else [])
    return store


def test_objects_are_read_from_the_wire_in_camel_case_and_cannot_be_changed() -> None:
    """Trap 38: one object is shared by all its readers."""
    text = {
        "metadata": {
            "name": "a",
            "namespace": "n",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-01-02T03:04:06Z",
            "labels": {"l": "1"},
            "annotations": {"a": "2"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": True}],
            "finalizers": ["f"],
            "managedFields": [{"huge": True}],
        },
        "color": "red",
    }
    item = msgspec.json.decode(json.dumps(text), type=Widget)
    owner = OwnerReference(api_version="v1", kind="K", name="o", uid="ou", controller=True)
    assert item.metadata == ObjectMeta(
        name="a",
        namespace="n",
        uid="u",
        resource_version="7",
        generation=3,
        creation_timestamp="2026-01-02T03:04:05Z",
        deletion_timestamp="2026-01-02T03:04:06Z",
        labels={"l": "1"},
        annotations={"a": "2"},
        owner_references=(owner,),
        finalizers=("f",),
    )
    assert item.metadata.key == "n/a"
    with pytest.raises(AttributeError):
        item.color = "blue"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        item.metadata.name = "b"  # type: ignore[misc]


def test_a_changed_label_of_a_shared_object_is_found(store: Store[Widget]) -> None:
    """Trap 38: the dicts within are not frozen, so tests look for whoever writes into them."""
    store.apply(widget("early", 1, labels={"a": "b"}))
    detector = MutationDetector(store)
    store.apply(widget("a", 1, labels={"a": "b"}))
    store.apply(widget("a", 2, labels={"a": "b"}))
    store.apply(widget("gone", 3))
    store.remove("n/gone", "u-gone", "4")
    assert detector.mutated() == []
    for key in ("n/a", "n/early"):
        held = store.get(key)
        assert held is not None
        held.metadata.labels["a"] = "c"
    assert detector.mutated() == ["n/a", "n/early"]


def test_changes_tell_old_and_new_so_that_both_can_be_mapped(store: Store[Widget]) -> None:
    """Trap 49: a label moved from one parent to another leaves neither stale."""
    told = Told(store)
    store.apply(widget("a", 1, color="red"))
    store.apply(widget("a", 2, color="blue"))
    store.remove("n/a", "u-a", "3")
    assert told.take() == [(None, "red"), ("red", "blue"), ("blue", None)]
    assert store.version == 3


def test_an_index_bucket_is_the_same_tuple_until_one_of_its_objects_changes(store: Store[Widget]) -> None:
    for name in ("b", "a", "c"):
        store.apply(widget(name, 1, color="red"))
    store.apply(widget("z", 1, color="blue"))
    red, blue = store.by_index("color", "red"), store.by_index("color", "blue")
    assert [item.metadata.name for item in red] == ["a", "b", "c"]
    store.apply(widget("z", 2, color="green"))
    assert store.by_index("color", "red") is red
    assert store.by_index("color", "blue") == ()
    assert set(store.index_values("color")) == {"red", "green"}
    store.apply(widget("b", 2, color="red", labels={"x": "y"}))
    again = store.by_index("color", "red")
    assert again is not red
    assert again[0] is red[0]
    assert again[1].metadata.labels == {"x": "y"}
    store.remove("n/a", "u-a", "9")
    assert [item.metadata.name for item in store.by_index("color", "red")] == ["b", "c"]
    assert blue[0].metadata.name == "z"


def test_a_list_that_changes_nothing_leaves_every_tuple_as_it_is(store: Store[Widget]) -> None:
    store.replace({f"n/{name}": widget(name, 1, color="red") for name in "abc"}, "5")
    red, version = store.by_index("color", "red"), store.version
    store.replace({f"n/{name}": widget(name, 1, color="red") for name in "abc"}, "9")
    assert store.by_index("color", "red") is red
    assert store.version == version


def test_a_version_that_changed_nothing_we_read_keeps_the_object_and_tells_nobody(store: Store[Widget]) -> None:
    """A node's heartbeat: identity stays, only the version to send as a precondition is newer."""
    store.apply(widget("a", 5, color="red"))
    held, red, version = store.get("n/a"), store.by_index("color", "red"), store.version
    told = Told(store)
    store.apply(widget("a", 8, color="red"))
    assert store.get("n/a") is held
    assert store.by_index("color", "red") is red
    assert told.take() == []
    assert store.version == version
    assert store.resource_version("n/a") == "8"
    # And it counts in the order: what lies between is old.
    store.apply(widget("a", 7, color="blue"))
    assert store.get("n/a") is held


def test_metadata_that_changed_is_a_change(store: Store[Widget]) -> None:
    """Trap 54: a deletionTimestamp alone is one too."""
    told = Told(store)
    store.apply(widget("a", 1))
    for version, change in enumerate(
        [{"labels": {"a": "b"}}, {"generation": 2}, {"deletion_timestamp": "now"}], start=2
    ):
        store.apply(widget("a", version, **change))  # type: ignore[arg-type]
    assert len(told.take()) == 4


def test_an_own_answer_is_there_at_once_and_the_late_event_changes_nothing(store: Store[Widget]) -> None:
    """Trap 36: the next pass sees its own write."""
    store.apply(widget("a", 5, color="red"))
    told = Told(store)
    observed = store.observe(raw(widget("a", 9, color="blue")))
    assert store.get("n/a") is observed
    assert told.take() == [("red", "blue")]
    store.apply(widget("a", 7, color="green"))
    store.apply(widget("a", 9, color="blue"))
    assert store.get("n/a") is observed
    assert told.take() == []


def test_an_old_answer_is_returned_but_not_taken_in(store: Store[Widget]) -> None:
    store.apply(widget("a", 9, color="blue"))
    assert store.observe(raw(widget("a", 5, color="red"))).color == "red"
    held = store.get("n/a")
    assert held is not None
    assert held.color == "blue"


def test_versions_are_compared_as_numbers(store: Store[Widget]) -> None:
    store.apply(widget("a", 9, color="old"))
    store.apply(widget("a", 10, color="new"))
    held = store.get("n/a")
    assert held is not None
    assert held.color == "new"


def test_a_late_answer_revives_no_deleted_object(store: Store[Widget], clock: ManualClock) -> None:
    store.apply(widget("a", 5))
    store.remove("n/a", "u-a", "8")
    store.observe(raw(widget("a", 7)))
    assert store.get("n/a") is None
    store.apply(widget("b", 5))
    store.observe_deleted("n/b", "u-b")
    store.observe(raw(widget("b", 6)))
    store.apply(widget("b", 6))
    assert store.get("n/b") is None
    # Another object of that name is another matter.
    store.apply(widget("b", 9, uid="other"))
    assert store.get("n/b") is not None


def test_an_answer_about_what_came_and_went_unseen_is_not_taken_in(store: Store[Widget]) -> None:
    """Created at 12, deleted by somebody at 13; the list as of 14 knows nothing of it, and the answer of the create
    comes last.
    """
    store.replace({}, "14")
    store.observe(raw(widget("a", 12)))
    assert store.get("n/a") is None
    store.observe(raw(widget("a", 15)))
    assert store.get("n/a") is not None
    store.apply(widget("b", 20))
    store.observe(raw(widget("c", 19)))
    assert store.get("n/c") is None


def test_a_deletion_observed_twice_is_told_once_and_touches_no_successor(store: Store[Widget]) -> None:
    store.apply(widget("a", 5, color="red"))
    told = Told(store)
    store.observe_deleted("n/a", "u-a")
    store.remove("n/a", "u-a", "8")
    assert told.take() == [("red", None)]
    store.apply(widget("a", 9, uid="new"))
    store.observe_deleted("n/a", "u-a")
    store.remove("n/a", "u-a", "10")
    assert store.get("n/a") is not None


def test_an_object_that_left_the_selector_may_come_back(store: Store[Widget]) -> None:
    """Trap 37: DELETED of a selected watch means out of scope; the UID lives on."""
    store.apply(widget("a", 5))
    store.remove("n/a", "u-a", "6")
    store.observe(raw(widget("a", 6)))
    assert store.get("n/a") is None
    store.apply(widget("a", 9))
    assert store.get("n/a") is not None


def test_an_own_write_that_came_back_into_the_selector_outlives_the_older_leaving(store: Store[Widget]) -> None:
    store.apply(widget("a", 5))
    store.observe(raw(widget("a", 9)))
    store.remove("n/a", "u-a", "7")
    assert store.get("n/a") is not None


def test_another_uid_under_the_same_key_is_two_changes(store: Store[Widget]) -> None:
    """Trap 6."""
    told = Told(store)
    store.apply(widget("a", 5, color="red"))
    store.apply(widget("a", 9, uid="new", color="red"))
    assert told.take() == [(None, "red"), ("red", None), (None, "red")]
    store.observe(raw(widget("a", 8, color="late")))
    store.apply(widget("a", 20, color="impossible"))
    held = store.get("n/a")
    assert held is not None
    assert held.metadata.uid == "new-a"


def test_a_list_leaves_what_own_answers_know_better(store: Store[Widget]) -> None:
    """A list as of 10 says nothing of what was created at 12, changed at 11, or deleted since."""
    store.replace({"n/a": widget("a", 5, color="red"), "n/d": widget("d", 5)}, "8")
    store.observe(raw(widget("a", 11, color="blue")))
    store.observe(raw(widget("new", 12)))
    store.observe_deleted("n/d", "u-d")
    store.replace({"n/a": widget("a", 9, color="red"), "n/d": widget("d", 5)}, "10")
    held = store.get("n/a")
    assert held is not None
    assert held.color == "blue"
    assert sorted(store.keys()) == ["n/a", "n/new"]
    store.replace({"n/a": widget("a", 13, color="green")}, "14")
    assert list(store.keys()) == ["n/a"]


def test_when_history_went_back_the_list_is_the_truth(store: Store[Widget], caplog: pytest.LogCaptureFixture) -> None:
    """A cluster restored from a backup: versions start lower, the dead live."""
    store.replace({"n/a": widget("a", 90, color="new"), "n/b": widget("b", 90)}, "100")
    store.remove("n/b", "u-b", "105")
    with caplog.at_level(logging.WARNING):
        store.replace({"n/a": widget("a", 20, color="old"), "n/b": widget("b", 20)}, "30")
    assert "history went back" in caplog.text
    held = store.get("n/a")
    assert held is not None
    assert held.color == "old"
    assert store.get("n/b") is not None


def test_a_failing_handler_stops_neither_the_others_nor_the_store(
    store: Store[Widget], caplog: pytest.LogCaptureFixture
) -> None:
    """Trap 17: handlers run after objects and indexes changed."""
    seen: list[tuple[str, ...]] = []

    def fails(change: Change[Widget]) -> None:
        raise RuntimeError("a defect in a handler")

    store.subscribe(fails)
    store.subscribe(lambda _: seen.append(tuple(item.metadata.name for item in store.by_index("color", "red"))))
    store.apply(widget("a", 1, color="red"))
    store.apply(widget("b", 2, color="red"))
    assert seen == [("a",), ("a", "b")]
    assert "a defect in a handler" in caplog.text


def test_handlers_of_a_list_see_the_whole_new_picture(store: Store[Widget]) -> None:
    """Trap 7."""
    sizes: list[int] = []
    store.subscribe(lambda _: sizes.append(len(store)))
    store.replace({f"n/{name}": widget(name, 1) for name in "abc"}, "5")
    assert sizes == [3, 3, 3]


def test_a_failing_index_function_leaves_the_object_out_of_that_index_only(
    store: Store[Widget], caplog: pytest.LogCaptureFixture
) -> None:
    store.add_index("label", lambda item: [item.metadata.labels["must"]])
    store.apply(widget("a", 1, color="red"))
    store.apply(widget("a", 2, color="red", labels={"must": "have"}))
    assert len(store.by_index("label", "have")) == 1
    store.remove("n/a", "u-a", "3")
    assert store.by_index("label", "have") == ()
    assert "n/a" in caplog.text


def test_an_index_comes_before_the_first_object(store: Store[Widget]) -> None:
    store.apply(widget("a", 1))
    with pytest.raises(ValueError, match="late"):
        store.add_index("late", lambda item: [])
    with pytest.raises(KeyError):
        store.by_index("unknown", "x")


def test_tombstones_are_forgotten_when_no_answer_can_be_that_late(store: Store[Widget], clock: ManualClock) -> None:
    """Memory stays flat under churn."""
    for number in range(1000):
        store.apply(widget(f"w{number}", 10 * number + 1))
        store.remove(f"n/w{number}", f"u-w{number}", str(10 * number + 2))
        clock.time += LIFETIME_SECONDS / 100
    assert len(store._tombstones) <= 102


def test_a_million_updates_of_a_few_objects_leave_nothing_behind(store: Store[Widget]) -> None:
    """Trap 51, in small: what is kept grows with the keys, not with the updates."""
    keys: set[str] = set()
    store.subscribe(lambda change: keys.add((change.new or change.old).metadata.key))  # type: ignore[union-attr]
    for version in range(1, 20_001):
        store.apply(widget(f"w{version % 10}", version, color=str(version)))
    assert len(keys) == len(store) == 10
    assert len(store.index_values("color")) == 10
    assert len(store._indexes["color"]._tuples) <= 10
    assert len(store._versions) == 10
