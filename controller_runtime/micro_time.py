"""Kubernetes' MicroTime, for Leases and Events."""

from datetime import UTC, datetime


def micro_time(moment: datetime) -> str:
    """UTC, always six digits of a second, `Z`: `isoformat` alone would drop the digits of a whole second (trap 32)."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
