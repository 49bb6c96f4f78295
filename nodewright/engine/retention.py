"""Which finished Jobs go before their TTL (JOB-18): the cluster's pod garbage collector would otherwise remove anybody's pods."""

from collections.abc import Iterable

from nodewright.api import keys
from nodewright.model.objects import Job


def surplus(jobs: Iterable[Job], retain: int) -> list[Job]:
    """The oldest succeeded and marked Jobs above `retain` finished ones. Failed ones count but never go."""
    finished = [job for job in jobs if job.finished]
    excess = len(finished) - retain
    if excess <= 0:
        return []
    free = [
        job
        for job in finished
        if job.condition("Complete") is not None
        and job.metadata.annotations.get(keys.STATE_RECORDED) == "true"
        and job.metadata.deletion_timestamp is None
    ]
    free.sort(key=lambda job: (job.status.completion_time or "", job.metadata.name))
    return free[:excess]
