"""What of a spec cannot be done: fields whose behaviour is not there yet, and faults that got past admission (LIF-4).

Neither is ever half-obeyed: the packages concerned are not started, the CR's conditions `Unsupported` and
`Stalled`/`InvalidSpec` name the field. Delete an
entry here in the commit that brings its behaviour.
"""

from dataclasses import dataclass

from nodewright.api.nodewright import DrainConfig, NodeWrightSpec, Package
from nodewright.api.shape import Fault
from nodewright.model.reason import Code, Reason


@dataclass(frozen=True, slots=True, eq=False)
class Obstacles:
    """Why packages of a spec may not start: `unsupported` and `invalid` are field paths and messages; `packages`
    maps a name to its reason."""

    unsupported: tuple[str, ...]
    invalid: tuple[str, ...]
    packages: dict[str, Reason]

    def of(self, package: str) -> Reason | None:
        """Why this package may not start, or None."""
        return self.packages.get(package)


def obstacles(spec: NodeWrightSpec, faults: tuple[Fault, ...]) -> Obstacles:
    """Everything in the spec that keeps packages from starting. Faults outside packages concern all of them."""
    held: dict[str, Reason] = {}
    for name, message in _invalid_packages(spec, faults):
        held.setdefault(name, Reason(Code.INVALID_SPEC, message, "correct the field"))
    whole, some = _unsupported_of_spec(spec)
    for path in whole:
        for name in spec.packages:
            held.setdefault(name, _unsupported(path))
    unsupported = [*whole, *some]
    for name, package in sorted(spec.packages.items()):
        for field in _unsupported_of_package(package):
            path = f"spec.packages[{name}].{field}"
            unsupported.append(path)
            held.setdefault(name, _unsupported(path))
    invalid = tuple(str(fault) for fault in faults)
    return Obstacles(tuple(unsupported), invalid, held)


def _unsupported(path: str) -> Reason:
    return Reason(
        Code.UNSUPPORTED,
        f"{path} is not supported by this version",
        "remove the field, or use a version that supports it",
    )


def _invalid_packages(spec: NodeWrightSpec, faults: tuple[Fault, ...]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for fault in faults:
        names = [name for name in spec.packages if fault.path.startswith(f"spec.packages[{name}]")]
        found += [(name, str(fault)) for name in (names or spec.packages)]
    return found


def _unsupported_of_spec(spec: NodeWrightSpec) -> tuple[list[str], list[str]]:
    """Fields that concern every package, and fields that concern only packages with an interrupt, which do not start anyway."""
    whole = [
        path
        for path, used in (
            ("spec.deploymentPolicy", bool(spec.deployment_policy)),
            ("spec.runtimeRequired", spec.runtime_required),
            ("spec.autoTaintNewNodes", spec.auto_taint_new_nodes),
            ("spec.runtimeRequiredCordonAfter", spec.runtime_required_cordon_after),
        )
        if used
    ]
    some = [
        path
        for path, used in (
            ("spec.podNonInterruptLabels", not spec.pod_non_interrupt_labels.empty),
            ("spec.drainConfig", spec.drain_config != DrainConfig()),
        )
        if used
    ]
    return whole, some


def _unsupported_of_package(package: Package) -> list[str]:
    fields = (
        ("interrupt", package.interrupt is not None),
        ("configInterrupts", bool(package.config_interrupts)),
        ("uninstall.enabled", package.uninstall.enabled),
        ("uninstall.apply", package.uninstall.apply),
    )
    return [field for field, used in fields if used]
