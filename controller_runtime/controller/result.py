"""What a reconcile function is given and what it may answer.

Relied on by `controller` and by everything that is a reconcile function.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from controller_runtime.queue import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a pass ended, when it raised nothing."""

    requeue_after: float | None = None
    """Seconds until the key is to be looked at again, for a deadline known in advance; None = when something changes.

    It never delays an add: of both the earlier wins. Raises ValueError when it is not a finite number.
    """
    error: Exception | None = None
    """A pass that did what it could and failed in part. The key backs off; `requeue_after` is ignored (trap 52)."""

    def __post_init__(self) -> None:
        if self.requeue_after is not None and not math.isfinite(self.requeue_after):
            raise ValueError(f"requeue_after must be a finite number of seconds, not {self.requeue_after}")


class TerminalError(Exception):
    """Raised by a reconcile function for a fault that trying again cannot cure: the key waits for its next change."""


Reconcile = Callable[[Request], Awaitable[Result]]
"""Brings the world one step nearer to what the object of `request.key` wants. Must not swallow cancellation."""
