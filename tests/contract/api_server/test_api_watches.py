"""Claims about watches: order, selection, bookmarks, streaming lists, ends, and what is forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api_server.backends import Answer, Api, InProcess

STREAM = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


async def _map(api: Api, name: str, **labels: str) -> Answer:
    return await api.made(api.config_maps(), {"metadata": {"name": name, "labels": {"claims": "watch", **labels}}})


def _told(event: dict[str, Any] | None) -> tuple[str, str]:
    assert event is not None
    return event["type"], event["object"]["metadata"].get("name", "")


async def test_changes_after_a_version_come_in_order(api: Api) -> None:
    first = await _map(api, "a")
    await _map(api, "b")
    changed = await api.merge(api.config_maps("a"), {"data": {"k": "v"}})
    await api.delete(api.config_maps("b"))
    events = await api.watch(api.config_maps(), resourceVersion=first.version, labelSelector="claims=watch")
    assert _told(await events.next()) == ("ADDED", "b")
    event = await events.next()
    assert _told(event) == ("MODIFIED", "a")
    assert event is not None
    assert event["object"] == changed.body
    assert _told(await events.next()) == ("DELETED", "b")


async def test_a_deletion_is_told_under_its_own_version(api: Api) -> None:
    made = await _map(api, "a")
    events = await api.watch(api.config_maps(), resourceVersion=made.version, labelSelector="claims=watch")
    await api.delete(api.config_maps("a"))
    event = await events.next()
    assert event is not None
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(made.version)
    assert event["object"]["metadata"]["uid"] == made.uid


async def test_leaving_a_selection_is_a_deletion_and_entering_an_addition(api: Api) -> None:
    """Trap 37."""
    made = await _map(api, "a", color="red")
    events = await api.watch(api.config_maps(), resourceVersion=made.version, labelSelector="color=red")
    left = await api.merge(api.config_maps("a"), {"metadata": {"labels": {"color": "blue"}}})
    event = await events.next()
    assert _told(event) == ("DELETED", "a")
    assert event is not None
    assert event["object"]["metadata"]["labels"]["color"] == "red", "the last state inside the selection"
    assert event["object"]["metadata"]["resourceVersion"] == left.version
    await api.merge(api.config_maps("a"), {"data": {"k": "unseen"}})
    await api.merge(api.config_maps("a"), {"metadata": {"labels": {"color": "red"}}})
    assert _told(await events.next()) == ("ADDED", "a")


async def test_a_watch_of_pods_is_selected_by_node(api: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}]}
    other = await api.made(api.pods(), {"metadata": {"name": "other"}, "spec": {**spec, "nodeName": "elsewhere"}})
    events = await api.watch(api.pods(), resourceVersion=other.version, fieldSelector="spec.nodeName=nowhere")
    await api.merge(api.pods("other"), {"metadata": {"labels": {"k": "v"}}})
    await api.made(api.pods(), {"metadata": {"name": "a"}, "spec": {**spec, "nodeName": "nowhere"}})
    assert _told(await events.next()) == ("ADDED", "a")
    for name in ("a", "other"):
        await api.delete(api.pods(name), {"gracePeriodSeconds": 0})


async def test_without_a_version_the_state_comes_first(api: Api) -> None:
    await _map(api, "b")
    await _map(api, "a")
    events = await api.watch(api.config_maps(), labelSelector="claims=watch")
    assert sorted([_told(await events.next()), _told(await events.next())]) == [("ADDED", "a"), ("ADDED", "b")]
    await _map(api, "c")
    assert _told(await events.next()) == ("ADDED", "c")


async def test_a_streaming_list_ends_with_a_marked_bookmark(api: Api) -> None:
    made = await _map(api, "a")
    events = await api.watch(api.config_maps(), labelSelector="claims=watch", **STREAM)
    assert _told(await events.next()) == ("ADDED", "a")
    bookmark = await events.next()
    assert bookmark is not None
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "ConfigMap"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= int(made.version)
    await _map(api, "b")
    assert _told(await events.next()) == ("ADDED", "b")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"sendInitialEvents": "true"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"}, "resourceVersionMatch"),
    ],
)
async def test_options_of_watches_that_do_not_go_together_are_422(api: Api, query: dict[str, str], field: str) -> None:
    opened = await api.backend.open(api.config_maps(), query)
    assert isinstance(opened, Answer)
    assert (opened.status, opened.reason) == (422, "Invalid")
    assert field in [where for _, where in opened.causes]


async def test_a_watch_ends_in_good_order_after_its_time(api: Api) -> None:
    made = await _map(api, "a")
    events = await api.watch(api.config_maps(), resourceVersion=made.version, timeoutSeconds="1")
    while (event := await events.next()) is not None:
        assert event["object"]["metadata"]["name"] != "a"


async def test_a_forgotten_version_is_an_error_event_with_410(api: Api) -> None:
    """Trap 2."""
    if isinstance(api.backend, InProcess):
        api.backend.server.expire_window()
    elif api.backend.embedded:
        pytest.skip("its window cannot be expired from outside")
    else:
        pytest.skip("a young cluster has forgotten nothing; the compaction of etcd takes minutes")
    events = await api.watch(api.config_maps(), resourceVersion="1")
    event = await events.next()
    assert event is not None
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410
    assert event["object"]["reason"] == "Expired"
    assert event["object"]["message"].startswith("too old resource version: 1 (")
    assert await events.next() is None


async def test_a_watch_of_one_object_sees_only_it(api: Api) -> None:
    made = await _map(api, "a")
    events = await api.watch(api.config_maps(), resourceVersion=made.version, fieldSelector="metadata.name=a")
    await _map(api, "b")
    await api.merge(api.config_maps("a"), {"data": {"k": "v"}})
    assert _told(await events.next()) == ("MODIFIED", "a")


async def test_a_streaming_list_of_the_future_is_an_error_event(api: Api) -> None:
    events = await api.watch(api.config_maps(), resourceVersion="9000000000000", **STREAM)
    event = await events.next()
    assert event is not None
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 504, "Timeout")
    assert event["object"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
