"""Carries out a plan, in the order its docstrings say; the only place from which the operator writes to nodes, Jobs and ConfigMaps.

Nodes are written in parallel with a limit, one node's writes strictly in order, and never two sequences of one CR for one node at
once. A pass waits a moment for its writes; what takes longer goes on under the same owner and is `Snapshot.busy` until it ends, when
the CR is planned again. What fails stops its own node only. Crash safety comes from the order of writes, not from anything
remembered here (LIF-2).
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from controller_runtime.clock import Clock
from controller_runtime.election import NotLeaderError
from controller_runtime.transport import ApiError, Client, TransportError
from nodewright.model.objects import NodeWrightObject
from nodewright.model.pick import Pick
from nodewright.model.plan import FinalizerChange, JobDelete, Plan
from nodewright.model.snapshot import CR, Answer
from nodewright.operator.answers import FAILED
from nodewright.operator.cluster import Cluster, Stale
from nodewright.operator.configmap_writes import ConfigMapWrites, Withheld
from nodewright.operator.cr_writes import CRWrites
from nodewright.operator.events import EventSink
from nodewright.operator.informers import Stores
from nodewright.operator.job_writes import JobWrites
from nodewright.operator.memory import Applied, CRMemory, Enqueue, Tally
from nodewright.operator.node_sequence import NodeSequence
from nodewright.operator.node_writes import NodeWrites
from nodewright.operator.status_writer import StatusWriter
from nodewright.operator.write_pool import Latch, WritePool

_log = logging.getLogger(__name__)
PARALLEL_NODES: Final = 16
WAIT_SECONDS: Final = 1.0
"""How long a pass waits for its own writes."""
_STALE_LIMIT: Final = 5
"""So many old pictures in a row are read again at once; beyond it the object backs off like any failure."""

Step = Callable[[], Awaitable[float | None]]
"""The writes of one object; answers the seconds until a part of them is to be tried again, if any."""


class Executor:
    """Carries out plans while it is started."""

    def __init__(
        self,
        client: Client,
        stores: Stores,
        *,
        clock: Clock,
        events: EventSink,
        enqueue: Enqueue,
        published: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        cluster = Cluster(client)
        self._stores = stores
        self._clock = clock
        self._events = events
        self._enqueue = enqueue
        self._configmaps = ConfigMapWrites(cluster, stores, clock)
        self._crs = CRWrites(cluster, stores)
        self._jobs = JobWrites(cluster, stores, clock)
        self._nodes = NodeWrites(cluster, stores, clock)
        self._sequence = NodeSequence(self._nodes, self._jobs, self._configmaps, events)
        self._status = StatusWriter(
            cluster, stores, published=published, plan_again=lambda name: enqueue(name, trigger="status")
        )
        self._pool = WritePool(PARALLEL_NODES)
        self._memories: dict[str, CRMemory] = {}

    def start(self, group: TaskGroup) -> None:
        """Write in tasks of `group` from now on."""
        self._pool.start(group)
        self._status.start(group)

    async def stop(self) -> None:
        """After the group has ended: forget what was under way, and write the statuses that wait (CON-6)."""
        self._pool.stop()
        for memory in self._memories.values():
            memory.running.clear()
        await self._status.flush()

    # --- what the next snapshot has to know ---------------------------------------------------------------------------------

    def busy(self, cr: str) -> Mapping[str, Pick | None]:
        """Nodes of the CR whose writes are under way, with the pick they will have."""
        return {
            key.removeprefix("Node/"): pick for key, pick in self._memory(cr).running.items() if key.startswith("Node/")
        }

    def refused(self, cr: str) -> Mapping[str, Answer]:
        """What was refused lately, by kind and name."""
        return self._memory(cr).answers.refused(anyio.current_time())

    def unproven(self, cr: str) -> Mapping[str, int]:
        """How often in a row a Job failed without proof, until its next one is there (JOB-6)."""
        return dict(self._memory(cr).answers.unproven)

    def given(self, cr: str) -> Mapping[int, int]:
        """By rollout, the lowest number above those of the picks that were written (ROL-14)."""
        return self._memory(cr).given

    def forget(self, cr: str) -> None:
        """The CR is gone."""
        self._memories.pop(cr, None)
        self._status.forget(cr)

    # --- one plan -----------------------------------------------------------------------------------------------------------

    async def apply(self, cr: CR, source: NodeWrightObject, plan: Plan) -> Applied:
        """Carry out `plan`, made from `cr` as `source` says it. What fails is remembered and asks for another pass by itself."""
        applied, memory = Applied(), self._memory(cr.name)
        if plan.finalizer is FinalizerChange.ADD and not await self._settled(
            cr, memory, "NodeWright/finalizer", applied, partial(self._crs.add_finalizer, source, applied.tally)
        ):
            return applied
        latch = Latch()
        missing = await self._write_configmaps(cr, memory, plan, applied, latch)
        self._submit_nodes(cr, memory, plan, applied, latch, missing)
        self._submit_deletes(cr, memory, plan, applied, latch)
        await latch.wait(WAIT_SECONDS)
        if plan.status is not None:
            self._status.offer(source, cr.published, plan.status)
        if plan.finalizer is FinalizerChange.REMOVE:
            await self._remove_finalizer(cr, source, memory, applied, latch)
        for event in plan.events:
            self._events.on_cr(cr, event)
        return applied

    async def _write_configmaps(
        self, cr: CR, memory: CRMemory, plan: Plan, applied: Applied, latch: Latch
    ) -> frozenset[str]:
        """Write the packages' ConfigMaps; answers the packages whose one is not there as it should be."""
        missing: set[str] = set()
        for write in plan.configmaps:
            # Not under the name of a refusal, which holds the package and is told to people: no answer is none.
            key = f"the ConfigMap {write.name}"
            wait = memory.answers.wait(key, anyio.current_time())
            step = partial(self._configmaps.write, cr, write, memory, applied.tally)
            try:
                good = wait <= 0 and await self._settled(cr, memory, key, applied, step)
            except Withheld as withheld:
                wait, good = withheld.after, False
            if wait > 0:
                applied.again_in(wait)
            if not good:
                latch.clean = False
                missing.add(write.package or "")
        return frozenset(missing)

    def _submit_nodes(
        self, cr: CR, memory: CRMemory, plan: Plan, applied: Applied, latch: Latch, missing: frozenset[str]
    ) -> None:
        for node in plan.nodes:
            if node.empty:
                continue
            # LIF-12: the entry says a stage is due, so what its pod mounts comes before the entry too.
            if any(create.package in missing for create in node.creates):
                continue
            applied.tally.nodes += 1
            step = partial(self._sequence.carry_out, cr, node, memory, applied.tally)
            self._submit(cr, memory, f"Node/{node.node.name}", applied, latch, step, pick=node.pick)

    def _submit_deletes(self, cr: CR, memory: CRMemory, plan: Plan, applied: Applied, latch: Latch) -> None:
        for job in plan.job_deletes:
            step: Step = partial(self._delete_homeless, job, memory, applied.tally)
            self._submit(cr, memory, f"Job/{job.job.metadata.name}", applied, latch, step)
        for configmap in plan.configmap_deletes:
            step = partial(self._configmaps.delete, configmap, applied.tally)
            self._submit(cr, memory, f"ConfigMap/{configmap.current.metadata.name}", applied, latch, step)

    async def _delete_homeless(self, delete: JobDelete, memory: CRMemory, tally: Tally) -> None:
        """Delete a Job whose node is gone, once the API server says so too (JOB-11, LIF-2)."""
        await self._nodes.confirm_gone(delete.job)
        await self._jobs.delete(delete, memory, tally)

    async def _remove_finalizer(
        self, cr: CR, source: NodeWrightObject, memory: CRMemory, applied: Applied, latch: Latch
    ) -> None:
        """Last of all, once everything else is done (CHG-11)."""
        if not latch.settled or not latch.clean or memory.running:
            return  # whatever is open or failed asks for another pass when it ends
        self._status.forget(cr.name)
        await self._settled(
            cr, memory, "NodeWright/finalizer", applied, partial(self._crs.remove_finalizer, source, applied.tally)
        )

    # --- one object's writes ------------------------------------------------------------------------------------------------

    def _submit(
        self,
        cr: CR,
        memory: CRMemory,
        key: str,
        applied: Applied,
        latch: Latch,
        step: Step,
        *,
        pick: Pick | None = None,
    ) -> None:
        if key in memory.running:
            latch.clean = False
            return
        wait = memory.answers.wait(key, anyio.current_time())
        if wait > 0:
            latch.clean = False
            applied.again_in(wait)
            return
        memory.running[key] = pick
        latch.begun()
        self._pool.submit(partial(self._run, cr, memory, key, applied, latch, step))

    async def _run(self, cr: CR, memory: CRMemory, key: str, applied: Applied, latch: Latch, step: Step) -> None:
        """One object's writes, then what follows from their outcome."""
        good = False
        again: float | None = None

        async def guarded() -> None:
            nonlocal again
            if self._outdated(cr):
                raise Stale("the CR changed before its writes began")
            again = await step()

        try:
            good = await self._settled(cr, memory, key, applied, guarded)
        finally:
            memory.running.pop(key, None)
            if not good:
                latch.clean = False
            latch.ended()
        if not good:
            return
        if latch.detached:
            self._enqueue(cr.name, after=again or 0.0, trigger="writes")
        else:
            applied.again_in(again)

    async def _settled(
        self, cr: CR, memory: CRMemory, key: str, applied: Applied, write: Callable[[], Awaitable[Any]]
    ) -> bool:
        """Do `write`; whether it went through. A failure is remembered, paced, and asks for another pass (LIF-4)."""
        where = {"cr": cr.name, "node": key.removeprefix("Node/") if key.startswith("Node/") else None, "object": key}
        try:
            await write()
        except Stale as stale:
            count = memory.stale[key] = memory.stale.get(key, 0) + 1
            if count <= _STALE_LIMIT:
                _log.debug("%s of %s: planned again: %s", key, cr.name, stale, extra=where)
                self._enqueue(cr.name, trigger="stale")
                return False
            self._failed(cr, memory, key, text=str(stale), reason="Conflict")
        except Withheld as withheld:
            if not key.startswith("Node/"):
                raise
            self._enqueue(cr.name, after=withheld.after, trigger="refused")
        except NotLeaderError as lost:
            _log.debug("%s of %s: not written: %s", key, cr.name, lost, extra=where)
        except (ApiError, TransportError) as error:
            text = error.message if isinstance(error, ApiError) else str(error)
            count = self._failed(
                cr, memory, key, text=text, reason=getattr(error, "reason", "") or type(error).__name__
            )
            if count & (count - 1) == 0:  # the 1st, 2nd, 4th, 8th …: an outage must not flood the log
                _log.warning("%s of %s was not written (%d in a row): %s", key, cr.name, count, error, extra=where)
        except Exception as error:  # noqa: BLE001 - LIF-4: one object's fault stops nothing else
            _log.exception("%s of %s failed unexpectedly", key, cr.name, extra=where)
            self._failed(cr, memory, key, text=f"{type(error).__name__}: {error}", reason="InternalError")
        else:
            memory.stale.pop(key, None)
            memory.answers.accepted(key)
            return True
        return False

    def _failed(self, cr: CR, memory: CRMemory, key: str, *, text: str, reason: str) -> int:
        now, monotonic = self._clock.now().timestamp(), anyio.current_time()
        delay = memory.answers.refuse(key, text=text, reason=reason, now=now, monotonic=monotonic, pace=FAILED)
        self._enqueue(cr.name, after=delay, trigger="retry")
        return memory.answers.count(key)

    def _outdated(self, cr: CR) -> bool:
        """Whether the CR is not any more what the plan was made for: then what has not begun is planned anew."""
        current = self._stores.nodewrights.get(cr.name)
        if current is None:
            return True
        now, then = current.metadata, cr.meta
        return (
            now.uid != then.uid
            or now.generation != then.generation
            or now.deletion_timestamp != then.deletion_timestamp
            or now.annotations != then.annotations
        )

    def _memory(self, cr: str) -> CRMemory:
        return self._memories.setdefault(cr, CRMemory())
