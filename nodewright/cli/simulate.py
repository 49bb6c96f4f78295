"""`nodewright simulate`: what manifests would do, on an embedded cluster with simulated nodes, in seconds (CLI-13).

Imported only when the command runs. Exit codes: 0 every node complete, 1 something failed or a manifest is faulty, 2 usage, 130 Ctrl-C.
"""

import json
import logging
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from nodewright.cli.manifests import ManifestError, Manifests, read_manifests
from nodewright.cli.simulation_run import Played, Request, play
from nodewright.cli.simulation_text import Lines, LiveTable, print_summary
from nodewright.simulator.durations import STAGES, Durations, parse_stage_duration
from nodewright.simulator.made_nodes import MadeNodes, NodesError, counted, make_nodes, read_nodes
from nodewright.simulator.report import render
from nodewright.simulator.rules import Rule, parse_rule

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
DEFAULT_NODES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line, as it was given."""

    files: Sequence[str]
    nodes: int | None = None
    nodes_from: Path | None = None
    fail: Sequence[str] = ()
    seed: int = 0
    durations: Sequence[str] = ()
    within_hours: float | None = None
    report: Path | None = None
    as_json: bool = False
    verbose: bool = False


class UsageError(ValueError):
    """An option cannot be understood; one sentence with the way out."""


def run(options: Options) -> int:
    """Run the command; the exit code."""
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    console = errors if options.as_json else Console(highlight=False)
    try:
        _check(options)
        manifests = read_manifests(options.files)
        request = _request(options, manifests)
        played, wall = _play(request, console, options)
        _tell(played, wall, console, options)
    except UsageError as error:
        errors.print(f"Error: {error}", style="red", markup=False)
        return USAGE
    except (ManifestError, NodesError) as error:
        errors.print(str(error), style="red", markup=False)
        return FAILED
    except BrokenPipeError:  # whoever read has seen enough
        raise
    except OSError as error:
        errors.print(f"The output cannot be written: {error.strerror}", style="red", markup=False)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would try once more at its end
        return FAILED
    except KeyboardInterrupt:
        errors.print("Interrupted; nothing was changed anywhere.", style="dim")
        return INTERRUPTED
    if options.report is not None and not _write_report(options.report, played, errors):
        return FAILED
    return DONE if played.outcome.succeeded else FAILED


def _tell(played: Played, wall: float, console: Console, options: Options) -> None:
    if options.as_json:
        sys.stdout.write(json.dumps(played.outcome.to_plain(), indent=2) + "\n")
    else:
        print_summary(console, played.outcome, wall=wall)
    sys.stdout.flush()


def _write_report(file: Path, played: Played, errors: Console) -> bool:
    names = ", ".join(cr.name for cr in played.outcome.crs)
    title = f"Rollout of {names} on {counted(played.outcome.nodes, 'node')}"
    try:
        file.write_text(render(played.outcome, played.timeline, title=title), encoding="utf-8")
    except OSError as error:
        errors.print(f"{file}: cannot be written: {error.strerror}", style="red", markup=False)
        return False
    errors.print(f"The report is in {file}.", style="dim", markup=False)
    return True


def _play(request: Request, console: Console, options: Options) -> tuple[Played, float]:
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO if options.verbose else logging.CRITICAL, format="%(name)s: %(message)s"
    )
    for note in (*request.manifests.notes, *request.nodes.notes):
        console.print(f"Note: {note}", style="dim", markup=False, soft_wrap=True)
    began = time.monotonic()
    listener = LiveTable(console) if console.is_terminal and not options.as_json else Lines(console)
    with listener:
        played = play(request, listener)
    return played, time.monotonic() - began


def _check(options: Options) -> None:
    """What can be said before anything is read."""
    if options.nodes is not None and options.nodes_from is not None:
        raise UsageError("--nodes and --nodes-from exclude each other; give one of them")
    if [*options.files, str(options.nodes_from)].count("-") > 1:
        raise UsageError("standard input can be read once; give a file for all but one -")
    if options.within_hours is not None and not 0 < options.within_hours < math.inf:
        raise UsageError("--within-hours must be a number above 0")
    if options.report is not None:
        _check_report(options.report)


def _check_report(file: Path) -> None:
    """A rollout of a minute is not for nothing because of a misspelt directory."""
    folder = file.parent
    if not folder.is_dir():
        raise UsageError(f"--report {file}: there is no directory {folder}; make it, or give another file")
    if file.is_dir():
        raise UsageError(f"--report {file}: is a directory; give a file, as {file / 'report.html'}")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise UsageError(f"--report {file}: may not be written; give another file")


def _request(options: Options, manifests: Manifests) -> Request:
    return Request(
        manifests=manifests,
        nodes=_nodes(options, manifests),
        rules=_rules(options),
        seed=options.seed,
        durations=_durations(options),
        within=None if options.within_hours is None else options.within_hours * 3600.0,
    )


def _nodes(options: Options, manifests: Manifests) -> MadeNodes:
    if options.nodes_from is None:
        try:
            count = DEFAULT_NODES if options.nodes is None else options.nodes
            return make_nodes(count, manifests.nodewrights, manifests.policies)
        except NodesError as error:
            raise UsageError(f"--nodes: {error}") from error
    file = options.nodes_from
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NodesError(
            f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'is not UTF-8 text'}"
        ) from error
    try:
        return read_nodes(text)
    except NodesError as error:
        raise NodesError(f"{'stdin' if str(file) == '-' else file}: {error}") from error


def _rules(options: Options) -> list[Rule]:
    try:
        return [parse_rule(text) for text in options.fail]
    except ValueError as error:
        raise UsageError(f"--fail: {error}") from error


def _durations(options: Options) -> Durations:
    try:
        given = dict(parse_stage_duration(text) for text in options.durations)
    except ValueError as error:
        raise UsageError(f"--duration: {error}") from error
    return Durations(options.seed, {**STAGES, **given})
