"""All admission rules that need no cluster, in one place (ADM-1 to ADM-17a, ADM-19, ADM-21).

The engine shows what they find as `InvalidSpec`; the webhook and `kubectl nodewright lint` reject with the same words.
Each function returns every fault it sees, never only the first. Relies on the models, which have checked the shape.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from nodewright.api.deployment_policy import (
    Budget,
    Compartment,
    DeploymentPolicy,
    DeploymentPolicySpec,
    PolicyDefault,
    Strategy,
)
from nodewright.api.durations import DurationError, parse_duration
from nodewright.api.environment import environment_faults
from nodewright.api.graph import dependency_faults
from nodewright.api.keys import DEFAULT_COMPARTMENT, MAX_CR_NAME
from nodewright.api.nodewright import (
    InterruptionBudget,
    NodeWright,
    NodeWrightSpec,
    Package,
    Resources,
    config_key_matches,
)
from nodewright.api.quantities import QuantityError, parse_quantity
from nodewright.api.selectors import Canonical, selector_faults
from nodewright.api.shape import Fault, bounds_faults, child, entry, parse_leniently
from nodewright.api.tolerations import toleration_faults
from nodewright.api.versions import is_version

PACKAGE_NAME: Final = re.compile(r"[a-z][-a-z0-9]{0,41}[a-z]")
CONTAINER_SHA: Final = re.compile(r"sha256:[0-9a-f]{64}")
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def check_nodewright(raw: bytes | str | Mapping[str, Any]) -> list[Fault]:
    """All faults of a raw NodeWright at once: its name, its shape, and what is invalid in the rest. Never raises."""
    parsed, faults = parse_leniently(NodeWright, raw, path="")
    return _merged(faults, name_faults(parsed.metadata.name), validate_nodewright(parsed.spec))


def check_policy(raw: bytes | str | Mapping[str, Any]) -> list[Fault]:
    """All faults of a raw DeploymentPolicy at once: its shape and what is invalid in the rest. Never raises."""
    parsed, faults = parse_leniently(DeploymentPolicy, raw, path="")
    return _merged(faults, validate_policy(parsed.spec))


def validate_nodewright(spec: NodeWrightSpec) -> list[Fault]:
    """All faults of a well-shaped spec."""
    return list(_nodewright_faults(spec))


def validate_policy(spec: DeploymentPolicySpec) -> list[Fault]:
    """All faults of a well-shaped policy (ADM-21)."""
    return list(_policy_faults(spec))


def name_faults(name: str) -> list[Fault]:
    """ADM-19: what is wrong with a NodeWright's name (only checked on create)."""
    if len(name) <= MAX_CR_NAME:
        return []
    return [
        Fault("metadata.name", name, f"is longer than {MAX_CR_NAME} characters, the most that fits in node annotations")
    ]


def is_config_key(name: str) -> bool:
    """Whether Kubernetes takes `name` as a key of a ConfigMap (ADM-14)."""
    return _CONFIG_KEY.fullmatch(name) is not None and name != "." and not name.startswith("..")


def _merged(shape: list[Fault], *rest: list[Fault]) -> list[Fault]:
    # What was misshapen was left out, so a rule may call it missing: the first word on a path is the better one.
    told = {fault.path for fault in shape}
    return shape + [fault for faults in rest for fault in faults if fault.path not in told]


def _nodewright_faults(spec: NodeWrightSpec) -> Iterator[Fault]:
    yield from bounds_faults(spec, "spec")
    yield from selector_faults(spec.node_selectors, "spec.nodeSelectors")
    yield from _budget_of_spec_faults(spec)
    yield from selector_faults(spec.pod_non_interrupt_labels, "spec.podNonInterruptLabels")
    yield from _duration_faults(spec.drain_config.timeout, "spec.drainConfig.timeout")
    yield from _duration_faults(spec.drain_config.grace_period, "spec.drainConfig.gracePeriod")
    for index, toleration in enumerate(spec.additional_tolerations):
        yield from toleration_faults(toleration, child("spec.additionalTolerations", index))
    for name, package in spec.packages.items():
        yield from _package_faults(name, package, entry("spec.packages", name))
    yield from dependency_faults(spec.packages)


def _budget_of_spec_faults(spec: NodeWrightSpec) -> Iterator[Fault]:
    budget = spec.interruption_budget or InterruptionBudget()
    if spec.deployment_policy and budget.is_set:
        yield Fault("spec.deploymentPolicy", spec.deployment_policy, "excludes interruptionBudget; keep one of the two")
    if budget.percent is not None and budget.count is not None:
        written = {"percent": budget.percent, "count": budget.count}
        yield Fault("spec.interruptionBudget", written, "has both percent and count; keep one of the two")


def _package_faults(name: str, package: Package, path: str) -> Iterator[Fault]:
    if PACKAGE_NAME.fullmatch(name) is None:
        yield Fault(path, name, f"is not a package name; it must match ^{PACKAGE_NAME.pattern}$")
    if package.name is not None:
        yield Fault(child(path, "name"), package.name, "must not be set: the key of the map is the name")
    yield from _version_faults(package.version, child(path, "version"))
    yield from _image_faults(package.image, child(path, "image"))
    if package.container_sha and CONTAINER_SHA.fullmatch(package.container_sha) is None:
        yield Fault(child(path, "containerSHA"), package.container_sha, "must be sha256: and 64 lower-case hex digits")
    yield from _config_faults(package, path)
    yield from environment_faults(package.env, child(path, "env"))
    if package.resources is not None:
        yield from _resource_faults(package.resources, child(path, "resources"))
    yield from _duration_faults(package.graceful_shutdown, child(path, "gracefulShutdown"))
    yield from _duration_faults(package.stage_timeout, child(path, "stageTimeout"))
    if package.uninstall.apply and not package.uninstall.enabled:
        yield Fault(child(path, "uninstall", "apply"), True, "needs uninstall.enabled: true")


