"""A cluster in memory, without a loop: what the engine reads, and what becomes of it when a plan is carried out.

`World` keeps objects and makes `Snapshot`s of them (unchanged objects and tuples keep their identity, as the store does), carries plans out
in the executor's order, as far as the test lets it, and plays Job controller and kubelets when the test says so. Time moves by hand.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec, parse_nodewright_spec
from nodewright.api.validation import validate_nodewright
from nodewright.engine.conditions import rfc3339
from nodewright.engine.plan import Engine
from nodewright.model import node_state, pick
from nodewright.model.node_state import Entry, Malformed, NodeState
from nodewright.model.objects import Condition, ConfigMap, Job, Node, NodeSpec, ObjectMeta, Pod, Taint
from nodewright.model.pick import Pick
from nodewright.model.plan import ConfigMapWrite, Event, FinalizerChange, JobDelete, NodePatch, NodePlan, Plan
from nodewright.model.snapshot import CR, Answer, PlanSettings, Snapshot
from tests.unit.engine.machines import Machines

T = TypeVar("T", Job, Pod)
replace = msgspec.structs.replace
SETTINGS = PlanSettings(agent_image="agent:1.0.0", version="9.9.9")
CR_NAME = "tuning"
START = 1_750_000_000.0


def package(version: str = "1.0.0", **fields: Any) -> dict[str, Any]:
    """A package as the manifest has it."""
    return {"version": version, "image": "registry/pkg", **fields}


def spec_of(**fields: Any) -> NodeWrightSpec:
    """A spec from its manifest, which must be well-shaped."""
    parsed = parse_nodewright_spec(fields)
    assert isinstance(parsed, NodeWrightSpec), parsed
    return parsed


class Crashed(Exception):
    """The operator died: the writes it was allowed are used up."""


class World(Machines):
    """A cluster with one operator."""

    def __init__(self, *names: str, settings: PlanSettings = SETTINGS) -> None:
        super().__init__(START)
        self.settings = settings
        self.engine = Engine(settings)
        self.nodes: dict[str, Node] = {}
        self.configmaps: dict[str, ConfigMap] = {}
        self.crs: dict[str, CR] = {}
        self.busy: dict[str, Pick | None] = {}
        self.refused: dict[str, Answer] = {}
        self.unproven: dict[str, int] = {}
        self.events: list[Event] = []
        self.log: list[str] = []
        self.status_lost = False
        self._kept: dict[tuple[str, ...], tuple[Any, ...]] = {}
        self._budget: int | None = None
        for name in names:
            self.add_node(name)

    # --- what people do -----------------------------------------------------------------------------------------------------

    def add_node(self, name: str, *, taints: Iterable[tuple[str, str]] = (), **labels: str) -> None:
        """A node as the kubelet registers it, with a UID of its own."""
        meta = ObjectMeta(name=name, uid=self.new_uid("node"), resource_version=self.version(), labels=labels)
        ready = (Condition(type="Ready", status="True"),)
        self.nodes[name] = replace(Node(meta, NodeSpec(taints=tuple(Taint(k, e) for k, e in taints))), status=replace(Node(meta).status, conditions=ready))

    def delete_node(self, name: str) -> None:
        """The Node object goes; its pods and Jobs stay until somebody takes care of them."""
        del self.nodes[name]

    def annotate(self, node: str, **values: str | None) -> None:
        """Set or remove annotations of the node by full key (see `key`)."""
        self._change_node(node, annotations=values)

    def label(self, node: str, **values: str | None) -> None:
        """Set or remove labels of the node."""
        self._change_node(node, labels=values)

    def ignore(self, node: str, *, on: bool = True) -> None:
        """Set or remove the ignore label (ROL-2)."""
        self.label(node, **{keys.IGNORE_LABEL: "true" if on else None})

    def taint(self, node: str, *taints: tuple[str, str]) -> None:
        """Replace the node's taints."""
        old = self.nodes[node]
        self.nodes[node] = replace(old, spec=replace(old.spec, taints=tuple(Taint(k, e) for k, e in taints)), metadata=self._moved(old.metadata))

    def cr(self, name: str = CR_NAME, *, settled: bool = True, **fields: Any) -> CR:
        """Create the CR or edit its spec; `settled` writes the status of an earlier pass, so that the first pick need not wait for it."""
        spec = spec_of(**fields)
        faults = tuple(validate_nodewright(spec))
        old = self.crs.get(name)
        if old is None:
            meta = ObjectMeta(name=name, uid=self.new_uid("cr"), resource_version=self.version(), generation=1, finalizers=(keys.FINALIZER,))
            published = {"rollout": 1, "packageList": spec.package_list} if settled else {}
            self.crs[name] = CR(meta, spec, faults, published)
        else:
            same = old.spec == spec
            meta = old.meta if same else replace(self._moved(old.meta), generation=old.meta.generation + 1)
            self.crs[name] = CR(meta, old.spec if same else spec, faults, old.published)
        return self.crs[name]

    def order(self, name: str = CR_NAME, **annotations: str | None) -> None:
        """Annotate the CR: `pause="true"`, `disable=None`."""
        old = self.crs[name]
        texts = _merged(old.meta.annotations, {f"{keys.PREFIX}{key}": value for key, value in annotations.items()})
        self.crs[name] = CR(replace(self._moved(old.meta), annotations=texts), old.spec, old.faults, old.published)

    def delete_cr(self, name: str = CR_NAME) -> None:
        """Ask for the CR's deletion; it goes when its last finalizer does."""
        old = self.crs[name]
        meta = replace(self._moved(old.meta), deletion_timestamp=self.stamp(), generation=old.meta.generation + 1)
        self.crs[name] = CR(meta, old.spec, old.faults, old.published)

    def publish(self, name: str = CR_NAME, **fields: Any) -> None:
        """Edit the CR's status by hand; None removes a field."""
        old = self.crs[name]
        published = {k: v for k, v in {**old.published, **fields}.items() if v is not None}
        self.crs[name] = CR(self._moved(old.meta), old.spec, old.faults, published)

    def reset(self, node: str, entry: str | None = None, cr: str = CR_NAME) -> None:
        """Remove node state, or one entry of it (CHG-14)."""
        if entry is None:
            self.annotate(node, **{keys.node_state_key(cr): None})
        else:
            self.set_state(node, {k: v for k, v in self.state(node, cr).items() if k != entry}, cr)

    # --- what is there ------------------------------------------------------------------------------------------------------

    def state(self, node: str, cr: str = CR_NAME) -> dict[str, Entry]:
        """Node state, which must be readable."""
        parsed = node_state.parse(self.nodes[node].metadata.annotations.get(keys.node_state_key(cr)))
        assert not isinstance(parsed, Malformed), parsed
        return dict(parsed)

    def set_state(self, node: str, state: NodeState, cr: str = CR_NAME) -> None:
        """Write node state by hand."""
        self.annotate(node, **{keys.node_state_key(cr): node_state.dump(state)})

    def stages(self, node: str, cr: str = CR_NAME) -> dict[str, str]:
        """Node state as `{"a|1.0.0": "apply/in_progress"}`."""
        return {key: f"{e.stage}/{e.state}" for key, e in self.state(node, cr).items()}

    def pick(self, node: str, cr: str = CR_NAME) -> Pick | None:
        """The pick on the node."""
        return pick.parse(self.nodes[node].metadata.annotations.get(keys.pick_key(cr)))

    def status(self, node: str, cr: str = CR_NAME) -> str | None:
        """The Status on the node; annotation and label must agree (CON-7)."""
        meta = self.nodes[node].metadata
        text = meta.annotations.get(keys.status_key(cr))
        assert meta.labels.get(keys.status_key(cr)) == text
        return text

    def statuses(self, cr: str = CR_NAME) -> dict[str, str | None]:
        """The Status of every node."""
        return {name: self.status(name, cr) for name in self.nodes}

    def condition(self, type_: str, cr: str = CR_NAME) -> dict[str, Any] | None:
        """A condition of the CR as published."""
        found: list[dict[str, Any]] = [c for c in self.crs[cr].published.get("conditions", ()) if c["type"] == type_]
        return found[0] if found else None

    def batch(self, cr: str = CR_NAME) -> dict[str, Any]:
        """`batchState` of the default compartment as published."""
        state: dict[str, Any] = self.crs[cr].published["compartmentStatuses"]["__default__"]["batchState"]
        return state

    def running(self, cr: str = CR_NAME) -> list[str]:
        """`node:package:stage` of every unfinished Job."""
        return sorted(self.describe(j) for j in self.jobs.values() if not j.finished and j.metadata.labels[keys.LABEL_NAME] == cr)

    def snapshot(self, cr: str = CR_NAME) -> Snapshot:
        """What a pass of the CR reads now."""
        jobs, pods = _indexed(self.jobs.values()), _indexed(self.pods.values())
        return Snapshot(
            cr=self.crs[cr],
            crs=self._same(("crs",), self.crs.values()),
            nodes=self._same(("nodes",), self.nodes.values()),
            jobs_on=lambda c, n: self._same(("jobs", c, n), jobs.get((c, n), ())),
            pods_on=lambda c, n: self._same(("pods", c, n), pods.get((c, n), ())),
            jobs_of=lambda c: self._same(("jobs", c), (j for j in self.jobs.values() if j.metadata.labels.get(keys.LABEL_NAME) == c)),
            configmaps_of=lambda c: self._same(("cm", c), (m for m in self.configmaps.values() if m.metadata.labels.get(keys.LABEL_NAME) == c)),
            metadata_of=lambda c: self._same(("meta", c), (m for m in self.configmaps.values() if m.metadata.labels.get(keys.NODE_META_LABEL) == c)),
            configmap=self.configmaps.get,
            busy=dict(self.busy),
            refused=dict(self.refused),
            unproven=dict(self.unproven),
        )

    def _same(self, key: tuple[str, ...], items: Iterable[Any]) -> tuple[Any, ...]:
        """A tuple that is the one of last time unless an element changed."""
        now, before = tuple(items), self._kept.get(key, ())
        if len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True)):
            return before
        self._kept[key] = now
        return now

    # --- the operator -------------------------------------------------------------------------------------------------------

    def plan(self, cr: str = CR_NAME) -> Plan:
        """Plan a pass and do nothing."""
        return self.engine.plan(self.snapshot(cr), self.now)

    def step(self, cr: str = CR_NAME, *, writes: int | None = None) -> int:
        """One pass, carried out; after `writes` writes the operator is dead and forgets. Returns how many were done."""
        return self.apply(cr, self.plan(cr), writes=writes)

    def settle(self, *crs: str, limit: int = 30) -> None:
        """Passes, a second apart, until none of the CRs writes anything."""
        for _ in range(limit):
            if not any([self.step(cr) for cr in (crs or tuple(self.crs)) if cr in self.crs]):
                return
            self.now += 1
        raise AssertionError(f"never silent; last writes: {self.log[-12:]}")

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
        except Crashed:
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
            self.nodes[name] = replace(old, status=replace(old.status, conditions=tuple(kept.values())), metadata=self._moved(old.metadata))
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
        if live is None or live.metadata.uid != planned.metadata.uid or any(a.get(k) != b.get(k) for a, b, c in touched for k in c):
            return False
        self._write(f"patch {name} {sorted(k.removeprefix(keys.PREFIX) for k in (*patch.annotations, *patch.labels))}")
        self._change_node(name, annotations=patch.annotations, labels=patch.labels, unschedulable=patch.unschedulable)
        return True

    def _delete_job(self, delete: JobDelete) -> None:
        live = self.jobs.get(delete.job.metadata.name)
        if live is None or live.metadata.uid != delete.job.metadata.uid or live.metadata.resource_version != delete.job.metadata.resource_version:
            return
        self._write(f"delete Job {self.describe(live)}: {delete.why}")
        if delete.unproven:
            self.unproven[live.metadata.name] = delete.unproven
        self.delete_job(live.metadata.name)

    def _write_configmap(self, write: ConfigMapWrite) -> None:
        self._write(f"ConfigMap {write.name}")
        current = self.configmaps.get(write.name)
        wanted = msgspec.convert(dict(write.body), ConfigMap)
        meta = replace(wanted.metadata, uid=current.metadata.uid if current else self.new_uid("cm"), resource_version=self.version())
        self.configmaps[write.name] = replace(wanted, metadata=meta)

    def _publish(self, cr: str, status: Mapping[str, Any]) -> None:
        plain = msgspec.json.decode(msgspec.json.encode(status))
        old = self.crs[cr]
        if plain == old.published or self.status_lost:
            return
        self._write(f"status of {cr}")
        self.crs[cr] = CR(self._moved(old.meta), old.spec, old.faults, plain)

    def _set_finalizers(self, cr: str, finalizers: tuple[str, ...]) -> None:
        old = self.crs[cr]
        if old.meta.deletion_timestamp is not None and not finalizers:
            del self.crs[cr]
            self.engine.forget(cr)
            self.collect_garbage(old.meta.uid)
            for name in [n for n, c in self.configmaps.items() if c.metadata.owner_references and c.metadata.owner_references[0].uid == old.meta.uid]:
                del self.configmaps[name]
            return
        self.crs[cr] = CR(replace(self._moved(old.meta), finalizers=finalizers), old.spec, old.faults, old.published)

    def _write(self, what: str) -> None:
        if self._budget is not None:
            if self._budget == 0:
                raise Crashed(what)
            self._budget -= 1
        self.log.append(what)

    def _change_node(
        self,
        name: str,
        *,
        annotations: Mapping[str, str | None] | None = None,
        labels: Mapping[str, str | None] | None = None,
        unschedulable: bool | None = None,
    ) -> None:
        old = self.nodes[name]
        meta = replace(
            self._moved(old.metadata),
            annotations=_merged(old.metadata.annotations, annotations or {}),
            labels=_merged(old.metadata.labels, labels or {}),
        )
        spec = old.spec if unschedulable is None else replace(old.spec, unschedulable=unschedulable)
        self.nodes[name] = replace(old, metadata=meta, spec=spec)

    def _moved(self, meta: ObjectMeta) -> ObjectMeta:
        return replace(meta, resource_version=self.version())

    def stamp(self) -> str:
        """The time now as Kubernetes writes it."""
        return rfc3339(self.now)


def _merged(old: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**old, **changes}.items() if value is not None}


def _indexed(items: Iterable[T]) -> dict[tuple[str, str], list[T]]:
    found: dict[tuple[str, str], list[T]] = {}
    for item in items:
        labels = item.metadata.labels
        found.setdefault((labels.get(keys.LABEL_NAME, ""), labels.get(keys.LABEL_NODE, "")), []).append(item)
    return found
