"""`python -m tests.simulation --seeds 10000 [--start N] [--processes N] [--shrink] [--plant BUG] [--tell]`.

Plays seeds, prints those that fail with what they contradict, and with `--shrink` keeps a short history of each in `regressions/`. The
exit code is 1 if one failed. Strings hash the same in every run, so that a seed is the same history everywhere.
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

from tests.simulation.plants import planted
from tests.simulation.scenario import Scenario, draw
from tests.simulation.shrink import shrunk
from tests.simulation.world import Report, play

REGRESSIONS = Path(__file__).parent / "regressions"


def main() -> int:
    """See the module."""
    arguments = _arguments()
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    if arguments.play is not None:
        return _play_files(arguments)
    begun, failed, played = time.monotonic(), [], 0
    seeds = range(arguments.start, arguments.start + arguments.seeds)
    for report, spent in _played(seeds, arguments.processes, arguments.plant):
        played += 1
        if arguments.tell:
            print("\n".join(report.history))
        if report.failed or arguments.digests or arguments.seeds == 1:
            _print(report, spent)
        if report.failed:
            failed.append(report.seed)
            if arguments.first:
                break
    seconds = time.monotonic() - begun
    print(f"{played} seeds from {arguments.start} in {seconds:.0f} s, failed: {failed or 'none'}", flush=True)
    if arguments.shrink:
        for seed in failed:
            _shrink(seed, arguments.plant)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--first", action="store_true", help="stop at the first that fails")
    parser.add_argument("--shrink", action="store_true", help="keep a short history of each that fails")
    parser.add_argument("--tell", action="store_true", help="print the history")
    parser.add_argument("--digests", action="store_true", help="print a line for each seed")
    parser.add_argument("--plant", default="", help="play with a planted bug")
    parser.add_argument("--play", type=Path, nargs="+", help="play kept histories instead")
    return parser.parse_args()


def one(seed: int, plant: str) -> tuple[Report, float]:
    """Play a seed; with the CPU seconds it took."""
    logging.disable(logging.CRITICAL)
    begun = time.process_time()
    with planted(plant):
        report = play(draw(seed))
    return report, time.process_time() - begun


def _played(seeds: Iterable[int], processes: int, plant: str) -> Iterator[tuple[Report, float]]:
    if processes <= 1:
        yield from (one(seed, plant) for seed in seeds)
        return
    rest = iter(seeds)
    with ProcessPoolExecutor(processes) as pool:
        while batch := list(islice(rest, 50 * processes)):
            yield from pool.map(partial(one, plant=plant), batch)


def _print(report: Report, spent: float) -> None:
    what = "; ".join(report.problems) or "good"
    size = f"{report.writes} writes, {report.seconds:.0f} virtual s, {spent:.2f} s"
    print(f"seed {report.seed}: {what} ({size}, {report.digest})", flush=True)


def _play_files(arguments: argparse.Namespace) -> int:
    if not arguments.tell:
        logging.disable(logging.CRITICAL)
    failed = 0
    for path in arguments.play:
        with planted(arguments.plant):
            report = play(Scenario.load(path))
        if arguments.tell:
            print("\n".join(report.history))
        print(path.name, end=": ")
        _print(report, 0.0)
        failed += report.failed
    return 1 if failed else 0


def _shrink(seed: int, plant: str) -> None:
    logging.disable(logging.CRITICAL)
    with planted(plant):
        small, report = shrunk(draw(seed))
    name = REGRESSIONS / f"{report.kind}-{seed}{'-' + plant if plant else ''}.json"
    if plant:
        print(small.to_json())
    else:
        name.write_text(small.to_json(), encoding="utf-8")
        print(f"seed {seed} is kept as {name.name}")
    print("\n".join([*report.history[-60:], *report.problems]))


if __name__ == "__main__":
    sys.exit(main())
