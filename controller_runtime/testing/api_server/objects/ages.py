"""Times of the API, and ages as `kubectl get` shows them. The tables rely on it."""

from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "<unknown>"


def parse_time(text: object) -> datetime | None:
    """An RFC 3339 time, with or without fractions of a second; None for anything else."""
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def age(moment: datetime | None, now: datetime) -> str:
    """How long ago it was: `5s`, `3m20s`, `4h`, `2d3h`; `<unknown>` without a time."""
    return UNKNOWN if moment is None else duration((now - moment).total_seconds())


def duration(seconds: float) -> str:
    """A duration the way people read it, with two units while the larger one is small; the future is `<invalid>`."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"
