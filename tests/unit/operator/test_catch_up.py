"""A new leader knows the NodeWrights as they are now, whatever its watch has told so far (LIF-2)."""

import pytest

from controller_runtime.transport import TransportError
from nodewright.operator import resources
from nodewright.operator.catch_up import catch_up
from tests.unit.operator.benchtop import Bench

pytestmark = pytest.mark.looptime


async def test_a_new_leader_does_not_go_back_to_the_spec_of_a_moment_ago(bench: Bench) -> None:
    bench.add_cr("cr", priority=1)
    bench.add_cr("gone")
    del bench.api.objects["nodewrights", "gone"]
    bench.api.put(resources.NODEWRIGHT, {"metadata": {"name": "cr", "generation": 2}, "spec": {"priority": 2}})
    bench.api.put(resources.NODEWRIGHT, {"metadata": {"name": "new", "generation": 1}, "spec": {}})
    await catch_up(bench.api, bench.stores)
    assert sorted(bench.stores.nodewrights.keys()) == ["cr", "new"]
    spec = bench.cr().spec
    assert spec is not None
    assert spec.priority == 2


async def test_it_waits_for_an_api_server_that_is_away(bench: Bench) -> None:
    bench.add_cr()
    for _ in range(5):
        bench.api.fail_once("list", "nodewrights", TransportError("cut", sent=None))
    await catch_up(bench.api, bench.stores)
    assert [verb for verb, _, _ in bench.api.log] == ["list"] * 6


async def test_one_that_cannot_be_read_keeps_nobody_from_leading(bench: Bench) -> None:
    # trap 50, LIF-4
    bench.add_cr()
    bench.api.put(resources.NODEWRIGHT, {"metadata": {"name": "broken", "generation": "one"}})
    await catch_up(bench.api, bench.stores)
    assert list(bench.stores.nodewrights.keys()) == ["cr"]
