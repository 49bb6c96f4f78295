"""Makes a failing scenario short: leaves out happenings, rules, nodes and NodeWrights for as long as the same claim is still broken.

Bounded by time, since each try is a whole run. Relied on by the command.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.simulation.scenario import Scenario
from tests.simulation.world import Report, play

SECONDS = 120.0


def shrunk(
    scenario: Scenario, *, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic
) -> tuple[Scenario, Report]:
    """A scenario that breaks the same claim with as little as was found in time, and how it goes."""
    deadline = clock() + seconds
    best, report = scenario, play(scenario)
    if not report.failed:
        raise ValueError(f"seed {scenario.seed} does not fail")
    kind, progress = report.kind, True

    def still(candidate: Scenario) -> bool:
        """Whether the candidate breaks the same claim; then it is the best one."""
        nonlocal best, report, progress
        if clock() > deadline:
            return False
        tried = play(candidate)
        if tried.kind != kind:
            return False
        best, report, progress = candidate, tried, True
        return True

    while progress and clock() <= deadline:
        progress = False
        size = max(1, len(best.happenings) // 2)
        while size >= 1:
            begin = 0
            while begin < len(best.happenings):
                kept = best.happenings[:begin] + best.happenings[begin + size :]
                if not still(best.without(kept)):
                    begin += size
            size //= 2
        while any(still(candidate) for candidate in _smaller(best)):
            continue
    return best, report


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """What is next to be tried beside its happenings."""
    happenings = scenario.happenings
    if scenario.rules:
        yield replace(scenario, rules=[])
        for index in range(len(scenario.rules)):
            yield replace(scenario, rules=scenario.rules[:index] + scenario.rules[index + 1 :])
    if scenario.deletes:
        yield replace(scenario, deletes=False)
    if scenario.operators > 1 and all(one.get("operator", 0) == 0 for one in happenings):
        yield replace(scenario, operators=1)
    if scenario.elect and scenario.operators == 1:
        yield replace(scenario, elect=False)
    for name in list(scenario.crs):
        if len(scenario.crs) > 1 and all(one.get("cr") != name for one in happenings):
            yield replace(scenario, crs={key: spec for key, spec in scenario.crs.items() if key != name})
    for node in reversed(scenario.nodes):
        if len(scenario.nodes) > 1 and all(one.get("node") != node for one in happenings):
            yield replace(scenario, nodes=[one for one in scenario.nodes if one != node])
    yield from _simpler_specs(scenario)


def _simpler_specs(scenario: Scenario) -> Iterator[Scenario]:
    for name, spec in scenario.crs.items():
        packages: dict[str, Any] = spec["packages"]
        needed = {other for fields in packages.values() for other in fields.get("dependsOn", {})}
        for package in packages:
            edited = any(package in one.get("spec", {}).get("packages", {}) for one in scenario.happenings)
            if len(packages) > 1 and package not in needed and not edited:
                fewer = {key: fields for key, fields in packages.items() if key != package}
                yield replace(scenario, crs={**scenario.crs, name: {**spec, "packages": fewer}})
        for field in ("interruptionBudget", "serial", "sequencing"):
            if spec.get(field):
                rest = {key: value for key, value in spec.items() if key != field}
                yield replace(scenario, crs={**scenario.crs, name: rest})
