"""Writes to Jobs and their pods (JOB). Relied on by the executor's node sequences; relies on `cluster` for what an answer means."""

import logging
from datetime import datetime
from typing import Final

import anyio

from controller_runtime.clock import Clock
from controller_runtime.transport import AlreadyExists, ApiError, PatchType
from nodewright.api import keys
from nodewright.model.objects import Job, ObjectMeta, Pod, owner_uid
from nodewright.model.plan import JobCreate, JobDelete, JobMark, JobSuspend, PodDelete
from nodewright.model.snapshot import CR
from nodewright.operator import resources
from nodewright.operator.answers import REFUSED
from nodewright.operator.cluster import Cluster, Target, is_refusal
from nodewright.operator.informers import Stores
from nodewright.operator.memory import CRMemory, Tally

_log = logging.getLogger(__name__)
ALREADY_EXISTS: Final = "AlreadyExists"


class JobWrites:
    """Creates, marks, suspends and deletes Jobs; deletes failed pods."""

    def __init__(self, cluster: Cluster, stores: Stores, clock: Clock) -> None:
        self._cluster = cluster
        self._stores = stores
        self._clock = clock

    async def create(self, cr: CR, create: JobCreate, memory: CRMemory, tally: Tally) -> float | None:
        """Create a stage's Job, unless a refusal holds it back; answers the seconds until it is to be tried again, if any.

        A refused create changes nothing (LIF-12) and stops nothing. The name is the claim: after a create without an answer the
        same name is tried again, and AlreadyExists is fine if the Job there is ours (trap 56).

        Raises:
            ApiError, TransportError: the server failed or did not answer.
        """
        held = f"Job/{create.name}"
        wait = memory.answers.wait(held, anyio.current_time())
        if wait > 0:
            return wait
        tally.writes += 1
        try:
            await self._cluster.create(self._target(create.name), create.body)
        except AlreadyExists as error:
            return await self._taken(cr, create, memory, error)
        except ApiError as error:
            if not is_refusal(error):
                raise
            _log.warning(
                "Job %s was refused: %s", create.name, error.message,
                extra={"cr": cr.name, "package": create.package, "stage": create.stage},
            )  # fmt: skip
            return self._refuse(memory, held, text=error.message, reason=error.reason)
        tally.jobs += 1
        memory.answers.accepted(held)
        memory.answers.unproven.pop(create.name, None)
        return None

    async def _taken(self, cr: CR, create: JobCreate, memory: CRMemory, error: AlreadyExists) -> float | None:
        """Somebody has the name (JOB-9): a Job of ours that the picture did not have yet, or one that is never touched."""
        target = self._target(create.name)
        before = target.store.get(target.key)
        found = await self._cluster.refresh(target)
        held = f"Job/{create.name}"
        if found is not None and _is_ours(found, cr, create) and (found is not before or _of_this_run(found, create)):
            memory.answers.accepted(held)
            return None
        # Foreign, of another claim, out of scope, or known already and yet planned: never touched, and no reason to hurry.
        return self._refuse(memory, held, text=error.message, reason=ALREADY_EXISTS)

    async def mark(self, mark: JobMark, tally: Tally) -> None:
        """Say on the Job that its outcome is recorded, and how long it stays, in one write (JOB-3)."""
        meta = mark.job.metadata
        body = {
            "metadata": {"uid": meta.uid, "annotations": {keys.STATE_RECORDED: "true"}},
            "spec": {"ttlSecondsAfterFinished": mark.ttl_seconds},
        }
        tally.writes += 1
        await self._cluster.patch(self._target(meta.name, meta.uid), body, PatchType.MERGE)

    async def suspend(self, suspend: JobSuspend, tally: Tally) -> None:
        """Suspend or resume an unfinished Job (JOB-16)."""
        meta = suspend.job.metadata
        body = {"metadata": {"uid": meta.uid}, "spec": {"suspend": suspend.suspend}}
        tally.writes += 1
        await self._cluster.patch(self._target(meta.name, meta.uid), body, PatchType.MERGE)

    async def delete(self, delete: JobDelete, memory: CRMemory, tally: Tally) -> None:
        """Delete a Job in the foreground if it is still what the plan saw (JOB-8)."""
        meta = delete.job.metadata
        if meta.deletion_timestamp is not None:
            return
        target = self._target(meta.name, meta.uid)
        if delete.unproven:
            memory.answers.unproven[meta.name] = delete.unproven
        tally.writes += 1
        await self._cluster.delete(
            target, resource_version=_version(target, delete.job.metadata), propagation="Foreground"
        )

    async def delete_pod(self, delete: PodDelete, tally: Tally) -> None:
        """Delete a failed pod normally, by UID (JOB-7)."""
        meta = delete.pod.metadata
        if meta.deletion_timestamp is not None:
            return
        target: Target[Pod] = Target(
            resources.POD, self._stores.pods, meta.name, meta.uid, self._stores.namespace, keys.LABEL_NAME
        )
        tally.writes += 1
        await self._cluster.delete(target)

    def _target(self, name: str, uid: str = "") -> Target[Job]:
        return Target(resources.JOB, self._stores.jobs, name, uid, self._stores.namespace, keys.LABEL_NAME)

    def _refuse(self, memory: CRMemory, held: str, *, text: str, reason: str) -> float:
        now: datetime = self._clock.now()
        return memory.answers.refuse(
            held, text=text, reason=reason, now=now.timestamp(), monotonic=anyio.current_time(), pace=REFUSED
        )


def _version(target: Target[Job], meta: ObjectMeta) -> str:
    """The version to delete at: the newest whose named fields are the plan's; the plan's own once the picture moved on."""
    held = target.store.get(target.key)
    if held is not None and held.metadata is meta:
        return target.resource_version or meta.resource_version
    return meta.resource_version


def _of_this_run(job: Job, create: JobCreate) -> bool:
    return bool(create.run) and job.metadata.annotations.get(keys.RUN) == create.run


def _is_ours(job: Job, cr: CR, create: JobCreate) -> bool:
    wanted = create.body["metadata"]["labels"]
    labels = job.metadata.labels
    claim = (keys.LABEL_NAME, keys.LABEL_NODE)
    return owner_uid(job.metadata) == cr.meta.uid and all(labels.get(key) == wanted.get(key) for key in claim)
