"""A cluster with one operator: plans of the engine carried out in the executor's order, as far as the test lets it live.

`World` is what tests use: `world.cr(...)`, `world.settle()`, `world.turn()`, and then what is on the nodes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from nodewright.api import keys
from nodewright.engine.plan import Engine
from nodewright.model.objects import Condition, ConfigMap, Node
from nodewright.model.plan import ConfigMapWrite, Event, FinalizerChange, JobDelete, NodePatch, NodePlan, Plan
from nodewright.model.snapshot import CR, PlanSettings
from tests.unit.engine.cluster import CR_NAME, SETTINGS, Cluster, package, replace, spec_of

__all__ = ["CR_NAME", "SETTINGS", "World", "package", "replace", "spec_of"]


class CrashedError(Exception):
    """The operator died: the writes it was allowed are used up."""


class World(Cluster):
    """A cluster with one operator. `status_lost` loses every write of a status."""

    def __init__(self, *names: str, settings: PlanSettings = SETTINGS) -> None:
        super().__init__(*names, settings=settings)
        self.engine = Engine(settings)
        self.events: list[Event] = []
        self.log: list[str] = []
        self.status_lost = False
        self._budget: int | None = None

    def plan(self, cr: str = CR_NAME) -> Plan:
        """Plan a pass and do nothing."""
        return self.engine.plan(self.snapshot(cr), self.now)

    def step(self, cr: str = CR_NAME, *, writes: int | None = None) -> int:
        """One pass, carried out; after `writes` writes the operator is dead and forgets. Returns how many were done."""
        return self.apply(cr, self.plan(cr), writes=writes)

    def settle(self, *crs: str, limit: int = 30) -> None:
        """Passes, a second apart, until none of the CRs writes anything."""
        for _ in range(limit):
            if not sum(self._stir(cr) for cr in (crs or tuple(self.crs)) if cr in self.crs):
                return
            self.now += 1
        raise AssertionError(f"never silent; last writes: {self.log[-12:]}")

    def _stir(self, cr: str) -> int:
        """A pass: how much it wrote, or that it asks for the next one at once."""
        plan = self.plan(cr)
        return self.apply(cr, plan) + (plan.wake_at is not None and plan.wake_at <= self.now)

    def run(self, *crs: str, rounds: int = 200) -> None:
        """Passes and Jobs until nothing moves; every stage succeeds unless it was told otherwise."""
        for _ in range(rounds):
            self.settle(*crs)
            if not self.turn():
                return
        raise AssertionError(f"never at rest: {self.running()}")

    def restart(self) -> None:
        """The operator starts anew: nothing it remembers is left."""
        self.engine = Engine(self.settings)
        self.unproven.clear()
        self.refused.clear()
        self.busy.clear()

    def apply(self, cr: str, plan: Plan, *, writes: int | None = None) -> int:
        """Carry the plan out in the executor's order."""
        before, self._budget = len(self.log), writes
        try:
            self._carry_out(cr, plan)
        except CrashedError:
            self.restart()
        finally:
            self._budget = None
        return len(self.log) - before

    def _carry_out(self, cr: str, plan: Plan) -> None:
        if plan.finalizer is FinalizerChange.ADD:
            self._write(f"finalizer of {cr}")
            self._set_finalizers(cr, (*self.crs[cr].meta.finalizers, keys.FINALIZER))
        for configmap in plan.configmaps:
            self._write_configmap(configmap)
        for node in plan.nodes:
            self._carry_out_node(node)
        for job in plan.job_deletes:
            self._delete_job(job)
        for gone in plan.configmap_deletes:
            self._write(f"delete ConfigMap {gone.current.metadata.name}")
            self.configmaps.pop(gone.current.metadata.name, None)
        if plan.status is not None:
            self._publish(cr, plan.status.build())
        if plan.finalizer is FinalizerChange.REMOVE:
            self._write(f"finalizer of {cr}")
            self._set_finalizers(cr, tuple(f for f in self.crs[cr].meta.finalizers if f != keys.FINALIZER))
        self.events += plan.events

    def _carry_out_node(self, plan: NodePlan) -> None:
        """One node's writes in the order of the fields; an old picture ends them."""
        name = plan.node.metadata.name
        for suspend in plan.suspends:
            self._write(f"suspend={suspend.suspend} {self.describe(suspend.job)}")
            self.suspend(suspend.job.metadata.name, on=suspend.suspend)
        if plan.metadata is not None:
            self._write_configmap(plan.metadata)
        if plan.patch is not None and not self._patch(plan.node, plan.patch):
            return
        self.events += plan.events
        for create in plan.creates:
            self._write(f"create Job {name}:{create.package}:{create.stage}")
            self.create_job(create.body)
            self.unproven.pop(create.name, None)
        for mark in plan.marks:
            self._write(f"mark {self.describe(mark.job)}")
            self.mark(mark.job, mark.ttl_seconds)
        if plan.conditions and name in self.nodes:
            self._write(f"conditions {name}")
            kept = {c.type: c for c in self.nodes[name].status.conditions}
            for one in plan.conditions:
                kept.pop(one.type, None)
                if one.status is not None:
                    kept[one.type] = Condition(type=one.type, status=one.status, reason=one.reason)
            old = self.nodes[name]
            self.nodes[name] = replace(
                old, status=replace(old.status, conditions=tuple(kept.values())), metadata=self.moved(old.metadata)
            )
        for delete in plan.job_deletes:
            self._delete_job(delete)
        for gone in plan.pod_deletes:
            self._write(f"delete pod {gone.pod.metadata.name}")
            self.pods.pop(gone.pod.metadata.name, None)

    def _patch(self, planned: Node, patch: NodePatch) -> bool:
        name = planned.metadata.name
        live = self.nodes.get(name)
        touched = [(live.metadata.annotations, planned.metadata.annotations, patch.annotations)] if live else []
        touched += [(live.metadata.labels, planned.metadata.labels, patch.labels)] if live else []
        if (
            live is None
            or live.metadata.uid != planned.metadata.uid
            or any(a.get(k) != b.get(k) for a, b, c in touched for k in c)
        ):
            return False
        self._write(f"patch {name} {sorted(k.removeprefix(keys.PREFIX) for k in (*patch.annotations, *patch.labels))}")
        self.change_node(name, annotations=patch.annotations, labels=patch.labels, unschedulable=patch.unschedulable)
        return True

    def _delete_job(self, delete: JobDelete) -> None:
        live = self.jobs.get(delete.job.metadata.name)
        if (
            live is None
            or live.metadata.uid != delete.job.metadata.uid
            or live.metadata.resource_version != delete.job.metadata.resource_version
        ):
            return
        self._write(f"delete Job {self.describe(live)}: {delete.why}")
        if delete.unproven:
            self.unproven[live.metadata.name] = delete.unproven
        self.delete_job(live.metadata.name)

    def _write_configmap(self, write: ConfigMapWrite) -> None:
        self._write(f"ConfigMap {write.name}")
        current = self.configmaps.get(write.name)
        wanted = msgspec.convert(dict(write.body), ConfigMap)
        meta = replace(
            wanted.metadata,
            uid=current.metadata.uid if current else self.new_uid("cm"),
            resource_version=self.version(),
        )
        self.configmaps[write.name] = replace(wanted, metadata=meta)

    def _publish(self, cr: str, status: Mapping[str, Any]) -> None:
        plain = msgspec.json.decode(msgspec.json.encode(status))
        old = self.crs[cr]
        if plain == old.published or self.status_lost:
            return
        self._write(f"status of {cr}")
        self.crs[cr] = CR(self.moved(old.meta), old.spec, old.faults, plain)

    def _set_finalizers(self, cr: str, finalizers: tuple[str, ...]) -> None:
        old = self.crs[cr]
        if old.meta.deletion_timestamp is not None and not finalizers:
            del self.crs[cr]
            self.engine.forget(cr)
            self.collect_garbage(old.meta.uid)
            for name in [
                n
                for n, c in self.configmaps.items()
                if c.metadata.owner_references and c.metadata.owner_references[0].uid == old.meta.uid
            ]:
                del self.configmaps[name]
            return
        self.crs[cr] = CR(replace(self.moved(old.meta), finalizers=finalizers), old.spec, old.faults, old.published)

    def _write(self, what: str) -> None:
        if self._budget is not None:
            if self._budget == 0:
                raise CrashedError(what)
            self._budget -= 1
        self.log.append(what)
