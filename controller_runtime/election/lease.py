"""The Lease object: what is read from it, what is written to it, and the numbers of an election.

Pure. Relied on by `campaign`. A lease is kept as the JSON object the server sent, so that a write keeps labels,
annotations and fields this program does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller_runtime.transport.resource import Resource

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
JITTER = 0.25
"""A candidate waits `retry_period` plus up to this part of it, at random: so that a few do not ask in step, and a released lease is
taken within seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The seconds of an election. Raises ValueError for numbers that cannot work."""

    lease_duration: float = 15.0
    """Others wait this long after the last change they saw. Whole seconds: the API has no others."""
    renew_deadline: float = 10.0
    """The leader gives up so long after the start of its last successful renewal."""
    retry_period: float = 2.0
    """Pause between two renewals, and the least pause between two attempts of a candidate."""

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > (1 + JITTER) * self.retry_period > 0:
            raise ValueError(
                f"an election needs lease_duration > renew_deadline > {1 + JITTER} x retry_period > 0, not"
                f" {self.lease_duration:g}, {self.renew_deadline:g}, {self.retry_period:g}"
            )
        if self.lease_duration != int(self.lease_duration):
            raise ValueError(f"lease_duration must be whole seconds, not {self.lease_duration:g}")

    @property
    def margin(self) -> float:
        """Seconds before the lease's end in which no write is begun and workers must stop (see `fence`)."""
        return self.lease_duration - self.renew_deadline

    @property
    def request_timeout(self) -> float:
        """The longest one request may take: half the renew deadline, so that a second try fits, at least 1 s (trap 25)."""
        return max(1.0, self.renew_deadline / 2)


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A lease as it was read."""

    holder: str
    """Empty when nobody holds it."""
    duration: float | None
    """The holder's own leaseDurationSeconds."""
    transitions: int
    acquire_time: str | None
    record: Mapping[str, Any] = field(compare=False)
    """The whole object."""
    spec: Mapping[str, Any]
    """Compared as a whole: any difference is a sign of life (trap 24)."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> LeaseView:
        """Read a decoded Lease; missing and null fields are nothing special."""
        spec = record.get("spec") or {}
        duration = spec.get("leaseDurationSeconds")
        return cls(
            holder=spec.get("holderIdentity") or "",
            duration=float(duration) if duration else None,
            transitions=int(spec.get("leaseTransitions") or 0),
            acquire_time=spec.get("acquireTime"),
            record=record,
            spec=spec,
        )

    def with_spec(self, **changes: Any) -> dict[str, Any]:
        """The whole object with some fields of its spec replaced; its resourceVersion makes the write conditional."""
        return {**self.record, "spec": {**self.spec, **changes}}


def new_lease(*, namespace: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A Lease to create."""
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }
