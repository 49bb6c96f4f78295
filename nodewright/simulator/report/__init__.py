"""The report: one self-contained page that draws a simulated rollout. Nothing in it is fetched from anywhere.

A template, a style sheet and a script stand beside this module; the rollout goes in as one JSON text, with packages and
reasons as indexes into tables, so that a thousand nodes take about a megabyte. `nodewright simulate --report` relies on it.
"""

import html
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

import msgspec

from nodewright.simulator.outcome import CrOutcome, Outcome, of_any_node
from nodewright.simulator.timeline import Timeline, Track

FORMAT: Final = 1


def render(outcome: Outcome, timeline: Timeline, *, title: str) -> str:
    """The page."""
    parts = files(__name__)
    text = {name: parts.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")}
    blob = msgspec.json.encode(blob_of(outcome, timeline, title=title)).decode()
    # Within a script element only these letters could end it.
    safe = blob.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    page = text["page.html"]
    for mark, value in (
        ("{{title}}", html.escape(title)),
        ("{{style}}", text["page.css"]),
        ("{{script}}", text["page.js"]),
        ("{{blob}}", safe),
    ):
        page = page.replace(mark, value, 1)
    return page


def blob_of(outcome: Outcome, timeline: Timeline, *, title: str) -> dict[str, Any]:
    """What the script draws: see `page.js` for who reads what. Times are virtual seconds."""
    reasons = _Table()
    return {
        "format": FORMAT,
        "title": title,
        "seed": outcome.seed,
        "succeeded": outcome.succeeded,
        "ending": outcome.ending.value,
        "end": round(max(outcome.seconds, 1.0), 1),
        "notes": [*outcome.notes, *(f"--fail {rule} concerned nothing that ran" for rule in outcome.unused_rules)],
        "crs": [_cr(cr, timeline.tracks.get(cr.name, {}), outcome, reasons) for cr in outcome.crs],
        "reasons": reasons.rows,
    }


class _Table:
    """Texts by number: most nodes wait for the same."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []
        self._numbers: dict[tuple[str, str, str], int] = {}

    def number(self, *row: str) -> int:
        key = (row[0], row[1], row[2])
        if key not in self._numbers:
            self._numbers[key] = len(self.rows)
            self.rows.append(key)
        return self._numbers[key]


def _cr(cr: CrOutcome, tracks: Mapping[str, Track], outcome: Outcome, reasons: _Table) -> dict[str, Any]:
    packages = list(dict.fromkeys((one.package, one.version) for one in cr.stages))
    stages = list(dict.fromkeys(one.stage for one in cr.stages))
    order = {one: number for number, one in enumerate(packages)}
    return {
        "name": cr.name,
        "status": cr.status,
        "finishedAt": cr.finished_at,
        "packages": [f"{name} {version}" for name, version in packages],
        "stages": stages,
        "figures": [
            [order[one.package, one.version], stages.index(one.stage), one.succeeded, one.failed, one.p50, one.longest]
            for one in cr.stages
        ],
        "conditions": [[one.get("type"), one.get("status"), one.get("message", "")] for one in cr.conditions],
        "batches": [[round(one.at, 1), one.number, one.compartment] for one in cr.batches],
        "nodes": [
            _node(name, track, order, stages, reasons, outcome.seconds) for name, track in sorted(tracks.items())
        ],
    }


def _node(
    name: str,
    track: Track,
    order: Mapping[tuple[str, str], int],
    stages: list[str],
    reasons: _Table,
    end: float,
) -> list[Any]:
    """Name, batch, compartment, spans, sayings."""
    spans = [
        [
            order[span.package, span.version],
            stages.index(span.stage),
            span.attempt,
            round(span.start, 1),
            round(end if span.end is None else span.end, 1),
            span.outcome if span.end is not None else "",
        ]
        for span in track.spans
    ]
    sayings = [
        [
            round(one.at, 1),
            one.status,
            reasons.number(one.code, of_any_node(one.text, name), of_any_node(one.release, name)),
        ]
        for one in track.sayings
    ]
    return [name, track.batch, track.compartment, spans, sayings]
