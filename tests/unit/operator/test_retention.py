"""Finished Jobs are bounded (JOB-18)."""

from collections.abc import Iterable
from typing import Any, cast

import pytest

from controller_runtime.transport import TransportError
from nodewright.model.objects import Job
from nodewright.operator.retention import JobRetention
from tests.unit.operator.benchtop import Bench

pytestmark = pytest.mark.looptime


def oldest(jobs: Iterable[Job], retain: int) -> list[Job]:
    ordered = sorted(jobs, key=lambda job: job.metadata.name)
    return ordered[: max(len(ordered) - retain, 0)]


async def test_what_is_beyond_the_bound_goes_as_it_was_seen(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.add_job(name)
    retention = JobRetention(cast(Any, bench.api), bench.stores, retain=2, surplus=oldest)
    await retention.sweep()
    ((verb, where, preconditions),) = bench.api.writes()
    assert (verb, where) == ("delete", "jobs/a")
    assert preconditions["uid"] == "uid-a"
    assert preconditions["resourceVersion"]
    assert sorted(bench.stores.jobs.keys()) == ["nodewright/b", "nodewright/c"]
    await retention.sweep()
    assert len(bench.api.writes()) == 1


async def test_a_failure_leaves_the_rest_to_the_next_sweep(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.add_job(name)
    bench.api.fail_once("delete", "jobs/a", TransportError("cut", sent=None))
    retention = JobRetention(cast(Any, bench.api), bench.stores, retain=1, surplus=oldest)
    await retention.sweep()
    assert len(bench.stores.jobs.keys()) == 3
    await retention.sweep()
    assert sorted(bench.stores.jobs.keys()) == ["nodewright/c"]
