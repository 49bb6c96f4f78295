"""Metrics that count nothing: the default of every part that reports.

Relied on by `queue`, `controller`, `election`, `events` and their tests.
"""

from __future__ import annotations

from controller_runtime.observability.protocols import QueueView


class SilentQueueMetrics:
    """Implements `QueueMetrics` and keeps nothing."""

    def attach(self, queue: QueueView) -> None:
        """Do nothing."""

    def added(self) -> None:
        """Do nothing."""

    def retried(self) -> None:
        """Do nothing."""

    def handed_out(self, *, waited: float) -> None:
        """Do nothing."""

    def finished(self, *, ran: float) -> None:
        """Do nothing."""


class SilentControllerMetrics:
    """Implements `ControllerMetrics` and keeps nothing."""

    def workers(self, count: int) -> None:
        """Do nothing."""

    def started(self) -> None:
        """Do nothing."""

    def stopped(self) -> None:
        """Do nothing."""

    def finished(self, *, result: str, seconds: float) -> None:
        """Do nothing."""

    def failed(self, *, terminal: bool, timed_out: bool) -> None:
        """Do nothing."""


class SilentElectionMetrics:
    """Implements `ElectionMetrics` and keeps nothing."""

    def leading(self, *, name: str, is_leader: bool) -> None:
        """Do nothing."""

    def slow_path(self, *, name: str) -> None:
        """Do nothing."""


class SilentEventMetrics:
    """Implements `EventMetrics` and keeps nothing."""

    def written(self) -> None:
        """Do nothing."""

    def dropped(self, *, reason: str) -> None:
        """Do nothing."""
