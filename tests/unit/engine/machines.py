"""Job controller and kubelets of the test's world: Jobs and pods move only when a method says so.

`turn` lets every Job take one step by itself: a waiting one starts its pod, a running one ends as `outcomes` says (or well). A deleted Job
is in the foreground and stays until `turn` or `finish_deletions`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from nodewright.api import keys
from nodewright.engine.conditions import rfc3339
from nodewright.model.objects import (
    Condition,
    ContainerRunning,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    Job,
    JobStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodStatus,
)

replace = msgspec.structs.replace
RUNNING = ContainerState(running=ContainerRunning(started_at="2026-01-01T00:00:00Z"))


def ended(exit_code: int, reason: str = "Error") -> ContainerState:
    """A container that ended."""
    return ContainerState(
        terminated=ContainerTerminated(exit_code=exit_code, reason="Completed" if exit_code == 0 else reason)
    )


class Machines:
    """Jobs and pods, and those who move them."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.jobs: dict[str, Job] = {}
        self.pods: dict[str, Pod] = {}
        self.outcomes: dict[str, str] = {}
        self.started: list[tuple[str, str]] = []
        self.completed: list[tuple[str, str]] = []
        self.backoff_limit = 3
        self._serial = 0

    def new_uid(self, kind: str) -> str:
        """A UID nothing else ever has."""
        self._serial += 1
        return f"{kind}-{self._serial}"

    def version(self) -> str:
        """The next resourceVersion."""
        self._serial += 1
        return str(self._serial)

    def describe(self, job: Job) -> str:
        """`node:package-version:stage`."""
        labels = job.metadata.labels
        return f"{labels.get(keys.LABEL_NODE)}:{labels.get(keys.LABEL_PACKAGE)}:{labels.get(keys.LABEL_STAGE)}"

    def job(self, what: str) -> Job:
        """The Job of `node:package-version:stage`, or of that name."""
        if what in self.jobs:
            return self.jobs[what]
        found = [j for j in self.jobs.values() if self.describe(j) == what]
        assert len(found) == 1, f"{what}: {[self.describe(j) for j in self.jobs.values()]}"
        return found[0]

    def create_job(self, body: Mapping[str, Any]) -> None:
        """What the API server and the Job controller make of a body; the name must be free."""
        wanted = msgspec.convert(dict(body), Job)
        name = wanted.metadata.name
        assert name not in self.jobs, f"AlreadyExists: {self.describe(wanted)}"
        meta = replace(
            wanted.metadata,
            uid=self.new_uid("job"),
            resource_version=self.version(),
            creation_timestamp=rfc3339(self.now),
            generation=1,
        )
        self.jobs[name] = replace(wanted, metadata=meta, status=JobStatus(start_time=rfc3339(self.now)))
        self.started.append((self.describe(wanted), meta.annotations.get(keys.RUN, "")))

    def turn(self) -> bool:
        """One step of every Job; whether anything moved."""
        moved = False
        for name in list(self.jobs):
            job = self.jobs.get(name)
            if job is None:
                continue
            if job.metadata.deletion_timestamp is not None:
                self.finish_deletions(name)
                moved = True
            elif not job.finished and not job.spec.suspend:
                moved = self._move(job) or moved
        return moved

    def _move(self, job: Job) -> bool:
        if job.condition("FailureTarget") is not None:
            self.end_failed(job.metadata.name)
        elif self.pod_of(job) is None:
            self.start(job.metadata.name)
        else:
            outcome = self.outcomes.get(self.describe(job), "ok")
            if outcome == "hang":
                return False
            {"ok": self.succeed, "fail": self.fail, "attempt": self.fail_attempt, "refuse": self.refuse}[outcome](
                job.metadata.name
            )
        return True

    def pod_of(self, job: Job) -> Pod | None:
        """The Job's pod that has not ended."""
        own = [p for p in self.pods.values() if p.metadata.owner_references[0].uid == job.metadata.uid]
        return next((p for p in own if p.status.phase in ("Pending", "Running")), None)

    def start(self, what: str) -> Pod:
        """The Job's pod runs its first step."""
        job = self.job(what)
        name = f"{job.metadata.name}-{self.version()}"
        meta = ObjectMeta(
            name=name,
            uid=self.new_uid("pod"),
            resource_version=self.version(),
            creation_timestamp=rfc3339(self.now),
            labels=dict(job.metadata.labels),
            annotations={k: v for k, v in job.metadata.annotations.items() if k in (keys.RUN, keys.ANNOTATION_PACKAGE)},
            owner_references=(
                OwnerReference(kind="Job", name=job.metadata.name, uid=job.metadata.uid, controller=True),
            ),
        )
        steps = (ContainerStatus(name="init", state=ended(0)), ContainerStatus(name="stage", state=RUNNING))
        status = PodStatus(phase="Pending", start_time=rfc3339(self.now), init_container_statuses=steps)
        self.pods[name] = Pod(meta, status=status)
        self._set_job(job, active=1)
        return self.pods[name]

    def succeed(self, what: str) -> None:
        """The Job's pod ends well, and so the Job."""
        job = self.job(what)
        self._end_pod(job, "Succeeded", (ended(0), ended(0)))
        self._finish(job, "Complete", "")
        self.completed.append((what, job.metadata.annotations.get(keys.RUN, "")))

    def fail_attempt(self, what: str, reason: str = "Error") -> None:
        """The step exits 1; after the last attempt the Job is to fail."""
        job = self.job(what)
        self._end_pod(job, "Failed", (ended(0), ended(1, reason)))
        self._count_failure(what)

    def fail(self, what: str) -> None:
        """Every attempt that is left fails; the Job reads Failed."""
        while self.job(what).condition("FailureTarget") is None:
            self.fail_attempt(what)
        self.end_failed(what)

    def refuse(self, what: str) -> None:
        """The kubelet refuses every attempt at admission: the Job fails, and the package did nothing (JOB-5)."""
        while self.job(what).condition("FailureTarget") is None:
            self._end_pod(self.job(what), "Failed", ())
            self._count_failure(what)
        self.end_failed(what)

    def disrupt(self, what: str) -> None:
        """The pod is preempted or evicted: ignored by the Job's podFailurePolicy."""
        job = self.job(what)
        self._end_pod(job, "Failed", (ended(0), ended(143)), (Condition(type="DisruptionTarget", status="True"),))
        self._set_job(self.job(what), failed=self.job(what).status.failed + 1, active=0)

    def end_failed(self, what: str) -> None:
        """FailureTarget becomes Failed."""
        target = self.job(what).condition("FailureTarget")
        self._finish(self.job(what), "Failed", target.reason if target else "BackoffLimitExceeded")

    def _count_failure(self, what: str) -> None:
        job = self.job(what)
        self._set_job(job, failed=job.status.failed + 1, active=0)
        job = self.job(what)
        if job.status.failed > self.backoff_limit:
            self._set_job(
                job, conditions=(*job.status.conditions, self._condition("FailureTarget", "BackoffLimitExceeded"))
            )

    def _finish(self, job: Job, type_: str, reason: str) -> None:
        conditions = (*job.status.conditions, self._condition(type_, reason))
        self._set_job(
            job, conditions=conditions, active=0, succeeded=int(type_ == "Complete"), completion_time=rfc3339(self.now)
        )

    def _condition(self, type_: str, reason: str, status: str = "True") -> Condition:
        return Condition(type=type_, status=status, reason=reason, last_transition_time=rfc3339(self.now))

    def _end_pod(
        self, job: Job, phase: str, steps: tuple[ContainerState, ...], conditions: tuple[Condition, ...] = ()
    ) -> None:
        pod = self.pod_of(job) or self.start(job.metadata.name)
        statuses = tuple(ContainerStatus(name=f"step-{i}", state=s) for i, s in enumerate(steps))
        self.pods[pod.metadata.name] = replace(
            pod, status=replace(pod.status, phase=phase, init_container_statuses=statuses, conditions=conditions)
        )

    def _set_job(self, job: Job, **status: Any) -> None:
        current = self.jobs[job.metadata.name]
        meta = replace(current.metadata, resource_version=self.version())
        self.jobs[job.metadata.name] = replace(current, metadata=meta, status=replace(current.status, **status))

    def mark(self, job: Job, ttl: int) -> None:
        """What a `JobMark` does; a mark carries the Job's UID."""
        live = self.jobs.get(job.metadata.name)
        if live is not None and live.metadata.uid == job.metadata.uid:
            annotations = {**live.metadata.annotations, keys.STATE_RECORDED: "true"}
            meta = replace(live.metadata, annotations=annotations, resource_version=self.version())
            self.jobs[job.metadata.name] = replace(
                live, metadata=meta, spec=replace(live.spec, ttl_seconds_after_finished=ttl)
            )

    def suspend(self, name: str, *, on: bool) -> None:
        """Set `spec.suspend`; the pod of a suspended Job is deleted and none of its attempts is spent (JOB-16)."""
        job = self.jobs[name]
        if on:
            pod = self.pod_of(job)
            if pod is not None:
                del self.pods[pod.metadata.name]
        suspended = self._condition("Suspended", "JobSuspended" if on else "JobResumed", "True" if on else "False")
        others = tuple(c for c in job.status.conditions if c.type != "Suspended")
        self.jobs[name] = replace(job, spec=replace(job.spec, suspend=on))
        self._set_job(job, conditions=(*others, suspended), active=0)

    def delete_job(self, name: str) -> None:
        """Foreground deletion begins: the Job stays until its pods are gone."""
        job = self.jobs[name]
        if job.metadata.deletion_timestamp is None:
            meta = replace(job.metadata, deletion_timestamp=rfc3339(self.now), resource_version=self.version())
            self.jobs[name] = replace(job, metadata=meta)

    def finish_deletions(self, *names: str) -> None:
        """The pods of deleted Jobs are gone, and so are they."""
        for name in names or tuple(self.jobs):
            job = self.jobs[name]
            if job.metadata.deletion_timestamp is not None:
                self.drop(name)

    def drop(self, name: str) -> None:
        """The Job and its pods are not there any more, as after its TTL."""
        job = self.jobs.pop(name)
        self._drop_pods(job.metadata.uid)

    def collect_garbage(self, owner: str) -> None:
        """What the garbage collector does when an owner is gone."""
        for name, job in list(self.jobs.items()):
            if job.metadata.owner_references and job.metadata.owner_references[0].uid == owner:
                self.drop(name)

    def _drop_pods(self, uid: str) -> None:
        for name in [n for n, p in self.pods.items() if p.metadata.owner_references[0].uid == uid]:
            del self.pods[name]
