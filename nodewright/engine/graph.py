"""The order of packages on a node (LIF-7): dependencies first, then by name."""

from collections.abc import Mapping

from nodewright.api.nodewright import Package


def package_order(packages: Mapping[str, Package]) -> tuple[str, ...]:
    """Package names, dependencies first, names breaking ties. Members of a cycle come last: they never start (LIF-4)."""
    left = dict.fromkeys(sorted(packages))
    done: dict[str, None] = {}
    while left:
        ready = [name for name in left if all(d in done or d not in packages for d in packages[name].depends_on)]
        if not ready:
            return (*done, *left)
        for name in ready:
            done[name] = None
            del left[name]
    return tuple(done)


def unmet_dependency(name: str, package: Package, complete: Mapping[str, str]) -> str | None:
    """The first package that `name` must wait for on a node, as `name:version`; `complete` maps finished packages to their version."""
    for dependency, version in sorted(package.depends_on.items()):
        if complete.get(dependency) != version:
            return f"{dependency}:{version}"
    return None
