"""What the evaluation of a node needs of its CR, worked out once per generation instead of once per node."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodewright.api import keys
from nodewright.api.nodewright import NodeWrightSpec, Package
from nodewright.api.shape import Fault
from nodewright.engine.graph import package_order
from nodewright.engine.support import Obstacles, obstacles
from nodewright.model.objects import Taint
from nodewright.model.snapshot import CR, PlanSettings
from nodewright.workloads.claims import package_label

_CORDON_TAINT = "node.kubernetes.io/unschedulable"
_LIFECYCLE_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_LEGACY_TAINT = Taint("skyhook.nvidia.com", "NoSchedule", "runtime-required")  # MIG-6
_HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class NodeKeys:
    """The keys of one CR on a node (CON-7, CON-8)."""

    state: str
    status: str
    version: str
    cordon: str
    drain_start: str
    drain_blocked: str
    pick: str
    not_ready: str
    erroring: str

    @staticmethod
    def of(cr: str) -> "NodeKeys":
        """The keys of the CR of that name, and of no other: never matched by prefix or suffix (B71)."""
        return NodeKeys(
            state=keys.node_state_key(cr),
            status=keys.status_key(cr),
            version=keys.version_key(cr),
            cordon=keys.cordon_key(cr),
            drain_start=keys.drain_start_key(cr),
            drain_blocked=keys.drain_blocked_key(cr),
            pick=keys.pick_key(cr),
            not_ready=keys.not_ready_condition(cr),
            erroring=keys.erroring_condition(cr),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A CR as the evaluation of nodes sees it: constant for a generation, compared by identity."""

    name: str
    uid: str
    generation: int
    spec: NodeWrightSpec
    settings: PlanSettings
    keys: NodeKeys
    order: tuple[str, ...]
    obstacles: Obstacles
    mounts: bool  # a package has a ConfigMap
    labels: Mapping[str, str]  # package label of Jobs (CON-14) → package name, for the versions of the spec

    @staticmethod
    def of(cr: CR, spec: NodeWrightSpec, settings: PlanSettings) -> "Scope":
        """The scope of a CR whose spec could be read."""
        return Scope(
            name=cr.meta.name,
            uid=cr.meta.uid,
            generation=cr.meta.generation,
            spec=spec,
            settings=settings,
            keys=NodeKeys.of(cr.meta.name),
            order=package_order(spec.packages),
            obstacles=obstacles(spec, cr.faults),
            mounts=any(package.config_map for package in spec.packages.values()),
            labels={package_label(name, package.version): name for name, package in spec.packages.items()},
        )

    def job_name(self, package: Package, name: str, stage: str, node: str) -> str:
        """The claim on a stage of a package of the spec (CON-13)."""
        return keys.job_name(cr=self.name, package=name, version=package.version, stage=stage, node=node)

    def untolerated(self, taints: tuple[Taint, ...]) -> tuple[tuple[Taint, ...], tuple[Taint, ...]]:
        """The taints that keep package pods away (ROL-3): lasting ones, and those of a node that is away for a moment."""
        lasting: list[Taint] = []
        lifecycle: list[Taint] = []
        for taint in taints:
            if taint.effect not in _HARD_EFFECTS or self._tolerates(taint):
                continue
            (lifecycle if taint.key in _LIFECYCLE_TAINTS else lasting).append(taint)
        return tuple(lasting), tuple(lifecycle)

    def _tolerates(self, taint: Taint) -> bool:
        if taint.key == _CORDON_TAINT or taint == _LEGACY_TAINT:
            return True
        s = self.settings
        if taint == Taint(s.taint_key, s.taint_effect, s.taint_value):
            return True
        return any(
            t.tolerates(key=taint.key, value=taint.value, effect=taint.effect) for t in self.spec.additional_tolerations
        )


def fault_texts(faults: tuple[Fault, ...]) -> str:
    """All faults in one line for a condition's message."""
    return "; ".join(str(fault) for fault in faults)
