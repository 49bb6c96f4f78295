"""The metrics of rollouts (OBS-1): what dashboards and alerts know of each NodeWright, its nodes, packages and compartments.

A collector that holds the last numbers of each CR and makes series of them at the scrape: nothing can stay behind of a
package version, compartment or CR that is gone. Counting happens in `publish`, once per status that was built. Relies on
prometheus_client only; the operator's shell calls it after each status.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from nodewright.api.status import Stage, State, Status

LEGACY_POLICY: Final = "legacy"
"""`policy_name` of a rollout without a DeploymentPolicy."""
UNKNOWN_STRATEGY: Final = "unknown"

_STATUSES: Final = tuple(status.value for status in Status)
_STATES: Final = tuple(state.value for state in State)
_STAGES: Final = tuple(stage.value for stage in Stage)
_PACKAGE: Final = ("package_name", "package_version")
_COMPARTMENT: Final = ("policy_name", "compartment_name", "strategy")


class _Family(NamedTuple):
    name: str
    labels: tuple[str, ...]
    meaning: str


_FAMILIES: Final = (
    _Family("status", ("status",), "1 for the status the NodeWright has, 0 for every other."),
    _Family("node_status_count", ("status",), "Selected nodes in each status."),
    _Family("node_target_count", (), "Selected nodes."),
    _Family("package_state_count", (*_PACKAGE, "state"), "Nodes on which the package is in each state."),
    _Family("package_stage_count", (*_PACKAGE, "stage"), "Nodes on which the package is at each stage."),
    _Family("package_restarts_count", _PACKAGE, "Failed attempts at the package's current stages, over all nodes."),
    _Family("rollout_matched_nodes", _COMPARTMENT, "Nodes of the compartment."),
    _Family("rollout_ceiling", _COMPARTMENT, "Nodes the compartment's budget allows at once."),
    _Family("rollout_in_progress", _COMPARTMENT, "Nodes of the compartment being worked on."),
    _Family("rollout_completed", _COMPARTMENT, "Complete nodes of the compartment."),
    _Family("rollout_progress_percent", _COMPARTMENT, "Progress of the compartment in percent."),
    _Family("rollout_current_batch", _COMPARTMENT, "Number of the current batch, from 1."),
    _Family("rollout_consecutive_failures", _COMPARTMENT, "Failed batches in a row."),
    _Family("rollout_should_stop", _COMPARTMENT, "1 once failureThreshold stopped the compartment."),
)

_Sample = tuple[tuple[str, ...], float]
_Samples = Mapping[str, list[_Sample]]


class DomainMetrics(Collector):
    """The series of OBS-1, registered with `registry`; `publish_legacy`: also as `skyhook_*` with label `skyhook_name`.

    Safe to scrape from another thread: what is published is replaced as a whole and never changed.
    """

    def __init__(self, registry: CollectorRegistry, *, publish_legacy: bool) -> None:
        self._prefixes = ("nodewright", "skyhook") if publish_legacy else ("nodewright",)
        self._published: dict[str, _Samples] = {}
        registry.register(self)

    def publish(
        self, cr_name: str, published: Mapping[str, Any], *, policy_name: str = "", strategies: Mapping[str, str]
    ) -> None:
        """Replaces all numbers of a CR by those of its status, as built: before anything is left out for size (CON-6).

        `policy_name` is empty without a policy; `strategies` maps compartments to `fixed`, `linear` or `exponential`.
        """
        self._published[cr_name] = {
            **_status_samples(published),
            **_package_samples(published),
            **_rollout_samples(published, policy_name or LEGACY_POLICY, strategies),
        }

    def forget(self, cr_name: str) -> None:
        """Ends all series of a CR that was deleted."""
        self._published.pop(cr_name, None)

    def forget_all(self) -> None:
        """Ends all series: a standby must not export beside the leader."""
        self._published = {}

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The families without series, for the registry's check of names."""
        return [self._family(prefix, family) for prefix in self._prefixes for family in _FAMILIES]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The series of this scrape."""
        published = sorted(self._published.items())
        for prefix in self._prefixes:
            for family in _FAMILIES:
                series = self._family(prefix, family)
                for cr, samples in published:
                    for labels, value in samples[family.name]:
                        series.add_metric((cr, *labels), value)
                yield series

    @staticmethod
    def _family(prefix: str, family: _Family) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"{prefix}_{family.name}", family.meaning, labels=(f"{prefix}_name", *family.labels))


def _status_samples(published: Mapping[str, Any]) -> _Samples:
    current = published.get("status") or Status.UNKNOWN.value
    node_status: Mapping[str, str] = published.get("nodeStatus") or {}
    nodes = Counter(node_status.values())
    return {
        "status": [((status,), float(status == current)) for status in _STATUSES],
        "node_status_count": [((status,), nodes[status]) for status in _STATUSES],
        "node_target_count": [((), len(node_status))],
    }


def _package_samples(published: Mapping[str, Any]) -> _Samples:
    """Counts per package and version: of the spec's from the start, of another version while a node still has it.

    Entries of packages that left the spec, and markers of other versions, stay on nodes for good (LIF-10, CHG-6); they
    are no part of the rollout and would be series for ever.
    """
    wanted = _versions(published.get("packageList") or "")
    seen: Counter[tuple[str, str, str]] = Counter()
    failed: Counter[str] = Counter()
    for entries in (published.get("nodeState") or {}).values():
        for key, entry in entries.items():
            if not isinstance(entry, Mapping):
                continue  # a status that is published on as it was found may hold what people wrote (LIF-1)
            seen[key, str(entry.get("stage")), str(entry.get("state"))] += 1
            restarts_here = entry.get("restarts")
            if isinstance(restarts_here, int):
                failed[key] += restarts_here
    states: Counter[tuple[str, str, str]] = Counter()
    stages: Counter[tuple[str, str, str]] = Counter()
    restarts: dict[tuple[str, str], int] = dict.fromkeys(wanted.items(), 0)
    for (key, stage, state), nodes in seen.items():
        name, _, version = key.partition("|")
        if name not in wanted or (state == State.UNKNOWN and version != wanted[name]):
            continue
        states[name, version, state] += nodes
        stages[name, version, stage] += nodes
        restarts[name, version] = failed[key]
    packages = sorted(restarts)
    return {
        "package_state_count": [((*one, state), states[*one, state]) for one in packages for state in _STATES],
        "package_stage_count": [((*one, stage), stages[*one, stage]) for one in packages for stage in _STAGES],
        "package_restarts_count": [(one, restarts[one]) for one in packages],
    }


def _versions(package_list: str) -> dict[str, str]:
    pairs = (item.partition(":") for item in package_list.split(",") if item)
    return {name: version for name, _, version in pairs}


def _rollout_samples(published: Mapping[str, Any], policy: str, strategies: Mapping[str, str]) -> _Samples:
    samples: dict[str, list[_Sample]] = {f.name: [] for f in _FAMILIES if f.labels == _COMPARTMENT}
    for name, compartment in sorted((published.get("compartmentStatuses") or {}).items()):
        labels = (policy, name, strategies.get(name) or UNKNOWN_STRATEGY)
        batch = compartment.get("batchState") or {}
        numbers = {
            "matched_nodes": compartment.get("matched", 0),
            "ceiling": compartment.get("ceiling", 0),
            "in_progress": compartment.get("inProgress", 0),
            "completed": compartment.get("completed", 0),
            "progress_percent": compartment.get("progressPercent", 0),
            "current_batch": batch.get("currentBatch", 1),
            "consecutive_failures": batch.get("consecutiveFailures", 0),
            "should_stop": batch.get("shouldStop", False),
        }
        for number, value in numbers.items():
            samples[f"rollout_{number}"].append((labels, float(value)))
    return samples
