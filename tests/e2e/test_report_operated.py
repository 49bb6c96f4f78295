"""The report as a person operates it in a real browser: mouse, keyboard, filter, zoom, themes, paper (CLI-13).

Skipped without a browser, unless NODEWRIGHT_E2E_BROWSER=required says that there must be one.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.browser import Browser
from tests.e2e.test_report import BROWSER, QUIET, page

pytestmark = pytest.mark.skipif(
    BROWSER is None and os.environ.get("NODEWRIGHT_E2E_BROWSER") != "required", reason="no chromium on the PATH"
)
TEXT = "document.getElementById('{}').innerText"
STORY = "!document.getElementById('story').hidden"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    assert BROWSER is not None, "a browser is required and there is none on the PATH"
    flags = [flag for flag in QUIET if not flag.startswith("--virtual-time")]
    with Browser(BROWSER, flags, tmp_path / "profile") as opened:
        yield opened
        assert opened.errors == []


def show(browser: Browser, tmp_path: Path, nodes: int, *, width: int = 1400, theme: str = "light") -> float:
    file = tmp_path / "report.html"
    file.write_text(page(nodes), encoding="utf-8")
    return browser.open(f"{file.as_uri()}?theme={theme}", width=width)


def test_a_thousand_nodes_are_drawn_within_two_seconds_without_a_request(browser: Browser, tmp_path: Path) -> None:
    took = show(browser, tmp_path, 1000)
    assert took < 2.0
    assert [url for url in browser.requests if not url.startswith(("file:", "about:"))] == []


def test_the_keyboard_chooses_a_node_and_tells_its_story(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, 200)
    browser.run("document.getElementById('gantt').focus()")
    before = browser.drawn()
    browser.key("ArrowDown", "ArrowDown")
    assert browser.drawn() != before
    assert browser.run(TEXT.format("said")).startswith("node-0001, complete, batch 1")
    browser.key("Enter")
    browser.wait(STORY)
    assert "node-0001: complete, batch 1" in browser.run(TEXT.format("story"))
    browser.key("Escape")
    assert not browser.run(STORY)
    assert browser.run("document.activeElement.id") == "gantt"
    browser.key("End")
    assert browser.run(TEXT.format("said")).startswith("node-0199")


def test_the_keyboard_zooms_moves_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, 20)
    browser.run("document.getElementById('gantt').focus()")
    whole = browser.drawn()
    browser.key("+")
    near = browser.drawn()
    browser.key("ArrowRight")
    moved = browser.drawn()
    assert len({whole, near, moved}) == 3
    browser.key("0")
    assert browser.drawn() == whole


def test_the_mouse_tells_of_a_node_and_opens_its_story(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, 20)
    browser.mouse("mouseMoved", 160, 45)
    assert browser.run(TEXT.format("tip")).startswith("node-0000 · batch 1 · ")
    browser.mouse("mousePressed", 160, 45, button="left", clickCount=1)
    browser.mouse("mouseReleased", 160, 45, button="left", clickCount=1)
    browser.wait(STORY)
    assert "tuning 1.2.3 apply" in browser.run(TEXT.format("story"))


def test_the_wheel_zooms_with_ctrl_only(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, 20)
    browser.mouse("mouseMoved", 600, 60)
    whole = browser.drawn()
    browser.mouse("mouseWheel", 600, 60, deltaX=0, deltaY=-100, modifiers=2)
    assert browser.drawn() != whole


def test_dragging_moves_in_time(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, 20)
    browser.run("document.getElementById('in').click()")
    before = browser.drawn()
    browser.mouse("mousePressed", 700, 200, button="left", clickCount=1)
    browser.mouse("mouseMoved", 500, 200, button="left", buttons=1)
    browser.mouse("mouseReleased", 500, 200, button="left", clickCount=1)
    assert browser.drawn() != before
    assert not browser.run(STORY)


def test_a_story_brings_what_it_tells_of_into_sight(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, 200)
    browser.run("for (let i = 0; i < 6; i++) document.getElementById('in').click()")
    label = "document.getElementById('gantt').getAttribute('aria-label')"
    away = browser.run(label)
    browser.run("document.querySelector('#failures button').click()")
    browser.drawn()
    assert browser.run(label) != away
    assert "from 0:00:" in browser.run(label)


def test_the_filters_leave_what_was_asked_for(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, 200)
    browser.run("document.getElementById('filter').focus()")
    browser.key(*"0007")
    assert browser.run(TEXT.format("count")) == "1 of 200 nodes"
    browser.run("(() => { const f = document.getElementById('filter'); f.value = ''; f.oninput(); })()")
    browser.run("(() => { const s = document.getElementById('state'); s.value = 'erroring'; s.onchange(); })()")
    assert browser.run(TEXT.format("count")) == "4 of 200 nodes"


def test_failures_and_batches_lead_to_the_node(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, 200)
    assert "failed with exit code 3" in browser.run(TEXT.format("failures"))
    assert browser.run("document.querySelectorAll('#batches tr').length") == 11
    browser.run("document.querySelector('#failures button').click()")
    browser.wait(STORY)
    assert "node-0007: erroring, batch 1" in browser.run(TEXT.format("story"))


def test_what_nodes_waited_for_is_averaged_and_summed(browser: Browser, tmp_path: Path) -> None:
    """The bar is as long as the sum it stands beside; work is no waiting."""
    show(browser, tmp_path, 20)
    rows = browser.run(
        "[...document.querySelectorAll('#waits tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    assert rows[0][:4] == ["reason", "nodes", "average per node", "of all nodes together"]
    full = next(row for row in rows if row[0] == "BatchFull")
    assert full[1:4] == ["18", "8 min 20 s", "2 h 30 min"]
    assert "Running" not in [row[0] for row in rows]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [800, 1400])
def test_nothing_is_wider_than_the_window_and_quiet_text_can_be_read(
    browser: Browser, tmp_path: Path, width: int, theme: str
) -> None:
    """Contrast of at least 4.5 to 1, as WCAG 2 asks of small text."""
    show(browser, tmp_path, 200, width=width, theme=theme)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    luminance = """(name) => { const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
      const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
        .map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
      return .2126 * r + .7152 * g + .0722 * b; }"""
    for ink in ("--ink", "--quiet", "--bad", "--good"):
        for ground in ("--card", "--ground"):
            one, other = browser.run(f"[{ink!r}, {ground!r}].map({luminance})")
            ratio = (max(one, other) + 0.05) / (min(one, other) + 0.05)
            assert ratio >= 4.5, (ink, ground, ratio)


def test_paper_is_white_and_the_screen_is_dark_again_afterwards(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, 20, theme="dark")
    now = "document.documentElement.dataset.theme"
    themes = f"[dispatchEvent(new Event('beforeprint')), {now}, dispatchEvent(new Event('afterprint')), {now}]"
    assert browser.run(themes)[1::2] == ["light", "dark"]
    browser.ask("Emulation.setEmulatedMedia", media="print")
    assert browser.run("getComputedStyle(document.getElementById('bar')).display") == "none"
    assert len(browser.ask("Page.printToPDF")["data"]) > 10_000
