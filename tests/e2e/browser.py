"""A headless Chromium that a test operates as a person would: keys, mouse, and what the page shows then.

Speaks the DevTools protocol over a pipe of two file descriptors, so that no port is opened. Relied on by `test_report_operated.py`.
"""

import base64
import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

DEADLINE_SECONDS = 60.0
_KEYS = {
    "Enter": 13,
    "Escape": 27,
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "End": 35,
    "Home": 36,
    "Tab": 9,
}


class Browser:
    """A context manager with one page; `errors` are the exceptions that its script raised, `requests` what it asked for."""

    def __init__(self, program: str, arguments: Sequence[str], profile: Path) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._number, self._rest = 0, b""
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The protocol's pipe is the descriptors 3 and 4; a shell puts them there in the child alone.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        command = [
            "bash", "-c", script, "bash", program, *arguments, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self._session = ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._write)
        os.close(self._read)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol, and its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._heard(answer)

    def open(self, url: str, *, width: int = 1400, height: int = 1200) -> float:
        """Show a page; how many seconds it took until it had drawn itself."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        began = time.monotonic()
        self.ask("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready === 'true'")
        return time.monotonic() - began

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        done = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until the expression holds."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"never held: {expression}"
            time.sleep(0.02)

    def drawn(self) -> str:
        """What the chart shows now, as a picture in text, after the page has drawn what was asked for."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return str(self.run("document.getElementById('gantt').toDataURL()"))

    def key(self, *names: str) -> None:
        """Press keys one after another."""
        for name in names:
            code = _KEYS.get(name, ord(name[0].upper()))
            text = {} if len(name) > 1 else {"text": name}
            self.ask("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, **text)
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """`mouseMoved`, `mousePressed`, `mouseReleased` or `mouseWheel` at a point of the chart."""
        left, top = self.run(
            "(() => { const r = document.getElementById('gantt').getBoundingClientRect(); return [r.left, r.top]; })()"
        )
        self.ask("Input.dispatchMouseEvent", type=kind, x=left + x, y=top + y, **more)

    def picture(self, file: Path) -> None:
        """A screenshot."""
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], DEADLINE_SECONDS)
            piece = os.read(self._read, 1 << 20) if ready else b""
            assert piece, "the browser says nothing"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _heard(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(event["params"]["exceptionDetails"]))
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
