"""What the docs show and name is there: manifests, links, files, commands."""

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from nodewright.api.validation import check_nodewright, check_policy
from nodewright.cli.main import application
from nodewright.simulator.rules import MATCH_KEYS, Kind, parse_rule
from tests.unit.docs.pages import PAGES, ROOT, blocks, commands, page, rows, words

_CHECKS = {"NodeWright": check_nodewright, "DeploymentPolicy": check_policy}
_TOP = ("controller_runtime/", "nodewright/", "tests/", "docs/", "deploy/", "crds/", "requirements/")


def manifests() -> list[Any]:
    texts = [(path.name, block) for path in PAGES for block in blocks(path.read_text(encoding="utf-8"), "yaml")]
    texts += [
        (path.name, path.read_text(encoding="utf-8")) for path in sorted((ROOT / "deploy/samples").glob("*.yaml"))
    ]
    return [
        pytest.param(document, id=f"{where}-{document['metadata']['name']}")
        for where, text in texts
        for document in yaml.safe_load_all(text)
        if document["kind"] in _CHECKS
    ]


@pytest.mark.parametrize("manifest", manifests())
def test_every_manifest_that_is_shown_is_valid(manifest: dict[str, Any]) -> None:
    """ADM-1 and on; a fault in an example is copied by whoever reads it."""
    assert _CHECKS[manifest["kind"]](manifest) == []


def test_the_readme_and_every_kind_show_a_manifest() -> None:
    """The test above would pass without any."""
    shown = [parameter.values[0] for parameter in manifests()]
    assert {each["kind"] for each in shown} == set(_CHECKS)
    assert blocks(PAGES[0].read_text(encoding="utf-8"), "yaml")


@pytest.mark.parametrize("path", [*PAGES, *sorted((ROOT / "docs/design").glob("*.md"))], ids=lambda path: path.name)
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    relative = [each.partition("#")[0] for each in targets if not re.match(r"[a-z]+:", each)]
    assert [each for each in relative if not (path.parent / each).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_file_that_is_named_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    parts = [part for each in commands(text) for part in each.split()]
    named = {part.rstrip(".,") for part in parts if part.startswith(_TOP) and part != "nodewright/demo"}
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []


def test_what_to_read_first_is_in_its_room() -> None:
    """The five-minute tour."""
    seen = 0
    for room, _, first in rows(PAGES[1].read_text(encoding="utf-8"), "room"):
        folder = ROOT / words(room)[0]
        for each in words(first):
            seen += 1
            assert (folder / each).exists() or (ROOT / each).exists(), f"{each} of {room}"
    assert seen > 5


def sessions() -> set[str]:
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any("session" in ast.unparse(each) for each in node.decorator_list)
    }


def test_every_session_target_module_and_command_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    subcommands = set(typer.main.get_command(application(with_operator=True)).commands)  # type: ignore[attr-defined]
    known = {"nox -s": sessions(), "make": targets, "nodewright": subcommands}
    named: dict[str, set[str]] = {start: set() for start in known}
    modules: set[str] = set()
    for path in PAGES:
        for command in commands(path.read_text(encoding="utf-8")):
            if command.startswith("kubectl") and "|" not in command:
                continue
            for start, names in named.items():
                names.update(re.findall(rf"(?:^|[ /]){start} ([a-z][-a-z]*)", command))
            modules.update(re.findall(r"python -m ([\w.]+)", command))
    for start, names in named.items():
        assert names, f"nothing is said of {start}"
        assert names <= known[start], start
    assert [each for each in sorted(modules) if importlib.util.find_spec(each) is None] == []


def test_every_session_is_told_to_contributors() -> None:
    told = " ".join(words(PAGES[1].read_text(encoding="utf-8")))
    assert sessions() == {name for name in sessions() if f"nox -s {name}" in told}


def test_rules_of_the_simulator_are_as_the_page_says() -> None:
    text = page("simulator")
    written = re.findall(r"--(?:rule|fail) '([^']+)'", text) + [
        each for each in words(text) if re.search(r":\w+=", each)
    ]
    written = [each for each in written if "…" not in each]
    assert len(written) >= 3
    for rule in written:
        parse_rule(rule)
    outcomes = [each.partition("=")[0] for cells in rows(text, "outcome") for each in words(cells[0])]
    assert sorted(outcomes) == sorted(Kind)
    assert set(MATCH_KEYS) <= set(words(text))
