"""The benchmark's tables: what was measured, by whom the time went, and which targets were reached."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from tests.benchmarks.targets import CaseResult, targets_of


def print_report(console: Console, machine: str, results: Sequence[CaseResult]) -> None:
    """Everything about these cases."""
    console.print(f"\nMachine: {machine}\n", soft_wrap=True)
    console.print(_cases(results))
    console.print(_requests(results))
    console.print(_cluster_cpu(results))
    console.print(_verdict(results))


def _cases(results: Sequence[CaseResult]) -> Table:
    table = Table(title="Rollouts", title_justify="left")
    for heading in (
        "case", "nodes", "Jobs", "wall s", "floor s", "ratio", "CPU s", "of it start", "peak MiB", "writes/node",
        "late writes", "idle CPU s/min", "idle requests",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for result in results:
        case, rollout, floor = result.case, result.rollout, result.floor
        table.add_row(
            case.name, str(case.nodes), str(case.jobs), f"{rollout.wall_seconds:.1f}", f"{floor.wall_seconds:.1f}",
            f"{result.wall_ratio:.2f}", f"{rollout.cpu_seconds:.1f}", f"{rollout.start_cpu_seconds:.1f}",
            f"{rollout.peak_rss_mib:.0f}", f"{rollout.writes_per_node:.2f}", str(sum(rollout.late_writes.values())),
            f"{result.idle_cpu_per_minute:.2f}",
            _counts(rollout.idle_requests),
        )  # fmt: skip
    return table


def _requests(results: Sequence[CaseResult]) -> Table:
    table = Table(title="The operator's requests from its start until it is idle, a node", title_justify="left")
    table.add_column("request")
    names: dict[str, None] = {}
    for result in results:
        table.add_column(result.case.name, justify="right")
        names.update(dict.fromkeys(result.rollout.requests))
    for name in names:
        cells = []
        for result in results:
            number = result.rollout.requests.get(name, 0)
            cells.append(f"{number} ({number / result.case.nodes:.2f})" if number else "")
        table.add_row(name, *cells)
    refused = [_counts(result.rollout.refused) for result in results]
    table.add_row("of them refused", *refused)
    return table


def _cluster_cpu(results: Sequence[CaseResult]) -> Table:
    table = Table(
        title="CPU seconds during rollout / floor (with its ConfigMaps); cores taken by other programs",
        title_justify="left",
    )
    table.add_column("case", justify="right")
    names = list(results[0].rollout.servers_cpu_seconds) if results else []
    for name in (*names, "operator / floor script", "all", "ratio", "strangers, cores"):
        table.add_column(name, justify="right")
    for result in results:
        ours, floors = result.rollout.servers_cpu_seconds, result.floor.servers_cpu_seconds
        cells = [f"{ours.get(name, 0.0):.1f} / {floors.get(name, 0.0):.1f}" for name in names]
        own = result.rollout.all_cpu_seconds - sum(ours.values())
        cells.append(f"{own:.1f} / {result.floor.cpu_seconds:.1f}")
        cells.append(f"{result.rollout.all_cpu_seconds:.1f} / {result.floor.all_cpu_seconds:.1f}")
        cells.append(f"{result.cpu_ratio:.2f}")
        cells.append(f"{result.rollout.strangers:.1f} / {result.floor.strangers:.1f}")
        table.add_row(result.case.name, *cells)
    return table


def _verdict(results: Sequence[CaseResult]) -> Table:
    table = Table(title="Targets", title_justify="left")
    for heading in ("case", "target", "at most", "value", ""):
        table.add_column(heading, justify="left" if heading in ("target", "") else "right")
    for target in targets_of(results):
        said = "[green]reached[/]" if target.reached else "[red]not reached[/]"
        table.add_row(target.case, target.text, f"{target.limit:g}", f"{target.value:.2f}", said)
    return table


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counted.items())
