"""The report in a real browser: it draws itself, without a request to anywhere and without an error, at 20 and at 1,000 nodes (CLI-13)."""

import functools
import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodewright.simulator.ledger import Entry, Event
from nodewright.simulator.outcome import Ending, Outcome, cr_outcome
from nodewright.simulator.report import render
from nodewright.simulator.timeline import Timeline

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--virtual-time-budget=4000",
]
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on the PATH")


def page(nodes: int, *, hostile: str = "") -> str:
    """A rollout in batches of a tenth, of two stages each; every 50th node fails for good."""
    now = 0.0
    timeline = Timeline(lambda: now, epoch=0.0)
    size = max(1, nodes // 10)
    for index in range(nodes):
        name, batch = f"node-{index:04d}", index // size + 1
        now = 0.0
        timeline.said("fleet", name, status="waiting", code="BatchFull", text=f"waits{hostile}", release="")
        now = 100.0 * (batch - 1)
        timeline.picked("fleet", name, compartment="__default__", batch=batch)
        timeline.said("fleet", name, status="in_progress", code="", text="", release="")
        failed = index % 50 == 7
        for at, (stage, outcome) in enumerate(
            (("apply", "succeeded"), ("config", "failed:3" if failed else "succeeded"))
        ):
            fields: dict[str, Any] = {
                "node": name, "pod_uid": f"{name}{stage}", "cr": "fleet", "package": "tuning", "version": "1.2.3",
                "stage": stage, "container": "done", "attempt": 1,
            }  # fmt: skip
            timeline.ran(Entry(time=now + 40 * at, event=Event.START, **fields))
            timeline.ran(Entry(time=now + 40 * at + 35, event=Event.END, outcome=outcome, **fields))
        now += 80.0
        status, code = ("erroring", "StageFailed") if failed else ("complete", "")
        timeline.said(
            "fleet", name, status=status, code=code, text=f"{name} failed" if failed else "", release="rerun it"
        )
    cr = cr_outcome("fleet", {"status": "erroring", "conditions": []}, timeline)
    whole = Outcome(seed=0, nodes=nodes, ending=Ending.STUCK, seconds=timeline.changed_at, crs=(cr,))
    return render(whole, timeline, title=f"Rollout{hostile}")


class _Requests(http.server.SimpleHTTPRequestHandler):
    seen: list[str] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Silent."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    _Requests.seen = []
    handler = functools.partial(_Requests, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def browse(url: str, tmp_path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [
        str(BROWSER),
        *QUIET,
        f"--user-data-dir={tmp_path / 'profile'}",
        "--enable-logging=stderr",
        *arguments,
        url,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_the_page_fetches_nothing() -> None:
    """Neither addresses nor imports nor fonts: it can be mailed and opened years later."""
    text = page(20)
    assert re.search(r"""https?://|(?:src|href)\s*=|@import|url\(|fetch\(|import\(""", text) is None


def test_nothing_of_the_rollout_becomes_markup() -> None:
    text = page(3, hostile="</script><script>alert(1)</script><!--")
    assert "<script>alert" not in text
    assert text.count("</script>") == 2


def test_a_thousand_nodes_stay_small() -> None:
    assert len(page(1000)) < 1_000_000


@needs_browser
@pytest.mark.parametrize("nodes", [20, 1000])
def test_a_browser_draws_it_without_an_error(site: str, tmp_path: Path, nodes: int) -> None:
    (tmp_path / "report.html").write_text(page(nodes), encoding="utf-8")
    done = browse(f"{site}/report.html", tmp_path, "--dump-dom", "--window-size=1400,1400")
    failed = len([index for index in range(nodes) if index % 50 == 7])
    assert 'data-ready="true"' in done.stdout
    assert f"{nodes - failed}/{nodes}" in done.stdout
    assert f"Not complete: {failed} of {nodes} nodes" in done.stdout
    assert f"{nodes} nodes</span>" in done.stdout
    assert re.search(rf'aria-label="Chart of {nodes} nodes from 0:00:00', done.stdout)
    assert f"at most {nodes // 10} in progress at once" in done.stdout
    assert "BatchFull" in done.stdout
    assert not re.search(r"CONSOLE.*(Error|Refused)", done.stderr)
    assert [path for path in _Requests.seen if path != "/favicon.ico"] == ["/report.html"]


@needs_browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_has_something_to_see_in_both_themes(site: str, tmp_path: Path, theme: str) -> None:
    (tmp_path / "report.html").write_text(page(200), encoding="utf-8")
    picture = tmp_path / "picture.png"
    browse(f"{site}/report.html?theme={theme}", tmp_path, f"--screenshot={picture}", "--window-size=1200,1200")
    assert picture.stat().st_size > 20_000
