"""What the benchmark counts: requests from an audit log, and targets from what was measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.audit import count, requests_of
from tests.benchmarks.cases import parse_cases
from tests.benchmarks.floor_run import MeasuredFloor
from tests.benchmarks.rollout import RolloutResult
from tests.benchmarks.targets import CaseResult, targets_of

OPERATOR = "system:serviceaccount:nodewright:nodewright-operator"


def line(number: int, verb: str, resource: str = "nodes", *, user: str = OPERATOR, at: str = "10", **more: Any) -> str:
    entry = {
        "auditID": f"id-{number}",
        "verb": verb,
        "user": {"username": user},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{at}.000000Z",
        "objectRef": {"resource": resource, **more},
        "responseStatus": {"code": 200},
    }
    return json.dumps(entry) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def test_a_watch_that_is_logged_twice_is_one_request(log: Path) -> None:
    log.write_text(line(1, "watch") + line(1, "watch") + line(2, "watch"))
    assert count(requests_of(log, OPERATOR)) == {"watch nodes": 2}


def test_only_the_users_own_requests_count_also_where_another_names_it(log: Path) -> None:
    log.write_text(line(1, "patch") + line(2, "patch", user="admin", name=OPERATOR))
    assert count(requests_of(log, OPERATOR)) == {"patch nodes": 1}


def test_subresources_are_counted_apart_and_a_line_still_being_written_is_left_out(log: Path) -> None:
    log.write_text(line(1, "patch", subresource="status") + line(2, "patch") + line(3, "patch")[:40])
    found = requests_of(log, OPERATOR)
    assert count(found) == {"patch nodes/status": 1, "patch nodes": 1}
    assert all(one.is_write for one in found)


def test_what_came_before_a_moment_is_left_out(log: Path) -> None:
    log.write_text(line(1, "get", at="10") + line(2, "update", at="20"))
    first, second = requests_of(log, OPERATOR)
    assert requests_of(log, OPERATOR, since=second.received) == [second]
    assert first.received < second.received


def result(name: str, **changes: Any) -> CaseResult:
    measured: dict[str, Any] = {
        "wall_seconds": 10.0, "cpu_seconds": 5.0, "start_cpu_seconds": 1.0, "idle_seconds": 30.0, "idle_cpu_seconds": 0.2,
        "peak_rss_mib": 80.0, "requests": {}, "idle_requests": {"update leases": 15, "watch nodes": 1}, "refused": {},
        "servers_cpu_seconds": {}, "all_cpu_seconds": 13.0, "strangers": 0.0, "writes_per_node": 12.5, "late_writes": {},
    }  # fmt: skip
    floor = MeasuredFloor(
        wall_seconds=8.0, cpu_seconds=1.0, servers_cpu_seconds={}, all_cpu_seconds=10.0, strangers=0.0
    )
    return CaseResult(case=parse_cases(name)[0], rollout=RolloutResult(**(measured | changes)), floor=floor)


def test_the_lease_and_watches_are_silence_and_anything_else_is_not() -> None:
    quiet, loud = result("100"), result("100", idle_requests={"update leases": 15, "patch nodes": 1})
    text = "idle requests but lease and watches"
    assert [target.reached for one in (quiet, loud) for target in targets_of([one]) if target.text == text] == [
        True,
        False,
    ]


def test_idle_cpu_is_a_minutes_however_long_was_watched() -> None:
    (target,) = [it for it in targets_of([result("100", idle_cpu_seconds=0.3)]) if it.text.startswith("idle CPU")]
    assert target.value == pytest.approx(0.6)
    assert not target.reached


def test_twice_the_nodes_are_compared_where_both_were_measured() -> None:
    results = [result("500"), result("1000", wall_seconds=23.0)]
    doubled = {target.text: target for target in targets_of(results) if target.case == "500→1000"}
    assert doubled["wall for twice the nodes"].value == pytest.approx(2.3)
    assert not doubled["wall for twice the nodes"].reached
    assert not [target for target in targets_of(results[:1]) if "→" in target.case]


def test_a_case_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="'ten' is no case"):
        parse_cases("10,ten")


def test_packages_of_a_chain_wait_for_one_another() -> None:
    packages = parse_cases("chained")[0].manifest()["spec"]["packages"]
    assert [package.get("dependsOn") for package in packages.values()] == [None, {"alpha": "1.0.0"}, {"beta": "1.0.0"}]