def _version_faults(version: str, path: str) -> Iterator[Fault]:
    if not version:
        yield Fault(path, None, "is required")
    elif not is_version(version):
        yield Fault(path, version, "is not semver; write it like 1.2.3, without a leading v")


def _image_faults(image: str, path: str) -> Iterator[Fault]:
    """ADM-10; a colon before the last `/` is a registry's port."""
    if not image:
        yield Fault(path, None, "is required")
    if any(character.isspace() for character in image):
        yield Fault(path, image, "contains whitespace")
    if "@" in image:
        yield Fault(path, image, "contains a digest; put it into containerSHA")
    elif ":" in image.rpartition("/")[2]:
        yield Fault(path, image, "contains a tag; the version is the tag")


def _config_faults(package: Package, path: str) -> Iterator[Fault]:
    for name in package.config_map:
        if not is_config_key(name):
            message = (
                "is not a key of a ConfigMap: at most 253 letters, digits, `-`, `_`, `.`; it is a file name, not a path"
            )
            yield Fault(entry(child(path, "configMap"), name), name, message)
    for pattern in package.config_interrupts:
        if not any(config_key_matches(pattern, name) for name in package.config_map):
            yield Fault(entry(child(path, "configInterrupts"), pattern), pattern, "matches no key of configMap")


def _resource_faults(resources: Resources, path: str) -> Iterator[Fault]:
    fields = {
        "cpuRequest": resources.cpu_request,
        "cpuLimit": resources.cpu_limit,
        "memoryRequest": resources.memory_request,
        "memoryLimit": resources.memory_limit,
    }
    missing = [name for name, value in fields.items() if value is None]
    if 0 < len(missing) < len(fields):
        yield Fault(path, None, f"needs all four fields or none; missing: {', '.join(missing)}")
    values = {}
    for name, written in fields.items():
        if written is None:
            continue
        try:
            values[name] = parse_quantity(written)
        except QuantityError as error:
            yield Fault(child(path, name), written, str(error).partition(" ")[2])
            continue
        if values[name] <= 0:
            yield Fault(child(path, name), written, "must be positive")
    for limit, request in (("cpuLimit", "cpuRequest"), ("memoryLimit", "memoryRequest")):
        if limit in values and request in values and values[limit] < values[request]:
            yield Fault(child(path, limit), fields[limit], f"is below {request}, {fields[request]}")


def _duration_faults(text: str | None, path: str) -> Iterator[Fault]:
    if text is None:
        return
    try:
        if parse_duration(text) < 0:
            yield Fault(path, text, "must not be negative")
    except DurationError as error:
        yield Fault(path, text, str(error).removeprefix(repr(text)).strip())


def _policy_faults(spec: DeploymentPolicySpec) -> Iterator[Fault]:
    yield from bounds_faults(spec, "spec")
    if spec.default is None:
        yield Fault("spec.default", None, "is required: nodes that no compartment selects need a budget")
    else:
        yield from _policy_default_faults(spec.default, "spec.default")
    names: set[str] = set()
    selectors: dict[Canonical, str] = {}
    for index, compartment in enumerate(spec.compartments):
        path = child("spec.compartments", index)
        yield from _compartment_name_faults(compartment, names, child(path, "name"))
        names.add(compartment.name)
        yield from selector_faults(compartment.selector, child(path, "selector"))
        canonical = compartment.selector.canonical()
        if canonical in selectors:
            selector = compartment.selector.model_dump(by_alias=True, exclude_unset=True)
            yield Fault(child(path, "selector"), selector, f"is the same as that of compartment {selectors[canonical]}")
        selectors.setdefault(canonical, compartment.name)
        yield from _policy_default_faults(compartment, path)


def _compartment_name_faults(compartment: Compartment, names: set[str], path: str) -> Iterator[Fault]:
    if not compartment.name:
        yield Fault(path, None, "is required")
    elif compartment.name == DEFAULT_COMPARTMENT:
        yield Fault(path, compartment.name, "is reserved for the nodes that no compartment selects")
    elif compartment.name in names:
        yield Fault(path, compartment.name, "is the name of another compartment too")


def _policy_default_faults(policy: PolicyDefault, path: str) -> Iterator[Fault]:
    yield from _budget_faults(policy.budget, child(path, "budget"))
    if policy.strategy is not None:
        yield from _strategy_faults(policy.strategy, child(path, "strategy"))


def _budget_faults(budget: Budget, path: str) -> Iterator[Fault]:
    if (budget.percent is None) == (budget.count is None):
        yield Fault(path, budget.model_dump(exclude_none=True), "needs exactly one of percent and count")


def _strategy_faults(strategy: Strategy, path: str) -> Iterator[Fault]:
    chosen = [kind for kind in ("fixed", "linear", "exponential") if getattr(strategy, kind) is not None]
    if len(chosen) != 1:
        yield Fault(path, chosen, "needs exactly one of fixed, linear and exponential")
