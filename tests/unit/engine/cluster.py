"""A cluster in memory, without a loop: its objects, what people do to them, and the snapshots that the engine reads.

Unchanged objects and tuples keep their identity between snapshots, as the store does. Time moves by hand.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec, parse_nodewright_spec
from nodewright.api.validation import validate_nodewright
from nodewright.engine.conditions import rfc3339
from nodewright.model import node_state, pick
from nodewright.model.node_state import Entry, Malformed, NodeState
from nodewright.model.objects import Condition, ConfigMap, Job, Node, NodeSpec, ObjectMeta, Pod, Taint
from nodewright.model.pick import Pick
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


class Cluster(Machines):
    """Nodes, Jobs, pods, ConfigMaps and CRs."""

    def __init__(self, *names: str, settings: PlanSettings = SETTINGS) -> None:
        super().__init__(START)
        self.settings = settings
        self.nodes: dict[str, Node] = {}
        self.configmaps: dict[str, ConfigMap] = {}
        self.crs: dict[str, CR] = {}
        self.busy: dict[str, Pick | None] = {}
        self.refused: dict[str, Answer] = {}
        self.unproven: dict[str, int] = {}
        self.given: dict[int, int] = {}
        self._kept: dict[tuple[str, ...], tuple[Any, ...]] = {}
        for name in names:
            self.add_node(name)

    # --- what people do -----------------------------------------------------------------------------------------------------

    def add_node(self, name: str, *, taints: Iterable[tuple[str, str]] = (), **labels: str) -> None:
        """A node as the kubelet registers it, with a UID of its own."""
        meta = ObjectMeta(name=name, uid=self.new_uid("node"), resource_version=self.version(), labels=labels)
        ready = (Condition(type="Ready", status="True"),)
        self.nodes[name] = replace(
            Node(meta, NodeSpec(taints=tuple(Taint(k, e) for k, e in taints))),
            status=replace(Node(meta).status, conditions=ready),
        )

    def delete_node(self, name: str) -> None:
        """The Node object goes; its pods and Jobs stay until somebody takes care of them."""
        del self.nodes[name]

    def annotate(self, node: str, **values: str | None) -> None:
        """Set or remove annotations of the node by full key (see `key`)."""
        self.change_node(node, annotations=values)

    def label(self, node: str, **values: str | None) -> None:
        """Set or remove labels of the node."""
        self.change_node(node, labels=values)

    def ignore(self, node: str, *, on: bool = True) -> None:
        """Set or remove the ignore label (ROL-2)."""
        self.label(node, **{keys.IGNORE_LABEL: "true" if on else None})

    def taint(self, node: str, *taints: tuple[str, str]) -> None:
        """Replace the node's taints."""
        old = self.nodes[node]
        self.nodes[node] = replace(
            old,
            spec=replace(old.spec, taints=tuple(Taint(k, e) for k, e in taints)),
            metadata=self.moved(old.metadata),
        )

    def cr(self, name: str = CR_NAME, *, settled: bool = True, **fields: Any) -> CR:
        """Create the CR or edit its spec; `settled` writes the status of an earlier pass, so that the first pick need not wait for it."""
        spec = spec_of(**fields)
        faults = tuple(validate_nodewright(spec))
        old = self.crs.get(name)
        if old is None:
            meta = ObjectMeta(
                name=name,
                uid=self.new_uid("cr"),
                resource_version=self.version(),
                generation=1,
                finalizers=(keys.FINALIZER,),
            )
            published = {"rollout": 1, "packageList": spec.package_list} if settled else {}
            self.crs[name] = CR(meta, spec, faults, published)
        else:
            same = old.spec == spec
            meta = old.meta if same else replace(self.moved(old.meta), generation=old.meta.generation + 1)
            self.crs[name] = CR(meta, old.spec if same else spec, faults, old.published)
        return self.crs[name]

    def order(self, name: str = CR_NAME, **annotations: str | None) -> None:
        """Annotate the CR: `pause="true"`, `disable=None`."""
        old = self.crs[name]
        texts = _merged(old.meta.annotations, {f"{keys.PREFIX}{key}": value for key, value in annotations.items()})
        self.crs[name] = CR(replace(self.moved(old.meta), annotations=texts), old.spec, old.faults, old.published)

    def delete_cr(self, name: str = CR_NAME) -> None:
        """Ask for the CR's deletion; it goes when its last finalizer does."""
        old = self.crs[name]
        meta = replace(self.moved(old.meta), deletion_timestamp=self.stamp(), generation=old.meta.generation + 1)
        self.crs[name] = CR(meta, old.spec, old.faults, old.published)

    def publish(self, name: str = CR_NAME, **fields: Any) -> None:
        """Edit the CR's status by hand; None removes a field."""
        old = self.crs[name]
        published = {k: v for k, v in {**old.published, **fields}.items() if v is not None}
        self.crs[name] = CR(self.moved(old.meta), old.spec, old.faults, published)

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
        return sorted(
            self.describe(j) for j in self.jobs.values() if not j.finished and j.metadata.labels[keys.LABEL_NAME] == cr
        )

    def snapshot(self, cr: str = CR_NAME) -> Snapshot:
        """What a pass of the CR reads now."""
        jobs, pods = _indexed(self.jobs.values()), _indexed(self.pods.values())
        return Snapshot(
            cr=self.crs[cr],
            crs=self._same(("crs",), self.crs.values()),
            nodes=self._same(("nodes",), self.nodes.values()),
            jobs_on=lambda c, n: self._same(("jobs", c, n), jobs.get((c, n), ())),
            pods_on=lambda c, n: self._same(("pods", c, n), pods.get((c, n), ())),
            jobs_of=lambda c: self._same(
                ("jobs", c), (j for j in self.jobs.values() if j.metadata.labels.get(keys.LABEL_NAME) == c)
            ),
            configmaps_of=lambda c: self._same(
                ("cm", c), (m for m in self.configmaps.values() if m.metadata.labels.get(keys.LABEL_NAME) == c)
            ),
            metadata_of=lambda c: self._same(
                ("meta", c), (m for m in self.configmaps.values() if m.metadata.labels.get(keys.NODE_META_LABEL) == c)
            ),
            configmap=self.configmaps.get,
            busy=dict(self.busy),
            refused=dict(self.refused),
            unproven=dict(self.unproven),
            given=dict(self.given),
        )

    def _same(self, key: tuple[str, ...], items: Iterable[Any]) -> tuple[Any, ...]:
        """A tuple that is the one of last time unless an element changed."""
        now, before = tuple(items), self._kept.get(key, ())
        if len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True)):
            return before
        self._kept[key] = now
        return now

    def change_node(
        self,
        name: str,
        *,
        annotations: Mapping[str, str | None] | None = None,
        labels: Mapping[str, str | None] | None = None,
        unschedulable: bool | None = None,
    ) -> None:
        old = self.nodes[name]
        meta = replace(
            self.moved(old.metadata),
            annotations=_merged(old.metadata.annotations, annotations or {}),
            labels=_merged(old.metadata.labels, labels or {}),
        )
        spec = old.spec if unschedulable is None else replace(old.spec, unschedulable=unschedulable)
        self.nodes[name] = replace(old, metadata=meta, spec=spec)

    def moved(self, meta: ObjectMeta) -> ObjectMeta:
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
