"""Claims about printer columns: durations, JSON paths, rows of kinds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controller_runtime.testing.api_server import json_path
from controller_runtime.testing.api_server.columns import human_duration

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (11460, "3h11m"),
        (28800, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (180000, "2d2h"),
        (691200, "8d"),
        (63071999, "729d"),
        (63072000, "2y"),
        (65000000, "2y22d"),
    ],
)
def test_a_duration_is_rounded_as_kubectl_shows_it(seconds: int, text: str) -> None:
    since = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert human_duration(since, NOW) == text


ITEM = {
    "spec": {"a.b": 1, "list": [{"n": "x"}, {"n": "y"}], "flag": True},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.flag", [True]),
        (r".spec.a\.b", [1]),
        (".spec['a.b']", [1]),
        (".spec.list[1].n", ["y"]),
        (".spec.list[*].n", ["x", "y"]),
        (".spec.list[-1].n", ["y"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        ('.status.conditions[?(@.type!="Ready")].status', ["False"]),
        ("{.spec.flag}", [True]),
        (".spec.nothing.at.all", []),
        (".spec.list[9]", []),
        (".spec[broken", []),
    ],
)
def test_a_column_finds_its_value(path: str, found: list[object]) -> None:
    assert json_path.find(ITEM, path) == found
