"""The pages a reader is sent to, as tests look at them: blocks, tables, links and words in backticks.

Relies on the checkout's layout only. Relied on by the tests beside it and by `tests/cluster/test_docs.py`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
PAGES: Final = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    """The text of `docs/<name>.md`."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return [body for found, body in _FENCE.findall(text) if found == language]


def words(text: str) -> list[str]:
    """What stands in backticks outside fenced blocks, in order."""
    return re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))


def rows(text: str, heading: str) -> Iterator[list[str]]:
    """The rows of every table whose first heading is `heading`, cells as written."""
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].lower() == heading.lower():
            inside = True
        elif inside and set(cells[0]) - {"-", " "}:
            yield cells


def commands(text: str) -> list[str]:
    """Shell lines of `sh` blocks, and what stands in backticks, without trailing remarks."""
    lines = [line.partition("  #")[0].strip() for body in blocks(text, "sh") for line in body.splitlines()]
    return [*filter(None, lines), *words(text)]
