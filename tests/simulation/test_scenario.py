"""What seeds draw: everything the simulation promises does happen, since a claim about what never happens cannot fail."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.faults import _REASONS
from tests.simulation.happenings import Happenings
from tests.simulation.plants import PLANTS
from tests.simulation.scenario import EFFECTS, Scenario, draw

DRAWN = [draw(seed) for seed in range(300)]
OFTEN_ENOUGH = 9
"""Of 300 scenarios so many have each of what can happen: 500 seeds in CI then play it fifteen times."""


def in_so_many(*wanted: tuple[str, object]) -> int:
    """How many scenarios have a happening with these fields."""
    return sum(any(all(h.get(k) == v for k, v in wanted) for h in one.happenings) for one in DRAWN)


@pytest.mark.parametrize(
    "what",
    ["cut", "end", "silence", "lag", "expire", "deaf", "freeze", "kill", "restart", "jump", "node-gone", "reboot", "kubelet-down",
     "taint", "ignore", "relabel", "cordon", "delete-job", "delete-pod", "delete-configmap", "edit", "order", "reset", "rerun",
     "touch", "touch-status", "burst", "recreate"],
)  # fmt: skip
def test_each_happening_is_drawn(what: str) -> None:
    assert in_so_many(("do", what)) >= OFTEN_ENOUGH


def test_the_list_of_happenings_is_whole() -> None:
    """A simulation can play nothing else than what the test above counts, and faults."""
    played = {name.removeprefix("_do_").replace("_", "-") for name in dir(Happenings) if name.startswith("_do_")}
    listed = set(test_each_happening_is_drawn.pytestmark[0].args[1])  # type: ignore[attr-defined]
    assert played == listed | {"fault"}


@pytest.mark.parametrize("effect", [*EFFECTS, "403", "410", "422"])
def test_each_answer_is_drawn(effect: str) -> None:
    """Lost before and after the write, refused, throttled, broken, late, and never."""
    assert in_so_many(("do", "fault"), ("effect", effect)) >= OFTEN_ENOUGH


def test_each_refusal_is_drawn() -> None:
    answers = {
        int(code) for effect in (*EFFECTS, "403", "410", "422") if (code := effect.removesuffix("-after")).isdigit()
    }
    assert set(_REASONS) == answers


@pytest.mark.parametrize("who", ["operator", "kubelet", "controllers"])
@pytest.mark.parametrize("method", ["", "PATCH", "POST", "DELETE"])
def test_each_kind_of_request_fails(who: str, method: str) -> None:
    least = OFTEN_ENOUGH if who == "operator" else 3
    assert in_so_many(("do", "fault"), ("who", who), ("method", method)) >= least


@pytest.mark.parametrize("method", ["GET"])
def test_reading_fails(method: str) -> None:
    assert in_so_many(("do", "fault"), ("who", "operator"), ("method", method)) >= OFTEN_ENOUGH


@pytest.mark.parametrize(
    "fragment",
    ["fail=1", "fail=3", "oom", "status_unknown", "evict", "refuse_admission", "reboot", "succeed", "pull_failure"],
)
def test_each_end_of_a_container_is_drawn(fragment: str) -> None:
    assert sum(any(fragment in rule for rule in one.rules) for one in DRAWN) >= OFTEN_ENOUGH


@pytest.mark.parametrize(
    "field",
    ["version", "interruptionBudget", "serial", "sequencing", "priority", "image", "env", "packages.zz"],
)
def test_each_edit_is_drawn(field: str) -> None:
    found = 0
    for one in DRAWN:
        edits = [h["spec"] for h in one.happenings if h["do"] == "edit"]
        inner = field.rpartition(".")[2]
        found += any(re.search(f'"{inner}"', json.dumps(edit)) is not None for edit in edits)
    assert found >= OFTEN_ENOUGH


def test_kinds_of_clusters_and_settings_are_drawn() -> None:
    count: Counter[str] = Counter()
    for one in DRAWN:
        count["two operators"] += one.operators == 2
        count["one operator, no lease"] += not one.elect
        count["one operator with a lease"] += one.elect and one.operators == 1
        count["deleted at the end"] += one.deletes
        count["several CRs"] += len(one.crs) > 1
        count["many nodes"] += len(one.nodes) >= 6
        for spec in one.crs.values():
            count["no budget"] += "interruptionBudget" not in spec
            count["percent"] += "percent" in spec.get("interruptionBudget", {})
            count["serial"] += spec["serial"]
            count["sequencing all"] += spec["sequencing"] == "all"
            count["dependencies"] += any("dependsOn" in package for package in spec["packages"].values())
            count["configMap"] += any("configMap" in package for package in spec["packages"].values())
        count["no back-off"] += one.settings["job_backoff_limit"] == 0
    assert min(count.values()) >= OFTEN_ENOUGH, count


def test_a_seed_draws_the_same_again_and_reads_back_from_its_file(tmp_path: Path) -> None:
    for one in DRAWN[:20]:
        path = tmp_path / "kept.json"
        path.write_text(one.to_json(), encoding="utf-8")
        assert Scenario.load(path) == one == draw(one.seed)


def test_there_are_as_many_plants_as_the_note_says() -> None:
    note = (Path(__file__).parents[2] / "docs" / "design" / "simulation.md").read_text(encoding="utf-8")
    assert f"{len(PLANTS)} planted bugs" in note
