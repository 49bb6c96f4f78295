"""The dependency graph of a spec's packages: what is wrong with it (ADM-17a).

Pure; validation relies on it.
"""

from collections.abc import Iterator, Mapping

from nodewright.api.nodewright import Package
from nodewright.api.shape import Fault, entry


def dependency_faults(packages: Mapping[str, Package]) -> Iterator[Fault]:
    """Empty versions, packages that are not there, other versions than theirs, and cycles; a version that is missing is told elsewhere."""
    for name, package in packages.items():
        path = f"{entry('spec.packages', name)}.dependsOn"
        for wanted, version in package.depends_on.items():
            where = entry(path, wanted)
            if not version:
                yield Fault(where, version, "must be a version: write the dependency as name: version")
            if wanted not in packages:
                yield Fault(where, version, f"depends on {wanted}, which is not a package of this NodeWright")
            elif version and packages[wanted].version and version != packages[wanted].version:
                yield Fault(where, version, f"is not the version of {wanted} in this spec, {packages[wanted].version}")
    for cycle in find_cycles(packages):
        path = f"{entry('spec.packages', cycle[0])}.dependsOn"
        yield Fault(path, None, f"is a cycle: {' -> '.join((*cycle, cycle[0]))}")


def find_cycles(packages: Mapping[str, Package]) -> list[tuple[str, ...]]:
    """One cycle of each knot in the graph, each starting with the first of its names; empty if the graph is sound."""
    done: set[str] = set()
    cycles: dict[frozenset[str], tuple[str, ...]] = {}
    for start in packages:
        # Depth first with a stack of our own: a chain of thousands of packages must not exhaust Python's.
        trail: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                done.add(trail.pop())
                continue
            if name in done or name not in packages:
                continue
            if name in trail:
                knot = trail[trail.index(name) :]
                first = knot.index(min(knot))
                cycles.setdefault(frozenset(knot), (*knot[first:], *knot[:first]))
                continue
            trail.append(name)
            stack.append((name, True))
            stack.extend((each, False) for each in reversed(packages[name].depends_on))
    return sorted(cycles.values())
