"""Times as the API writes them, and back. Pure."""

from datetime import UTC, datetime


def stamp(now: datetime) -> str:
    """A `metav1.Time`: RFC 3339, whole seconds, UTC."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str | None) -> datetime | None:
    """What a `metav1.Time` or `MicroTime` says; None for none."""
    return datetime.fromisoformat(text) if text else None


def seconds_since(text: str | None, now: datetime) -> float:
    """How long ago that was; 0 when it never was."""
    then = moment(text)
    return 0.0 if then is None else (now - then).total_seconds()
