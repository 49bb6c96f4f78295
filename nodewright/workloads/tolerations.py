"""The tolerations of every pod that is created (CON-24): what a node may carry while it is worked on, then what the user added.

Kubernetes takes the first toleration that matches a taint, so a default that the user's entry covers is left out, or the user's
`tolerationSeconds` would never count. Pure; the Job bodies rely on it.
"""

from collections.abc import Sequence
from typing import Any, Final

from nodewright.api.tolerations import EFFECTS, EQUAL, EXISTS, NO_EXECUTE, NO_SCHEDULE, Toleration
from nodewright.model.snapshot import PlanSettings

UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
LEGACY_RUNTIME_REQUIRED: Final = ("skyhook.nvidia.com", "runtime-required", NO_SCHEDULE)
"""Key, value and effect of the old operator's taint: tolerated, never applied (MIG-6)."""


def pod_tolerations(additional: Sequence[Toleration], settings: PlanSettings) -> list[dict[str, Any]]:
    """All tolerations of a package or interrupt pod, the user's last."""
    runtime_required = (settings.taint_key, settings.taint_value, settings.taint_effect)
    taints = [runtime_required, *([LEGACY_RUNTIME_REQUIRED] if runtime_required != LEGACY_RUNTIME_REQUIRED else [])]
    defaults = _tolerate(UNSCHEDULABLE, EFFECTS, additional)
    defaults += [
        {"key": key, "operator": EQUAL, "value": value, "effect": effect}
        for key, value, effect in taints
        if not _covered(key, value, effect, additional)
    ]
    for key in (NOT_READY, UNREACHABLE):
        defaults += _tolerate(key, (NO_EXECUTE,), additional)
    return defaults + [toleration.to_manifest() for toleration in additional]


def _tolerate(key: str, effects: Sequence[str], additional: Sequence[Toleration]) -> list[dict[str, Any]]:
    left = [effect for effect in effects if not _covered(key, "", effect, additional)]
    if left == list(EFFECTS):
        return [{"key": key, "operator": EXISTS}]
    return [{"key": key, "operator": EXISTS, "effect": effect} for effect in left]


def _covered(key: str, value: str, effect: str, additional: Sequence[Toleration]) -> bool:
    return any(toleration.tolerates(key=key, value=value, effect=effect) for toleration in additional)
