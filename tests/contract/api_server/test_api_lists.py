"""Claims about lists: pages, versions, selectors, forms."""

from __future__ import annotations

import pytest

from tests.contract.api_server.backends import Api


@pytest.fixture
async def five(api: Api) -> Api:
    """Config maps `m-0` to `m-4`, the even ones with the label `even`."""
    for number in range(5):
        labels = {"claims": "five"} | ({"even": "yes"} if number % 2 == 0 else {})
        await api.made(api.config_maps(), {"metadata": {"name": f"m-{number}", "labels": labels}})
    return api


def _names(body: dict[str, object]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]  # type: ignore[attr-defined]


async def test_a_list_is_of_one_version_and_sorted_by_name(five: Api) -> None:
    listed = await five.get(five.config_maps(), labelSelector="claims=five")
    assert listed.body["kind"] == "ConfigMapList"
    assert listed.body["apiVersion"] == "v1"
    assert listed.version.isdigit()
    assert _names(listed.body) == [f"m-{number}" for number in range(5)]
    assert "kind" not in listed.body["items"][0], "items of built-in kinds do not repeat the kind"


async def test_pages_are_of_one_moment(five: Api) -> None:
    first = await five.get(five.config_maps(), labelSelector="claims=five", limit="2")
    assert _names(first.body) == ["m-0", "m-1"]
    token = first.body["metadata"]["continue"]
    await five.made(five.config_maps(), {"metadata": {"name": "m-2a", "labels": {"claims": "five"}}})
    await five.delete(five.config_maps("m-3"))
    second = await five.get(five.config_maps(), labelSelector="claims=five", limit="2", continue_=token)
    assert _names(second.body) == ["m-2", "m-3"]
    assert second.version == first.version
    last = await five.get(
        five.config_maps(), labelSelector="claims=five", limit="2", continue_=second.body["metadata"]["continue"]
    )
    assert _names(last.body) == ["m-4"]
    assert "continue" not in last.body["metadata"]


async def test_a_page_without_selectors_tells_how_many_remain(five: Api) -> None:
    everything = await five.get(five.config_maps())
    first = await five.get(five.config_maps(), limit="2")
    assert first.body["metadata"]["remainingItemCount"] == len(everything.body["items"]) - 2


async def test_a_broken_token_is_400(five: Api) -> None:
    refused = await five.get(five.config_maps(), limit="2", continue_="nonsense!")
    assert (refused.status, refused.reason) == (400, "BadRequest")


async def test_an_exact_version_is_answered_as_it_was(five: Api) -> None:
    before = await five.get(five.config_maps(), labelSelector="claims=five")
    await five.delete(five.config_maps("m-0"))
    await five.merge(five.config_maps("m-1"), {"data": {"k": "v"}})
    past = await five.get(
        five.config_maps(), labelSelector="claims=five", resourceVersion=before.version, resourceVersionMatch="Exact"
    )
    assert past.body["items"] == before.body["items"]
    newest = await five.get(
        five.config_maps(),
        labelSelector="claims=five",
        resourceVersion=before.version,
        resourceVersionMatch="NotOlderThan",
    )
    assert "m-0" not in _names(newest.body)


@pytest.mark.parametrize(
    "query",
    [
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"resourceVersionMatch": "Sometimes", "resourceVersion": "1"},
    ],
)
async def test_options_that_do_not_go_together_are_422(api: Api, query: dict[str, str]) -> None:
    refused = await api.get(api.config_maps(), **query)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes[0][1] == "resourceVersionMatch"
    assert refused.message.startswith('ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: ')


async def test_the_future_is_504(api: Api) -> None:
    """Trap 3: a server that is behind."""
    asked = "9000000000000"
    refused = await api.get(api.config_maps(), resourceVersion=asked, resourceVersionMatch="NotOlderThan")
    assert (refused.status, refused.reason) == (504, "Timeout")
    assert refused.message.startswith(f"Timeout: Too large resource version: {asked}, current: ")
    assert refused.causes == [("ResourceVersionTooLarge", "")]
    assert refused.headers["retry-after"] == "1"


async def test_labels_select(five: Api) -> None:
    for selector, wanted in (
        ("claims=five,even=yes", ["m-0", "m-2", "m-4"]),
        ("claims=five,!even", ["m-1", "m-3"]),
        ("claims in (five,six),even!=yes", ["m-1", "m-3"]),
    ):
        assert _names((await five.get(five.config_maps(), labelSelector=selector)).body) == wanted
    refused = await five.get(five.config_maps(), labelSelector="a in b")
    assert (refused.status, refused.reason) == (400, "BadRequest")


async def test_fields_select(five: Api) -> None:
    assert _names((await five.get(five.config_maps(), fieldSelector="metadata.name=m-3")).body) == ["m-3"]
    others = await five.get(five.config_maps(), labelSelector="claims", fieldSelector="metadata.name!=m-3")
    assert _names(others.body) == ["m-0", "m-1", "m-2", "m-4"]


async def test_fields_that_cannot_be_selected_by_are_400(api: Api) -> None:
    plain = await api.get(api.config_maps(), fieldSelector="data.x=1")
    assert (plain.status, plain.reason) == (400, "BadRequest")
    assert '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"' in plain.message
    pods = await api.get(api.pods(), fieldSelector="spec.volumes=1")
    assert "field label not supported: spec.volumes" in pods.message
    jobs = await api.get(api.jobs(), fieldSelector="spec.suspend=true")
    assert 'field label "spec.suspend" not supported for Job' in jobs.message


async def test_pods_are_selected_by_node_and_phase(api: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}]}
    await api.made(api.pods(), {"metadata": {"name": "a"}, "spec": {**spec, "nodeName": "nowhere"}})
    await api.made(api.pods(), {"metadata": {"name": "b"}, "spec": spec})
    assert _names((await api.get(api.pods(), fieldSelector="spec.nodeName=nowhere")).body) == ["a"]
    assert _names((await api.get(api.pods(), fieldSelector="spec.nodeName=,status.phase=Pending")).body) == ["b"]
    await api.delete(api.pods("a"), {"gracePeriodSeconds": 0})


async def test_a_list_over_all_namespaces_sees_this_one(five: Api) -> None:
    listed = await five.get("/api/v1/configmaps", labelSelector="claims=five,even")
    mine = [
        item["metadata"]["name"] for item in listed.body["items"] if item["metadata"]["namespace"] == five.namespace
    ]
    assert mine == ["m-0", "m-2", "m-4"]


async def test_a_table_is_answered_where_one_is_asked_for(five: Api) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    table = await five.call("GET", five.config_maps(), accept=accept, labelSelector="even")
    assert table.body["kind"] == "Table"
    assert [column["name"] for column in table.body["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][:2] for row in table.body["rows"]] == [["m-0", 0], ["m-2", 0], ["m-4", 0]]
    assert table.body["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
