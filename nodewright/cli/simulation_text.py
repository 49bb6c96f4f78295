"""What `nodewright simulate` says in a terminal: lines with virtual times, or a live table, and the summary at the end.

Relies on rich and on the simulation's values. Nothing here decides anything.
"""

import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nodewright.simulator.made_nodes import counted
from nodewright.simulator.outcome import CrOutcome, Ending, Failure, Outcome, Unfinished, of_any_node
from nodewright.simulator.timeline import COMPLETE, Batch, Saying, Span, Timeline

SHOWN: Final = 10
"""So many failures, and so many nodes that are not complete, are told one by one."""
_DEFAULT: Final = "__default__"
_REFRESH_SECONDS: Final = 0.1
_ROOMY: Final = 75
"""Columns of a terminal that has room for whole headings."""
_STYLES: Final = {
    "complete": "green",
    "in_progress": "cyan",
    "waiting": "yellow",
    "blocked": "yellow",
    "erroring": "bold red",
    "paused": "yellow",
    "disabled": "dim",
    "unknown": "dim",
}


def clock(seconds: float) -> str:
    """`1:02:03`."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def span_of_time(seconds: float) -> str:
    """`1h 02m`, `2m 03s`, `4.5s`."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole // 60 % 60:02d}m"


class Lines:
    """A line for each thing that a person would want to know: batches, tenths of progress, failures. A `Listener`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._timeline: Timeline | None = None
        self._failures = 0
        self._tenths: dict[str, int] = {}
        self._complete: dict[str, set[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def began(self, timeline: Timeline) -> None:
        """All is ready."""
        self._timeline = timeline

    def batch(self, batch: Batch) -> None:
        """A batch begins."""
        where = "" if batch.compartment == _DEFAULT else f" of compartment {batch.compartment}"
        self._say(batch.at, f"{batch.cr}: batch {batch.number}{where} begins")

    def said(self, at: float, cr: str, node: str, saying: Saying) -> None:
        """Tell each tenth of all nodes that are complete."""
        complete = self._complete.setdefault(cr, set())
        if saying.status != COMPLETE:
            complete.discard(node)
            return
        complete.add(node)
        assert self._timeline is not None
        total = len(self._timeline.tracks[cr])
        tenth = 10 * len(complete) // total
        if tenth > self._tenths.get(cr, 0):
            self._tenths[cr] = tenth
            self._say(at, f"{cr}: {len(complete)}/{total} nodes complete")

    def ended(self, at: float, span: Span) -> None:
        """Tell failures, the first ones."""
        if not span.failed:
            return
        self._failures += 1
        if self._failures <= SHOWN:
            self._say(at, f"{span.cr}: {told(span)} on {span.node}", style="red")
        if self._failures == SHOWN:
            self._say(at, "further failures are counted in the summary only")

    def looked(self, at: float) -> None:
        """Nothing to say."""

    def _say(self, at: float, text: str, *, style: str = "") -> None:
        self._console.print(f"{clock(at):>8}  {text}", style=style, soft_wrap=True, highlight=False, markup=False)


class LiveTable:
    """A table that is redrawn, with a bar for each compartment of each NodeWright. A `Listener` and a context manager."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._timeline: Timeline | None = None
        self._drawn = 0.0
        self._failures: list[Span] = []

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def began(self, timeline: Timeline) -> None:
        """All is ready."""
        self._timeline = timeline

    def batch(self, batch: Batch) -> None:
        """Seen in the table."""

    def said(self, at: float, cr: str, node: str, saying: Saying) -> None:
        """Time for a picture, perhaps."""
        self.looked(at)

    def ended(self, at: float, span: Span) -> None:
        """Keep the last failures."""
        if span.failed:
            self._failures = [*self._failures[-2:], span]
        self.looked(at)

    def looked(self, at: float) -> None:
        """Draw, if the last picture is old enough in real time."""
        now = time.monotonic()
        if now - self._drawn < _REFRESH_SECONDS or self._timeline is None:
            return
        self._drawn = now
        self._live.update(self._picture(self._timeline, at), refresh=True)

    def _picture(self, timeline: Timeline, at: float) -> Group:
        bars = [(cr, *one) for cr in timeline.tracks for one in _by_compartment(timeline, cr).items()]
        named = any(compartment != _DEFAULT for _, compartment, _ in bars)
        roomy = self._live.console.width >= _ROOMY
        table = Table(box=None, pad_edge=False, padding=(0, 2 if roomy else 1, 0, 0), header_style="dim")
        table.add_column("NODEWRIGHT" if roomy else "NAME", no_wrap=True)
        if named:
            table.add_column("COMPARTMENT" if roomy else "PART", no_wrap=True)
        table.add_column("BATCH" if roomy else "BAT", justify="right", no_wrap=True)
        table.add_column("PROGRESS" if roomy else "", min_width=12 if roomy else 4)
        for heading in ("COMPLETE", "RUNNING", "FAILED", "WAITING") if roomy else ("DONE", "RUN", "ERR", "WAIT"):
            table.add_column(heading, justify="right", no_wrap=True)
        for cr, compartment, counts in bars:
            total, complete = sum(counts.values()), counts.get(COMPLETE, 0)
            running, failed = counts.get("in_progress", 0), counts.get("erroring", 0)
            batch = max(
                (b.number for b in timeline.batches if (b.cr, b.compartment) == (cr, compartment)), default=None
            )
            table.add_row(
                Text(cr, style="bold"),
                *([Text("" if compartment == _DEFAULT else compartment)] if named else []),
                "" if batch is None else str(batch),
                ProgressBar(
                    total=max(total, 1),
                    completed=complete,
                    width=24 if roomy else 5,
                    complete_style="cyan",
                    finished_style="green",
                ),
                f"{complete}/{total}",
                str(running),
                Text(str(failed), style="bold red" if failed else ""),
                str(total - complete - running - failed),
            )
        failures = [
            Text(f"{clock(s.end or 0):>8}  {told(s)} on {s.node}", style="red", no_wrap=True, overflow="ellipsis")
            for s in self._failures
        ]
        return Group(Text(f"virtual time {clock(at)}", style="dim"), table, *failures)


