"""One container of one simulated pod: what it does and what its kubelet has reported of it so far.

The difference matters. A real kubelet looks at its runtime about once a second, so a container that ends within that time is never seen
running; and between two looks the status it sends still shows the old state. `shown` is the fragment of the last look.
"""

import functools
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any

from nodewright.simulator.kubelets.pod_view import Container
from nodewright.simulator.rules import Outcome


class Phase(Enum):
    """What the container runtime would answer."""

    WAITING = auto()
    RUNNING = auto()
    TERMINATED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """How a container ended; times are of the machine's clock."""

    exit_code: int
    reason: str
    started_at: float | None = None
    finished_at: float | None = None
    message: str = ""

    def render(self, offset: float, container_id: str) -> dict[str, Any]:
        """The `terminated` state of the API."""
        body: dict[str, Any] = {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "startedAt": None if self.started_at is None else timestamp(self.started_at + offset),
            "finishedAt": None if self.finished_at is None else timestamp(self.finished_at + offset),
        }
        if self.message:
            body["message"] = self.message
        if self.started_at is not None:
            body["containerID"] = container_id
        return body


@dataclass(slots=True, kw_only=True)
class ContainerRun:
    """Mutable state of one container; changed by the pod machine only. Times are of the machine's clock, in seconds."""

    spec: Container
    init: bool
    pod_uid: str
    phase: Phase = Phase.WAITING
    outcome: Outcome = field(default_factory=Outcome)
    attempt: int = 1
    started_at: float = 0.0
    ends_at: float = 0.0
    observe_at: float = math.inf
    """When the kubelet looks next; infinite once it has seen the present state."""
    retry_at: float = 0.0
    back_off: float = 0.0
    restarts: int = 0
    pull_failures: int = 0
    termination: Termination | None = None
    last_termination: Termination | None = None
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def succeeded(self) -> bool:
        """Ended with exit code 0."""
        return self.phase is Phase.TERMINATED and self.termination is not None and self.termination.exit_code == 0

    @property
    def failed(self) -> bool:
        """Ended with another exit code."""
        return self.phase is Phase.TERMINATED and not self.succeeded

    @property
    def container_id(self) -> str:
        """An ID that differs by restart, as a runtime's does."""
        return f"containerd://{self.pod_uid.replace('-', '')}{self.spec.name}{self.restarts}"

    def show_waiting(self, reason: str, message: str = "") -> None:
        """Report the container as waiting."""
        waiting = {"reason": reason, "message": message} if message else {"reason": reason}
        self._show({"waiting": waiting}, ready=False, started=False)

    def show(self, offset: float) -> None:
        """Report what the runtime says now."""
        if self.phase is Phase.RUNNING:
            state = {"running": {"startedAt": timestamp(self.started_at + offset)}}
            self._show(state, ready=not self.init, started=True, offset=offset)
        elif self.termination is not None:
            state = {"terminated": self.termination.render(offset, self.container_id)}
            self._show(state, ready=self.init and self.succeeded, started=False, offset=offset)

    def _show(self, state: dict[str, Any], *, ready: bool, started: bool, offset: float = 0.0) -> None:
        body: dict[str, Any] = {
            "name": self.spec.name,
            "state": state,
            "lastState": {},
            "ready": ready,
            "restartCount": self.restarts,
            "image": self.spec.image,
            "imageID": "",
            "started": started,
        }
        if "waiting" not in state:
            body["imageID"] = self.spec.image
            body["containerID"] = self.container_id
        if self.last_termination is not None:
            body["lastState"] = {"terminated": self.last_termination.render(offset, self.container_id)}
        self.shown = body


@functools.lru_cache(maxsize=512)
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timestamp(seconds: float) -> str:
    """Unix seconds as the API writes times: UTC, whole seconds."""
    return _second(int(seconds))
