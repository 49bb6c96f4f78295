"""Every `nodewright simulate` that the pages show works, and says what they show (CLI-13)."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docs.pages import PAGES, ROOT, blocks

_OF_THIS_RUN = re.compile(r"[\d.]+ s of yours")
_FLEET = {
    "kind": "List",
    "apiVersion": "v1",
    "items": [{"kind": "Node", "apiVersion": "v1", "metadata": {"name": f"own-{number}"}} for number in range(3)],
}


def shown() -> list[str]:
    lines = [line for path in PAGES for body in blocks(path.read_text("utf-8"), "sh") for line in body.splitlines()]
    return sorted({line for line in lines if " simulate " in line})


def simulated(line: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    before, _, command = line.rpartition("|")
    words = shlex.split(command, comments=True)
    assert words[:2] == [".venv/bin/nodewright", "simulate"], words
    words = [str(ROOT / word) if word.startswith("deploy/") else word for word in words[2:]]
    assert before.strip() in ("", "kubectl get nodes -o json"), before
    return subprocess.run(
        [sys.executable, "-m", "nodewright", "simulate", *words],
        cwd=folder,
        input=json.dumps(_FLEET) if before else "",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("line", shown())
def test_a_simulation_that_is_shown_comes_to_its_end(line: str, tmp_path: Path) -> None:
    """With `--fail` some node fails, and the exit code says so; without, all is complete."""
    done = simulated(line, tmp_path)
    assert done.returncode == (1 if "--fail" in line else 0), done.stdout + done.stderr
    assert re.search(r"\d+ complete", done.stdout), done.stdout
    if "--report" in line:
        assert (tmp_path / "rollout.html").read_text("utf-8").startswith("<!doctype html>")


def test_the_first_command_says_what_the_readme_shows(tmp_path: Path) -> None:
    readme = PAGES[0].read_text("utf-8")
    first = next(line for body in blocks(readme, "sh") for line in body.splitlines() if " simulate " in line)
    said = _OF_THIS_RUN.sub("", simulated(first, tmp_path).stdout)
    (block,) = [body for body in blocks(readme, "") if "batch 1 begins" in body]
    expected = [line for line in _OF_THIS_RUN.sub("", block).splitlines() if line.strip() not in ("", "…")]
    assert len(expected) > 5
    missing = [line for line in expected if line not in said.splitlines()]
    assert missing == [], said


def test_the_page_on_simulate_shows_what_its_first_command_says(tmp_path: Path) -> None:
    text = (ROOT / "docs/simulate.md").read_text("utf-8")
    command = blocks(text, "sh")[0]
    said = _OF_THIS_RUN.sub("", simulated(command.strip(), tmp_path).stdout)
    (block,) = [body for body in blocks(text, "text") if body.startswith("demo: erroring")]
    assert _OF_THIS_RUN.sub("", block).strip() in said
