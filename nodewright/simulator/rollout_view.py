"""Shows a rollout in the terminal: a live table where there is one, a line for each change elsewhere.

Reads nothing but the object itself, as ``kubectl get nodewright NAME --output=json`` gives it (CON-5), so it shows what any other reader
of the API sees. The demonstration relies on it.
"""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_STYLES: Final = {
    "complete": "green",
    "in_progress": "cyan",
    "skipped": "dim",
    "waiting": "yellow",
    "blocked": "yellow",
    "paused": "yellow",
    "disabled": "dim",
    "erroring": "bold red",
    "unknown": "dim",
}


class RolloutView:
    """A context manager that takes over the terminal, if it is one, for as long as it is open."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._began = time.monotonic()
        self._last_line = ""

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, nodewright: Mapping[str, Any]) -> None:
        """Shows the object as it is now."""
        elapsed = time.monotonic() - self._began
        if self._live is not None:
            self._live.update(_table(nodewright, elapsed), refresh=True)
            return
        line = summary(nodewright)
        if line != self._last_line:
            self._last_line = line
            self._console.print(f"{elapsed:6.1f} s  {line}", soft_wrap=True, highlight=False, markup=False)


def summary(nodewright: Mapping[str, Any]) -> str:
    """The object's status in one line: ``in_progress, 10/20 nodes complete; drivers apply in_progress on 5``."""
    status = nodewright.get("status", {})
    nodes = status.get("nodeStatus", {})
    complete = sum(1 for value in nodes.values() if value == "complete")
    parts = [f"{status.get('status', 'not seen by the operator yet')}, {complete}/{len(nodes)} nodes complete"]
    running: dict[str, int] = {}
    for node, entries in status.get("nodeState", {}).items():
        if nodes.get(node) != "complete":
            for entry in entries.values():
                if entry["state"] in {"in_progress", "erroring"}:
                    what = f"{entry['name']} {entry['stage']} {entry['state']}"
                    running[what] = running.get(what, 0) + 1
    if running:
        parts.append(", ".join(f"{what} on {count}" for what, count in sorted(running.items())))
    return "; ".join(parts)


def _table(nodewright: Mapping[str, Any], elapsed: float) -> Group:
    status = nodewright.get("status", {})
    nodes: Mapping[str, str] = status.get("nodeStatus", {})
    packages = sorted(nodewright["spec"].get("packages", {}))
    table = Table("node", "status", *packages, box=None, pad_edge=False)
    for node in sorted(nodes):
        entries = {entry["name"]: entry for entry in status.get("nodeState", {}).get(node, {}).values()}
        table.add_row(node, _colored(nodes[node]), *(_entry(entries.get(package)) for package in packages))
    complete = sum(1 for value in nodes.values() if value == "complete")
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(nodewright["metadata"]["name"], style="bold"),
        _colored(status.get("status", "unknown")),
        ProgressBar(total=max(len(nodes), 1), completed=complete, width=30),
        f"{complete}/{len(nodes)} nodes",
        f"{elapsed:.0f} s",
    )
    return Group(head, Text(), table)


def _entry(entry: Mapping[str, Any] | None) -> Text:
    if entry is None:
        return Text("-", style="dim")
    restarts = f" ({entry['restarts']} restarts)" if entry.get("restarts") else ""
    return Text(f"{entry['stage']} {entry['state']}{restarts}", style=_STYLES.get(entry["state"], ""))


def _colored(value: str) -> Text:
    return Text(value, style=_STYLES.get(value, ""))
