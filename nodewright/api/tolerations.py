"""Tolerations exactly as Kubernetes has them: model, match against a taint, validation (ROL-3, CON-24, ADM-19).

Relies on `shape`; the engine (blocked nodes), the drain (pods that tolerate the cordon) and the workloads rely on it.
"""

from collections.abc import Iterator
from typing import Final

from pydantic import Field

from nodewright.api.keys import is_label_value
from nodewright.api.selectors import is_qualified_name
from nodewright.api.shape import Fault, Model, child

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)

EXISTS: Final = "Exists"
EQUAL: Final = "Equal"


class Toleration(Model):
    """Which taints a pod puts up with. An empty key with `Exists` matches every key, an empty effect every effect."""

    key: str = Field(default="", description="Taint key; empty with operator Exists matches every key.")
    operator: str = Field(default="", description="Exists or Equal; empty means Equal.")
    value: str = Field(default="", description="Taint value for operator Equal.")
    effect: str = Field(
        default="", description="NoSchedule, PreferNoSchedule or NoExecute; empty matches every effect."
    )
    toleration_seconds: int | None = Field(
        default=None, description="With effect NoExecute: how long the taint is tolerated; unset means for ever."
    )

    def tolerates(self, *, key: str, value: str, effect: str) -> bool:
        """Whether the taint is tolerated by Kubernetes' rules."""
        if self.effect and self.effect != effect:
            return False
        if self.key and self.key != key:
            return False
        match self.operator:
            case "Exists":
                return True
            case "" | "Equal":
                return bool(self.key) and self.value == value
            case _:
                return False

    def to_manifest(self) -> dict[str, object]:
        """The toleration as a pod carries it."""
        return self.model_dump(by_alias=True, exclude_unset=True)


def toleration_faults(toleration: Toleration, path: str) -> Iterator[Fault]:
    """All faults Kubernetes would find when the pod is created."""
    if toleration.key and not is_qualified_name(toleration.key):
        yield Fault(child(path, "key"), toleration.key, "is not a taint key")
    if not toleration.key and toleration.operator != EXISTS:
        yield Fault(
            child(path, "operator"), toleration.operator, "must be Exists when key is empty, which matches all taints"
        )
    if toleration.operator not in {"", EXISTS, EQUAL}:
        yield Fault(child(path, "operator"), toleration.operator, "must be Exists or Equal")
    if toleration.operator == EXISTS and toleration.value:
        yield Fault(child(path, "value"), toleration.value, "must be empty when operator is Exists")
    if toleration.operator != EXISTS and not is_label_value(toleration.value):
        yield Fault(child(path, "value"), toleration.value, "is not a taint value")
    if toleration.effect and toleration.effect not in EFFECTS:
        yield Fault(child(path, "effect"), toleration.effect, f"must be empty or one of {', '.join(EFFECTS)}")
    if toleration.toleration_seconds is not None and toleration.effect != NO_EXECUTE:
        yield Fault(child(path, "effect"), toleration.effect, "must be NoExecute when tolerationSeconds is set")
