"""``python -m tests.benchmarks``: rollouts on a real control plane, each beside its floor, held against the targets.

Every case starts a fresh control plane twice: once for the floor, once for the operator. Everything shares this machine, so wall times
mean something beside their floor only, and only when nothing else runs here. The exit code is 0 when everything ran, whatever was
reached.

``--profile`` runs the operator under cProfile and prints where its main thread spent its time. Deterministic profiling makes Python
code about twice as slow and C code not at all: take call counts and proportions from it, never seconds.
"""

import argparse
import contextlib
import pstats
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Console

from tests.benchmarks import probes
from tests.benchmarks.cases import Case, parse_cases
from tests.benchmarks.floor_run import measure_floor
from tests.benchmarks.report import print_report
from tests.benchmarks.rollout import measure_rollout
from tests.benchmarks.targets import CaseResult, targets_of

ALL_CASES = "10,100,500,1000,chained,default-kcm"
_PROFILE_LINES = 45


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line and runs; the process's exit code."""
    options = _parser().parse_args(arguments)
    if options.quick:
        options.cases, options.idle_seconds = parse_cases("10,100"), min(options.idle_seconds, 10.0)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    machine, results, failed = probes.machine(), [], False
    for case in options.cases:
        try:
            results.append(_run(case, options, console))
        except Exception:  # noqa: BLE001 - the other cases run all the same, and the exit code tells
            failed = True
            console.print(traceback.format_exc(), style="red", markup=False, soft_wrap=True)
    print_report(console, machine, results)
    if options.json is not None:
        document = {"machine": machine, "results": results, "targets": list(targets_of(results))}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(document)))
    return 1 if failed else 0


def _run(case: Case, options: argparse.Namespace, console: Console) -> CaseResult:
    console.print(f"Case {case.name}: {case.nodes} nodes, {case.jobs} Jobs …")
    floor = measure_floor(case)
    console.print(f"  floor: {floor.wall_seconds:.1f} s")
    with contextlib.ExitStack() as stack:
        profile = None
        if options.profile:
            profile = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "profile"
        rollout = measure_rollout(case, idle_seconds=options.idle_seconds, profile=profile)
        result = CaseResult(case=case, rollout=rollout, floor=floor)
        console.print(
            f"  operator: {rollout.wall_seconds:.1f} s, {result.wall_ratio:.2f} floors, {rollout.cpu_seconds:.1f} CPU s, "
            f"{rollout.peak_rss_mib:.0f} MiB, {rollout.writes_per_node:.1f} writes a node"
        )
        if profile is not None:
            _print_profile(profile)
    return result


def _print_profile(profile: Path) -> None:
    stats = pstats.Stats(str(profile))
    stats.sort_stats("tottime").print_stats(_PROFILE_LINES)
    stats.sort_stats("cumulative").print_stats(_PROFILE_LINES)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--cases", type=_argument(parse_cases), default=parse_cases(ALL_CASES), metavar="CASE,…", help=ALL_CASES)
    add("--idle-seconds", type=float, default=60.0, help="how long the operator is watched after each rollout")
    add("--quick", action="store_true", help="10 and 100 nodes with 10 idle seconds")
    add("--json", type=Path, metavar="FILE", help="write everything that was measured there too")
    add("--profile", action="store_true", help="run the operator under cProfile; its times mean little then")
    return parser


def _argument(parse: Callable[[str], list[Case]]) -> Callable[[str], list[Case]]:
    def checked(text: str) -> list[Case]:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


if __name__ == "__main__":
    sys.exit(main())
