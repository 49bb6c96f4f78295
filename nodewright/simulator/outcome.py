"""What came of a simulated rollout: per NodeWright how its nodes ended and why, per stage how long it took. Pure.

Made from a timeline and the objects as the API server had them at the end. `Outcome.to_plain` is the machine-readable
result, and the same seed gives the same bytes. Relied on by the summary, by `-o json` and by the report.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from nodewright.simulator.timeline import SUCCEEDED, Batch, Span, Timeline, Track

FORMAT = 1


class Ending(StrEnum):
    """Why the simulation ended."""

    COMPLETE = "complete"
    """Every selected node of every NodeWright is complete."""
    STUCK = "stuck"
    """Nothing happened any more, and nothing would without a person."""
    TIME = "time"
    """No stage succeeded for too long although things went on happening, or the time that was given is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFigures:
    """All attempts at one stage of one package; durations in virtual seconds, of successful attempts."""

    package: str
    version: str
    stage: str
    succeeded: int
    failed: int
    p50: float | None
    longest: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Attempts at one stage of one package that ended in the same way, wherever that was."""

    package: str
    version: str
    stage: str
    outcome: str
    """As in `Span.outcome`."""
    attempts: int
    nodes: tuple[str, ...]
    """In the order of their first failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A node that is not complete, and why. `since` in virtual seconds."""

    node: str
    status: str
    code: str
    text: str
    release: str
    since: float
    failures: tuple[Span, ...]
    """The attempts that failed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrOutcome:
    """One NodeWright."""

    name: str
    status: str
    conditions: tuple[Mapping[str, Any], ...]
    """Those that are true, and Ready."""
    finished_at: float | None
    """When its last node became complete; None if one is not."""
    counts: Mapping[str, int]
    batches: tuple[Batch, ...]
    stages: tuple[StageFigures, ...]
    failures: tuple[Failure, ...]
    unfinished: tuple[Unfinished, ...]

    @property
    def nodes(self) -> int:
        """How many it selected."""
        return sum(self.counts.values())

    @property
    def complete(self) -> bool:
        """Whether the operator says so."""
        return self.status == "complete"

    def condition(self, kind: str) -> str | None:
        """The message of a condition that is true."""
        for one in self.conditions:
            if one.get("type") == kind and one.get("status") == "True":
                return str(one.get("message", ""))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything."""

    seed: int
    nodes: int
    ending: Ending
    seconds: float
    """Virtual, until the last thing that happened."""
    crs: tuple[CrOutcome, ...]
    notes: tuple[str, ...] = ()
    unused_rules: tuple[str, ...] = ()
    """Rules of `--fail` that concerned nothing that ran."""

    @property
    def succeeded(self) -> bool:
        """Whether all is complete, and that was anything: a selector that no node has is more likely a mistake than a wish."""
        return self.ending is Ending.COMPLETE and any(cr.nodes for cr in self.crs)

    def to_plain(self) -> dict[str, Any]:
        """JSON values; the same seed gives the same."""
        return {
            "format": FORMAT,
            "seed": self.seed,
            "nodes": self.nodes,
            "ending": self.ending.value,
            "succeeded": self.succeeded,
            "virtualSeconds": round(self.seconds, 1),
            "notes": list(self.notes),
            "unusedRules": list(self.unused_rules),
            "nodewrights": [_plain(cr) for cr in self.crs],
        }


def _plain(cr: CrOutcome) -> dict[str, Any]:
    return {
        "name": cr.name,
        "status": cr.status,
        "finishedAt": None if cr.finished_at is None else round(cr.finished_at, 1),
        "nodes": dict(sorted(cr.counts.items())),
        "conditions": [
            {key: one.get(key, "") for key in ("type", "status", "reason", "message")} for one in cr.conditions
        ],
        "batches": [
            {"compartment": one.compartment, "number": one.number, "at": round(one.at, 1)} for one in cr.batches
        ],
        "stages": [
            {
                "package": one.package,
                "version": one.version,
                "stage": one.stage,
                "succeeded": one.succeeded,
                "failed": one.failed,
                "p50Seconds": one.p50,
                "maxSeconds": one.longest,
            }
            for one in cr.stages
        ],
        "failures": [
            {
                "package": one.package,
                "version": one.version,
                "stage": one.stage,
                "outcome": one.outcome,
                "attempts": one.attempts,
                "nodes": list(one.nodes),
            }
            for one in cr.failures
        ],
        "unfinished": [
            {
                "node": one.node,
                "status": one.status,
                "reason": one.code,
                "message": one.text,
                "release": one.release,
                "since": round(one.since, 1),
                "failures": [
                    {
                        "package": span.package,
                        "version": span.version,
                        "stage": span.stage,
                        "attempt": span.attempt,
                        "at": round(span.end or span.start, 1),
                        "outcome": span.outcome,
                    }
                    for span in one.failures
                ],
            }
            for one in cr.unfinished
        ],
    }


def of_any_node(text: str, node: str) -> str:
    """What is said of one node so that it reads the same for all of them: the node, and what is named after it, lose their names."""
    text = re.sub(rf"Job \S*{re.escape(node)}\S*", "its Job", text)
    return re.sub(rf"(?:node )?(?<![\w.-]){re.escape(node)}(?![\w.-])", "the node", text)


def cr_outcome(name: str, status: Mapping[str, Any], timeline: Timeline) -> CrOutcome:
    """One NodeWright's outcome, of its published status and the timeline."""
    tracks = timeline.tracks.get(name, {})
    finished = [track.last.at for track in tracks.values()]
    all_complete = all(track.complete for track in tracks.values())
    conditions = [
        one for one in status.get("conditions") or () if one.get("type") == "Ready" or one.get("status") == "True"
    ]
    return CrOutcome(
        name=name,
        status=str(status.get("status") or "unknown"),
        conditions=tuple(conditions),
        finished_at=max(finished, default=0.0) if all_complete else None,
        counts=timeline.counts(name),
        batches=tuple(batch for batch in timeline.batches if batch.cr == name),
        stages=tuple(_figures(timeline.spans(name))),
        failures=tuple(_failures(timeline.spans(name))),
        unfinished=tuple(_unfinished(node, track) for node, track in sorted(tracks.items()) if not track.complete),
    )


