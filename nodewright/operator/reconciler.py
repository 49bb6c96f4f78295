"""One pass of one CR: snapshot, plan, apply (design: One pass). The only function that the controller calls."""

import logging
import random
from collections.abc import Callable
from typing import Final, Protocol

import anyio
from opentelemetry import trace

from controller_runtime.clock import Clock
from controller_runtime.controller import Request, Result
from nodewright.model.plan import FinalizerChange, Plan
from nodewright.model.snapshot import CR, Snapshot
from nodewright.operator.executor import Executor
from nodewright.operator.informers import Stores
from nodewright.operator.memory import Applied
from nodewright.operator.snapshots import Catalog, Snapshots

_log = logging.getLogger(__name__)
_SHARE: Final = 4.0
"""After a plan, at least this many times as long without one: planning one CR stays under a fifth of a core."""
_LONGEST_INTERVAL: Final = 5.0
_JITTER: Final = 0.1
_LEAST_SECONDS: Final = 0.02
"""A deadline that has just passed is looked at again this soon, not in a spin."""


class Planner(Protocol):
    """The engine, as a pass sees it: pure but for its memo, and total."""

    def plan(self, snapshot: Snapshot, now: float) -> Plan:
        """What is to be done."""

    def forget(self, cr_name: str) -> None:
        """Drop what was remembered of a CR."""


class Reconciler:
    """Plans a CR and has the plan carried out."""

    def __init__(
        self,
        *,
        stores: Stores,
        catalog: Catalog,
        snapshots: Snapshots,
        engine: Planner,
        executor: Executor,
        clock: Clock,
        default_interval: float,
        plan_interval: float,
        gone: Callable[[str], None],
        tracer: trace.Tracer | None = None,
    ) -> None:
        self._stores = stores
        self._catalog = catalog
        self._snapshots = snapshots
        self._engine = engine
        self._executor = executor
        self._clock = clock
        self._default_interval = default_interval
        self._plan_interval = plan_interval
        self._gone = gone
        self._tracer = tracer or trace.NoOpTracer()
        self._plan_seconds: dict[str, float] = {}

    def interval(self, name: str) -> float:
        """The least time between two passes of a CR, in seconds: bursts are folded, the more the dearer its plan is."""
        return min(max(self._plan_interval, _SHARE * self._plan_seconds.get(name, 0.0)), _LONGEST_INTERVAL)

    async def reconcile(self, request: Request) -> Result:
        """One pass. Whatever fails in it has asked for another pass by itself."""
        name = request.key
        cr, source = self._catalog.cr(name), self._stores.nodewrights.get(name)
        if cr is None or source is None:
            self._forget(name)
            return Result()
        now = self._clock.now().timestamp()
        plan = self._plan(cr, now)
        if plan.finalizer is FinalizerChange.REMOVE:
            # CHG-11: its series go first; another finalizer may keep the CR for long.
            self._gone(name)
        applied = await self._executor.apply(cr, source, plan)
        self._describe(cr, request, plan, applied)
        tally, triggers = applied.tally, ",".join(request.triggers)
        _log.debug(
            "pass of %s (%s): %d nodes, %d writes, %d Jobs", name, triggers, tally.nodes, tally.writes, tally.jobs,
            extra={"cr": name},
        )  # fmt: skip
        return Result(requeue_after=self._next(plan, applied))

    def _plan(self, cr: CR, now: float) -> Plan:
        snapshot = self._snapshots.of(
            cr,
            busy=self._executor.busy(cr.name),
            refused=self._executor.refused(cr.name),
            unproven=self._executor.unproven(cr.name),
            given=self._executor.given(cr.name),
        )
        begun = anyio.current_time()
        with self._tracer.start_as_current_span("plan"):
            plan = self._engine.plan(snapshot, now)
        self._plan_seconds[cr.name] = anyio.current_time() - begun
        return plan

    def _next(self, plan: Plan, applied: Applied) -> float:
        """Seconds until the next known deadline, at the latest the default interval, spread so that CRs do not come together."""
        waits = [self._default_interval * (1.0 - _JITTER * random.random())]
        if plan.wake_at is not None:
            waits.append(plan.wake_at - self._clock.now().timestamp())
        if applied.requeue_after is not None:
            waits.append(applied.requeue_after)
        return max(min(waits), _LEAST_SECONDS)

    def _describe(self, cr: CR, request: Request, plan: Plan, applied: Applied) -> None:
        span = trace.get_current_span()
        if not span.is_recording():
            return
        span.set_attributes(
            {
                "nodewright.name": cr.name,
                "nodewright.generation": cr.meta.generation,
                "nodewright.trigger": ",".join(request.triggers),
                "nodewright.nodes": applied.tally.nodes,
                "nodewright.writes": applied.tally.writes,
                "nodewright.jobs": applied.tally.jobs,
                "nodewright.result": plan.status.cr_status if plan.status is not None else "",
            }
        )

    def _forget(self, name: str) -> None:
        self._plan_seconds.pop(name, None)
        self._engine.forget(name)
        self._executor.forget(name)
        self._gone(name)
