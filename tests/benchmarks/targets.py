"""What is to be reached, and whether it was: each target is a name, a limit and a value of a case. Pure."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tests.benchmarks.cases import Case
from tests.benchmarks.floor_run import MeasuredFloor
from tests.benchmarks.rollout import RolloutResult

WALL_RATIO = 1.3
WRITES_PER_NODE = 13.0
CPU_SECONDS = 26.0
PEAK_MIB = 170.0
IDLE_CPU_PER_MINUTE = 0.5
DOUBLING = 2.2


class CaseResult(msgspec.Struct, kw_only=True):
    """A case with its floor."""

    case: Case
    rollout: RolloutResult
    floor: MeasuredFloor

    @property
    def wall_ratio(self) -> float:
        """The rollout's time in floors."""
        return self.rollout.wall_seconds / self.floor.wall_seconds

    @property
    def cpu_ratio(self) -> float:
        """CPU seconds of everything until `complete`, in floors: what the wall ratio tends to when the machine is the limit."""
        return self.rollout.all_cpu_seconds / self.floor.all_cpu_seconds

    @property
    def idle_cpu_per_minute(self) -> float:
        """Operator CPU seconds in a minute of idling."""
        return self.rollout.idle_cpu_seconds * 60.0 / self.rollout.idle_seconds if self.rollout.idle_seconds else 0.0

    @property
    def idle_noise(self) -> dict[str, int]:
        """Requests of the idle minute that should not be: all but the lease and the watches."""
        return {name: number for name, number in self.rollout.idle_requests.items() if not _expected_when_idle(name)}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the verdict."""

    case: str
    text: str
    limit: float
    value: float

    @property
    def reached(self) -> bool:
        """Whether the value is within the limit."""
        return self.value <= self.limit


def targets_of(results: Sequence[CaseResult]) -> Iterator[Target]:
    """Every target that these results can be held against."""
    for result in results:
        case, rollout = result.case, result.rollout
        if case.nodes >= 100:
            yield Target(case=case.name, text="wall, in floors", limit=WALL_RATIO, value=result.wall_ratio)
        if case.packages == 1:
            yield Target(
                case=case.name, text="write requests a node", limit=WRITES_PER_NODE, value=rollout.writes_per_node
            )
        if case.nodes == 1000 and case.packages == 1:
            yield Target(case=case.name, text="operator CPU seconds", limit=CPU_SECONDS, value=rollout.cpu_seconds)
            yield Target(case=case.name, text="peak RSS, MiB", limit=PEAK_MIB, value=rollout.peak_rss_mib)
        late = float(rollout.late_writes.get("patch nodes", 0))
        yield Target(case=case.name, text="node patches after the CR was complete", limit=0.0, value=late)
        if rollout.idle_seconds:
            noise = float(sum(result.idle_noise.values()))
            yield Target(case=case.name, text="idle requests but lease and watches", limit=0.0, value=noise)
            yield Target(
                case=case.name,
                text="idle CPU seconds a minute",
                limit=IDLE_CPU_PER_MINUTE,
                value=result.idle_cpu_per_minute,
            )
    yield from _doublings({result.case.nodes: result for result in results if result.case.name.isdigit()})


def _doublings(by_nodes: Mapping[int, CaseResult]) -> Iterator[Target]:
    for nodes, result in by_nodes.items():
        twice = by_nodes.get(2 * nodes)
        if twice is not None:
            name = f"{nodes}→{2 * nodes}"
            wall = twice.rollout.wall_seconds / result.rollout.wall_seconds
            yield Target(case=name, text="wall for twice the nodes", limit=DOUBLING, value=wall)
            cpu = twice.rollout.cpu_seconds / result.rollout.cpu_seconds
            yield Target(case=name, text="operator CPU for twice the nodes", limit=DOUBLING, value=cpu)


def _expected_when_idle(name: str) -> bool:
    verb, _, resource = name.partition(" ")
    return verb == "watch" or resource == "leases"