def _figures(spans: Iterable[Span]) -> Iterable[StageFigures]:
    groups: dict[tuple[str, str, str], list[Span]] = {}
    for span in spans:
        groups.setdefault((span.package, span.version, span.stage), []).append(span)
    for (package, version, stage), members in sorted(groups.items(), key=lambda one: min(s.start for s in one[1])):
        took = [round(s.end - s.start, 1) for s in members if s.end is not None and s.outcome == SUCCEEDED]
        yield StageFigures(
            package=package,
            version=version,
            stage=stage,
            succeeded=len(took),
            failed=sum(1 for s in members if s.failed),
            p50=round(median(took), 1) if took else None,
            longest=max(took) if took else None,
        )


def _failures(spans: Iterable[Span]) -> Iterable[Failure]:
    """Those of most nodes first."""
    groups: dict[tuple[str, str, str, str], list[Span]] = {}
    for span in sorted((one for one in spans if one.failed), key=lambda one: (one.start, one.node)):
        groups.setdefault((span.package, span.version, span.stage, span.outcome), []).append(span)
    found = [
        Failure(
            package=package,
            version=version,
            stage=stage,
            outcome=outcome,
            attempts=len(members),
            nodes=tuple(dict.fromkeys(one.node for one in members)),
        )
        for (package, version, stage, outcome), members in groups.items()
    ]
    return sorted(found, key=lambda one: -len(one.nodes))


def _unfinished(node: str, track: Track) -> Unfinished:
    last = track.last
    failures = tuple(span for span in track.spans if span.failed)
    return Unfinished(
        node=node,
        status=last.status,
        code=last.code,
        text=last.text,
        release=last.release,
        since=last.at,
        failures=failures,
    )
