"""The Job controller: carries out what `job_plan` says, one Job at a time.

Relies on a shared `Picture` and on `Requests`, which shows it its own writes. `Controllers` runs it. As the real one does, it gathers
changes of pods for a second, keeps back-offs in memory only, and never marks a Job finished before each of its pods is counted and over.
"""

import asyncio

import msgspec
from msgspec.structs import replace

from controller_runtime.cache import Change
from controller_runtime.clock import Clock
from controller_runtime.controller import Controller, Request, Result
from controller_runtime.events import EventRecorder, ObjectReference
from controller_runtime.transport import AlreadyExists, ApiError, NotFound, PatchType
from nodewright.simulator.controllers import job_plan
from nodewright.simulator.controllers.job_backoff import Failures
from nodewright.simulator.controllers.job_bodies import pod_body, pod_name, release_patch, status_patch
from nodewright.simulator.controllers.picture import Picture
from nodewright.simulator.controllers.requests import LIFE, Requests, retry_backoff, version_of
from nodewright.simulator.controllers.settings import ControllerSettings
from nodewright.simulator.controllers.times import stamp
from nodewright.simulator.controllers.views import JOB, POD, Condition, Job, JobStatus, Pod, controller_of

JOB_CONTROLLER = "kubernetes.io/job-controller"
_NAMES_TRIED = 20