def _by_compartment(timeline: Timeline, cr: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for track in timeline.tracks.get(cr, {}).values():
        counts = found.setdefault(track.compartment or _DEFAULT, {})
        counts[track.last.status] = counts.get(track.last.status, 0) + 1
    return dict(sorted(found.items()))


def told(span: Span) -> str:
    """How an attempt failed: `drivers 2.0.0 apply failed (exit code 1), attempt 2`."""
    return f"{span.package} {span.version} {span.stage} {how_it_ended(span.outcome)}, attempt {span.attempt}"


def how_it_ended(outcome: str) -> str:
    """`failed (exit code 1)`, of an outcome as the ledger tells it."""
    kind, _, detail = outcome.partition(":")
    return {
        "failed": f"failed (exit code {detail})",
        "killed": f"was killed ({detail})",
        "refused": f"was refused by the kubelet ({detail})",
        "lost": "was lost in a reboot",
    }.get(kind, outcome)


# --- the summary -----------------------------------------------------------------------------------------------------


def print_summary(console: Console, outcome: Outcome, *, wall: float) -> None:
    """Everything that came of it."""
    for cr in outcome.crs:
        _print_cr(console, cr)
    for rule in outcome.unused_rules:
        console.print(
            f"Note: --fail {rule} concerned nothing that ran: compare its names with those above",
            style="yellow", highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
    took = span_of_time(outcome.seconds)
    if outcome.succeeded:
        head, style = f"Every node is complete: {took} of virtual time", "green"
    elif outcome.ending is Ending.COMPLETE:
        head, style = "No node is selected: compare nodeSelectors with the nodes' labels", "bold red"
    elif outcome.ending is Ending.STUCK:
        head, style = (
            f"Not complete: after {took} of virtual time nothing happens any more without a person",
            "bold red",
        )
    else:
        head, style = f"Not complete within {took} of virtual time", "bold red"
    console.print(
        f"{head}, {wall:.1f} s of yours, seed {outcome.seed}.",
        style=style, highlight=False, soft_wrap=True,
    )  # fmt: skip


def _print_cr(console: Console, cr: CrOutcome) -> None:
    console.print()
    counts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(cr.counts.items()))
    took = f" in {span_of_time(cr.finished_at)}" if cr.finished_at is not None else ""
    batches = ""
    if cr.batches:
        batches = ", 1 batch" if len(cr.batches) == 1 else f", {len(cr.batches)} batches"
    rest = f"{took}, {counts or 'no node selected'}{batches}"
    console.print(Text.assemble((cr.name, "bold"), ": ", (cr.status, _STYLES.get(cr.status, "")), rest), soft_wrap=True)
    if cr.stages:
        console.print(_stage_table(cr))
    for condition in cr.conditions:
        if condition.get("status") == "True" and condition.get("type") not in ("Ready", "ApplyPackage"):
            console.print(
                f"  {condition['type']}: {condition.get('message', '')}",
                style="yellow",
                soft_wrap=True,
                highlight=False,
                markup=False,
            )
    if cr.failures:
        console.print("  Failed attempts:", highlight=False)
        for one in cr.failures[:SHOWN]:
            console.print(f"    {_failure(one)}", style="red", soft_wrap=True, highlight=False, markup=False)
        if len(cr.failures) > SHOWN:
            console.print(f"    and {len(cr.failures) - SHOWN} kinds more", highlight=False)
    if cr.unfinished:
        console.print("  Not complete:", highlight=False)
        for line in _reasons(cr.unfinished):
            console.print(f"    {line}", soft_wrap=True, highlight=False, markup=False)


def _stage_table(cr: CrOutcome) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("  PACKAGE")
    table.add_column("STAGE")
    for heading in ("SUCCEEDED", "FAILED", "P50", "MAX"):
        table.add_column(heading, justify="right")
    for one in cr.stages:
        table.add_row(
            f"  {one.package} {one.version}",
            one.stage,
            str(one.succeeded),
            Text(str(one.failed), style="bold red" if one.failed else ""),
            "-" if one.p50 is None else span_of_time(one.p50),
            "-" if one.longest is None else span_of_time(one.longest),
        )
    return table


def _failure(one: Failure) -> str:
    """`drivers 2.0.0 apply failed (exit code 1): 4 attempts on node-0007`."""
    attempts = counted(one.attempts, "attempt")
    return f"{one.package} {one.version} {one.stage} {how_it_ended(one.outcome)}: {attempts} on {_some(one.nodes)}"


def _some(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:SHOWN]) + (f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else "")


def _reasons(unfinished: Iterable[Unfinished]) -> Iterable[str]:
    """Nodes with the same reason in one line."""
    groups: dict[tuple[str, str, str, str], list[Unfinished]] = {}
    for one in unfinished:
        text, release = of_any_node(one.text, one.node), of_any_node(one.release, one.node)
        groups.setdefault((one.status, one.code, text, release), []).append(one)
    for (status, code, text, release), members in sorted(groups.items(), key=lambda group: -len(group[1])):
        nodes = [one.node for one in members]
        if len(members) == 1:
            text, release = members[0].text, members[0].release
        why = f"{code}: {text}" if code else "no reason given"
        yield f"{len(nodes)} {status.replace('_', ' ')}: {_some(nodes)}"
        yield f"  {why}{f'; {release}' if release else ''}"
