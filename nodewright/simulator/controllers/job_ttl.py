"""Deletes finished Jobs when their `ttlSecondsAfterFinished` is over, in the foreground, if they are still what they were."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from controller_runtime.clock import Clock
from controller_runtime.controller import Controller, Request, Result, object_key
from controller_runtime.transport import NotFound
from nodewright.simulator.controllers.picture import Picture
from nodewright.simulator.controllers.requests import LIFE, Requests, retry_backoff
from nodewright.simulator.controllers.settings import ControllerSettings
from nodewright.simulator.controllers.times import seconds_since
from nodewright.simulator.controllers.views import JOB, Job


def seconds_to_expiry(job: Job, now: datetime) -> float | None:
    """Until the Job may go; None for one that is not finished, has no TTL, or is being deleted."""
    end, ttl = job.finished, job.spec.ttl_seconds_after_finished
    if end is None or ttl is None or job.metadata.deletion_timestamp is not None:
        return None
    return ttl - seconds_since(end.last_transition_time, now)


class JobTtlController:
    """`run` until cancelled, after the picture is synced."""

    def __init__(self, requests: Requests, picture: Picture, *, settings: ControllerSettings, clock: Clock) -> None:
        self._requests = requests
        self._jobs = picture.jobs
        self._clock = clock
        self._controller = Controller(
            "job-ttl", self._sync, concurrency=settings.concurrency, backoff=retry_backoff(1.0), expected_errors=LIFE
        )
        self._controller.watches(self._jobs, _key_with_ttl)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def _sync(self, request: Request) -> Result:
        job = self._jobs.get(request.key)
        left = None if job is None else seconds_to_expiry(job, self._clock.now())
        if job is None or left is None:
            return Result()
        if left > 0:
            return Result(requeue_after=left)
        meta = job.metadata
        try:  # a TTL that was raised a moment ago must be heeded: look live before the end
            raw = await self._requests.client.get(JOB, meta.name, namespace=meta.namespace)
        except NotFound:
            return Result()
        live = msgspec.json.decode(raw, type=Job)
        left = seconds_to_expiry(live, self._clock.now())
        if live.metadata.uid != meta.uid or left is None:
            return Result()
        if left > 0:
            return Result(requeue_after=left)
        await self._requests.delete(
            JOB,
            self._jobs,
            live.metadata,
            resource_version=live.metadata.resource_version,
            propagation="Foreground",
        )
        return Result()


def _key_with_ttl(job: Job) -> Iterable[str]:
    has_ttl = job.finished is not None and job.spec.ttl_seconds_after_finished is not None
    return object_key(job) if has_ttl else ()