class JobController:
    """Makes, counts and ends the pods of Jobs. `run` until cancelled, after the picture is synced.

    Not done: Jobs with indexes (left alone), success policies, adoption of pods by label.
    """

    def __init__(
        self,
        requests: Requests,
        picture: Picture,
        *,
        settings: ControllerSettings,
        clock: Clock,
        recorder: EventRecorder | None = None,
    ) -> None:
        self._requests = requests
        self._jobs, self._pods = picture.jobs, picture.pods
        self._settings = settings
        self._clock = clock
        self._recorder = recorder
        self._failures: dict[str, Failures] = {}
        self._numbers: dict[str, int] = {}
        """By UID of the Job: the number of its next pod."""
        backoff, workers = retry_backoff(settings.job_retry_seconds), settings.concurrency
        self._controller = Controller("job", self._sync, concurrency=workers, backoff=backoff, expected_errors=LIFE)
        self._orphans = Controller(
            "job-orphan-pod", self._release_orphan, concurrency=workers, backoff=backoff, expected_errors=LIFE
        )
        self._jobs.subscribe(self._job_changed)
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="jobs")
            group.create_task(self._orphans.run(), name="job-orphan-pods")

    # --- what changes

    def _job_changed(self, change: Change[Job]) -> None:
        old, new = change.old, change.new
        job = new or old
        assert job is not None
        same_spec = old is not None and new is not None and old.spec == new.spec
        delay = self._settings.job_batch_seconds if same_spec else 0.0
        self._controller.queue.add(job.metadata.key, after=delay)
        if new is None:
            self._failures.pop(job.metadata.uid, None)
            self._numbers.pop(job.metadata.uid, None)
        if new is None or new.finished:
            for pod in self._pods.by_index("job", job.metadata.uid):
                if pod.tracked:
                    self._orphans.queue.add(pod.metadata.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        for pod in (change.old, change.new):
            owner = None if pod is None else controller_of(pod.metadata)
            if pod is not None and owner is not None and owner.kind == JOB.kind:
                job = self._jobs.get(f"{pod.metadata.namespace}/{owner.name}")
                if job is not None and job.metadata.uid == owner.uid and not job.finished:
                    self._controller.queue.add(job.metadata.key, after=self._settings.job_batch_seconds)
                    continue
            if pod is change.new and pod is not None and pod.tracked:
                self._orphans.queue.add(pod.metadata.key)

    # --- one Job

    async def _sync(self, request: Request) -> Result:
        job = self._jobs.get(request.key)
        if job is None or job.finished:
            if job is not None:
                self._failures.pop(job.metadata.uid, None)
            return Result()
        if job.spec.managed_by not in (None, JOB_CONTROLLER) or job.spec.completion_mode != "NonIndexed":
            return Result()
        return await _Look(self, job).take()

    async def _release_orphan(self, request: Request) -> Result:
        """Take the finalizer off a pod that no unfinished Job will count any more."""
        pod = self._pods.get(request.key)
        if pod is None or not pod.tracked:
            return Result()
        owner = controller_of(pod.metadata)
        if owner is not None:
            if owner.kind != JOB.kind:
                return Result()
            job = self._jobs.get(f"{pod.metadata.namespace}/{owner.name}")
            if job is not None and job.metadata.uid == owner.uid and not job.finished:
                return Result()
        await self.release(pod)
        return Result()

    # --- requests

    async def release(self, pod: Pod) -> None:
        """Remove the tracking finalizer."""
        await self._requests.patch(POD, self._pods, pod.metadata, release_patch(pod), PatchType.STRATEGIC)

    async def delete(self, pod: Pod) -> None:
        """Delete a pod with its own grace."""
        await self._requests.delete(POD, self._pods, pod.metadata)

    async def create(self, job: Job) -> None:
        """Make the Job's next pod.

        A name that is taken by a pod of this Job is a create whose answer was lost; another's is passed over.
        """
        uid, namespace = job.metadata.uid, job.metadata.namespace
        for _ in range(_NAMES_TRIED):
            name = pod_name(job, self._numbers.get(uid, 0))
            try:
                raw = await self._requests.client.create(POD, pod_body(job, name), namespace=namespace)
            except AlreadyExists:
                raw = await self._taken(job, name)
            except ApiError as error:
                self._say(job, "FailedCreate", f"Error creating: {error.message}", warning=True)
                raise
            self._numbers[uid] = self._numbers.get(uid, 0) + 1
            if raw:
                self._pods.observe(raw)
                self._say(job, "SuccessfulCreate", f"Created pod: {name}")
                return
        raise RuntimeError(f"Job {job.metadata.key}: {_NAMES_TRIED} names for its next pod are all taken")

    async def _taken(self, job: Job, name: str) -> bytes:
        try:
            raw = await self._requests.client.get(POD, name, namespace=job.metadata.namespace)
        except NotFound:
            return b""
        pod = msgspec.json.decode(raw, type=Pod)
        owner = controller_of(pod.metadata)
        ours = owner is not None and owner.uid == job.metadata.uid and pod.metadata.key not in self._pods
        return raw if ours else b""

    def _say(self, job: Job, reason: str, note: str, *, warning: bool = False) -> None:
        if self._recorder is None:
            return
        meta = job.metadata
        about = ObjectReference(
            api_version=JOB.api_version, kind=JOB.kind, name=meta.name, namespace=meta.namespace, uid=meta.uid
        )
        self._recorder.event(about, type="Warning" if warning else "Normal", reason=reason, action=reason, note=note)


class _Look:
    """One look at one Job, from reading its pods to its status."""

    def __init__(self, controller: JobController, job: Job) -> None:
        self._c = controller
        self._job = job
        self._now = controller._clock.now()
        self._version = controller._jobs.resource_version(job.metadata.key)
        self._written = job.status
        self._error: Exception | None = None
        self._wait: float | None = None

    async def take(self) -> Result:
        controller, job, now = self._c, self._job, self._now
        pods = controller._pods.by_index("job", job.metadata.uid)
        seen = job_plan.survey(job, pods)
        status = job.status
        if status.start_time is None and not job.spec.suspend:
            status = replace(status, start_time=stamp(now))
        failures = controller._failures.get(job.metadata.uid, Failures()).after(seen.newly_succeeded, seen.newly_failed)
        end = job_plan.verdict(job, pods, seen, now)
        status = replace(status, active=len(seen.active), ready=seen.ready, terminating=seen.terminating)
        if end is not None:
            status = await self._delete(seen.active, status, count=True)
            end = None if status.active else end
        else:
            if job.metadata.deletion_timestamp is None:
                status = await self._staff(seen, failures, status)
            if job_plan.is_complete(job, seen, status.active):
                end = job_plan.success(now)
            elif job.metadata.deletion_timestamp is None:
                status = job_plan.with_suspension(status, suspended=job.spec.suspend, now=now)
            self._sooner(job_plan.seconds_to_deadline(replace(job, status=status), now))
        await self._track(pods, status, end, failures)
        if self._error is not None:
            return Result(error=self._error)
        return Result(requeue_after=self._wait)

    async def _staff(self, seen: job_plan.Survey, failures: Failures, status: JobStatus) -> JobStatus:
        settings = self._c._settings
        wait = failures.wait(self._now, first=settings.job_backoff_seconds, longest=settings.job_backoff_limit_seconds)
        plan = job_plan.staffing(self._job, seen, wait)
        self._sooner(plan.wait)
        if plan.delete:
            return await self._delete(plan.delete, status, count=False)
        for _ in range(plan.create):
            try:
                await self._c.create(self._job)
            except LIFE as error:
                self._error = error
                break
            status = replace(status, active=status.active + 1)
        return status

    async def _delete(self, pods: tuple[Pod, ...], status: JobStatus, *, count: bool) -> JobStatus:
        """Delete pods; those that are not to be counted lose their finalizer first."""
        for pod in pods:
            try:
                if not count and pod.tracked:
                    await self._c.release(pod)
                await self._c.delete(pod)
            except LIFE as error:
                self._error = error
                continue
            ready = (status.ready or 0) - pod.ready
            status = replace(status, active=status.active - 1, ready=ready, terminating=(status.terminating or 0) + 1)
        return status

    async def _track(self, pods: tuple[Pod, ...], status: JobStatus, end: Condition | None, failures: Failures) -> None:
        """Write what is to be counted, then remove finalizers, then count. Any step may be the last: the next look goes on."""
        counted = job_plan.count(self._job, pods, status, end, self._now)
        await self._write(counted.status)
        self._c._failures[self._job.metadata.uid] = failures
        held = {pod.metadata.uid for pod in pods if pod.tracked}
        for pod in counted.release:
            try:
                await self._c.release(pod)
            except LIFE as error:
                self._error = error
            else:
                held.discard(pod.metadata.uid)
        status = job_plan.settle(counted.status, held)
        await self._write(job_plan.conclude(status, counted.end))

    async def _write(self, status: JobStatus) -> None:
        body = status_patch(self._job, self._written, status, self._version)
        if body is None:
            return
        raw = await self._c._requests.client.patch(
            JOB,
            self._job.metadata.name,
            body,
            PatchType.MERGE,
            namespace=self._job.metadata.namespace,
            subresource="status",
        )
        self._c._jobs.observe(raw)
        self._version = version_of(raw)
        self._written = status

    def _sooner(self, seconds: float | None) -> None:
        if seconds is not None:
            self._wait = seconds if self._wait is None else min(self._wait, seconds)
