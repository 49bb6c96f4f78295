"""How long a Job waits before its next pod after failed ones. Pure; the controller keeps one `Failures` per Job in memory, as the real one.

A restart of the controller forgets: the next pod comes at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nodewright.simulator.controllers.times import moment
from nodewright.simulator.controllers.views import Pod, find

_BEGINNING = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failed pods since the last one that succeeded, and when the newest failed. Ignored pods are among them."""

    count: int = 0
    last: datetime | None = None

    def after(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> "Failures":
        """With pods that ended since."""
        ends = sorted(finish_time(pod) for pod in failed)
        last_success = max((finish_time(pod) for pod in succeeded), default=None)
        if last_success is not None:
            ends = [end for end in ends if end > last_success]
            return Failures(count=len(ends), last=ends[-1] if ends else None)
        return Failures(count=self.count + len(ends), last=ends[-1]) if ends else self

    def wait(self, now: datetime, *, first: float, longest: float) -> float:
        """Seconds until the next pod may be made: `first`, doubled with each further failure, since the newest one."""
        if self.last is None or self.count == 0:
            return 0.0
        delay = min(first * 2.0 ** min(self.count - 1, 32), longest)
        return max(0.0, delay - (now - self.last).total_seconds())


def finish_time(pod: Pod) -> datetime:
    """When a pod was over: its last container's end, else since when it is not ready, else its deletion, else its creation."""
    statuses = pod.status.container_statuses
    ends = [moment(one.state.terminated.finished_at) for one in statuses if one.state.terminated is not None]
    known = [end for end in ends if end is not None]
    if known and len(known) == len(statuses):
        return max(known)
    ready = find(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return moment(ready.last_transition_time) or _BEGINNING
    deleted = moment(pod.metadata.deletion_timestamp)
    if deleted is not None:
        return deleted - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
    return moment(pod.metadata.creation_timestamp) or _BEGINNING
