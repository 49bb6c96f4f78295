"""When a refused request is sent again: the server asked for it, and sending it twice does no harm (trap 34)."""

from email.utils import parsedate_to_datetime

from controller_runtime.clock import Clock
from controller_runtime.transport.errors import ApiError

MAX_ATTEMPTS = 6
MAX_RETRY_AFTER = 30.0
"""Seconds; a server that asks for more gets its refusal handed to the caller instead."""
_TWICE_IS_ONCE = ("GET", "PUT", "DELETE")


def wait_before_retry(method: str, error: ApiError, *, apply: bool = False) -> float | None:
    """Seconds to wait before the same request is sent again; None when the refusal is the answer (trap 34)."""
    if error.status == 429:
        if error.details.has_cause("DisruptionBudget"):
            return None
        wait = 1.0 if error.retry_after is None else error.retry_after
    elif error.status >= 500 and error.retry_after is not None:
        twice_is_once = method in _TWICE_IS_ONCE or apply
        if not twice_is_once:
            return None
        wait = error.retry_after
    else:
        return None
    return None if wait > MAX_RETRY_AFTER else max(wait, 0.1)


def retry_after(header: str | None, clock: Clock) -> float | None:
    """Seconds from a `Retry-After` header: a number, or a date; None for anything else."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        return max((moment - clock.now()).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
