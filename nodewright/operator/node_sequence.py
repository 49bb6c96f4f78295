"""One node's writes, strictly in order (LIF-12, JOB-3): whatever is written first makes the second write come again after a crash."""

from controller_runtime.transport import ApiError, TransportError
from nodewright.model.plan import NodePlan
from nodewright.model.snapshot import CR
from nodewright.operator.cluster import is_refusal
from nodewright.operator.configmap_writes import ConfigMapWrites
from nodewright.operator.events import EventSink
from nodewright.operator.job_writes import JobWrites
from nodewright.operator.memory import CRMemory, Tally
from nodewright.operator.node_writes import NodeWrites


class NodeSequence:
    """Carries out a `NodePlan`."""

    def __init__(self, nodes: NodeWrites, jobs: JobWrites, configmaps: ConfigMapWrites, events: EventSink) -> None:
        self._nodes = nodes
        self._jobs = jobs
        self._configmaps = configmaps
        self._events = events

    async def carry_out(self, cr: CR, plan: NodePlan, memory: CRMemory, tally: Tally) -> float | None:
        """Do everything, in the order of the plan's fields; answers the seconds until a refused Job is to be tried again.

        The first failure ends it (it raises what the writes raise), but for a Job that the server refused: that changes nothing
        (LIF-12), and what has been recorded can be marked all the same. Before a Job may go, the node is read live.
        """
        if plan.job_deletes:
            await self._nodes.confirm(plan)
        for suspend in plan.suspends:
            await self._jobs.suspend(suspend, tally)
        if plan.metadata is not None:
            await self._configmaps.write(cr, plan.metadata, memory, tally)
        try:
            told = await self._nodes.patch(plan, tally)
        except (ApiError, TransportError) as error:
            if not is_refusal(error) and getattr(error, "sent", None) is not False:
                memory.note(plan.pick)  # it may have landed all the same, and its number is given once (ROL-14)
            raise
        memory.note(plan.pick)
        for event in plan.events:
            if event.node is None:
                self._events.on_cr(cr, event)
            else:
                self._events.on_node(plan.node, event)
        waits = [await self._jobs.create(cr, create, memory, tally) for create in plan.creates]
        for mark in plan.marks:
            await self._jobs.mark(mark, tally)
        if not told:
            await self._nodes.conditions(plan, tally)
        for delete in plan.job_deletes:
            await self._jobs.delete(delete, memory, tally)
        for delete_pod in plan.pod_deletes:
            await self._jobs.delete_pod(delete_pod, tally)
        return min((wait for wait in waits if wait is not None), default=None)
