"""The part of JSONPath that printer columns use: names, indexes, `[*]`, and `[?(@.type=="Ready")]`. Relies on nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)
      | \[(?P<index>-?\d+)\]
      | \[(?P<all>\*)\]
      | \['(?P<quoted>[^']+)'\]
      | \[\?\(@\.(?P<field>[^=!<>\s)]+)\s*(?P<operator>==|!=)\s*["']?(?P<value>[^"')]*)["']?\)\]""",
    re.VERBOSE,
)
Step = tuple[str, str, str]


def find(item: Any, path: str) -> list[Any]:
    """Everything at the path, in order; nothing where there is nothing, or where the path cannot be read."""
    found = [item]
    for step in _steps(path):
        found = [deeper for value in found for deeper in _follow(value, step)]
    return found


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[Step, ...]:
    text = path.strip().removeprefix("{").removesuffix("}")
    text = text if text.startswith((".", "[")) else f".{text}"
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return (("nothing", "", ""),)
        position = match.end()
        if match["name"]:
            steps.append(
                ("all", "", "") if match["name"] == "*" else ("name", re.sub(r"\\(.)", r"\1", match["name"]), "")
            )
        elif match["quoted"]:
            steps.append(("name", match["quoted"], ""))
        elif match["index"]:
            steps.append(("index", match["index"], ""))
        elif match["all"]:
            steps.append(("all", "", ""))
        else:
            steps.append((match["operator"], match["field"], match["value"]))
    return tuple(steps)


def _follow(value: Any, step: Step) -> Iterable[Any]:
    what, key, wanted = step
    match what:
        case "name":
            return (value[key],) if isinstance(value, dict) and key in value else ()
        case "index":
            index = int(key)
            return (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()
        case "all":
            return value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
        case "==" | "!=":
            entries = value if isinstance(value, list) else ()
            return tuple(entry for entry in entries if (_text(find(entry, key)) == wanted) is (what == "=="))
    return ()


def _text(found: list[Any]) -> str | None:
    if not found:
        return None
    first = found[0]
    return str(first).lower() if isinstance(first, bool) else str(first)
