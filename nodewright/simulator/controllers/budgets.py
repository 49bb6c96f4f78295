"""The numbers of a PodDisruptionBudget. Pure; `disruption` writes them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from nodewright.simulator.controllers.times import moment, stamp
from nodewright.simulator.controllers.views import (
    Budget,
    BudgetStatus,
    Condition,
    LabelSelector,
    Pod,
    Requirement,
    find,
)

DELETION_SECONDS = 120.0
"""So long a pod that an eviction named may take to be marked for deletion before it counts as undisturbed again."""


_ENOUGH = ("True", "SufficientPods", "")
_TOO_FEW = ("False", "InsufficientPods", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The status to write, and when to look again."""

    status: BudgetStatus
    recheck: float | None = None


def needs_scale(budget: Budget) -> bool:
    """Whether the sum of the controllers' replicas is needed: for `maxUnavailable` and for a share of pods."""
    return budget.spec.max_unavailable is not None or isinstance(budget.spec.min_available, str)


def numbers(budget: Budget, pods: Sequence[Pod], scale: int, now: datetime) -> Numbers:
    """What may be evicted. `scale` is used where `needs_scale`; shares are rounded up."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        expected, desired = scale, max(0, scale - _of(spec.max_unavailable, scale))
    elif isinstance(spec.min_available, str):
        expected, desired = scale, _of(spec.min_available, scale)
    else:
        expected, desired = len(pods), spec.min_available or 0
    disrupted, recheck = _disrupted(budget.status.disrupted_pods, pods, now)
    healthy = sum(
        pod.ready and pod.metadata.deletion_timestamp is None and pod.metadata.name not in disrupted for pod in pods
    )
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status = BudgetStatus(
        observed_generation=budget.metadata.generation,
        disrupted_pods=disrupted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=_conditions(budget, _ENOUGH if allowed > 0 else _TOO_FEW, now),
    )
    return Numbers(status=status, recheck=recheck)


def failed(budget: Budget, why: str, now: datetime) -> BudgetStatus:
    """The status when the numbers cannot be told: nothing may be evicted."""
    conditions = _conditions(budget, ("False", "SyncFailed", why), now)
    return msgspec.structs.replace(budget.status, disruptions_allowed=0, conditions=conditions)


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector chooses these labels; none chooses nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(_meets(one, labels) for one in selector.match_expressions)


def _meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case _:
            return value is None


def _of(bound: int | str, total: int) -> int:
    return math.ceil(total * int(bound.removesuffix("%")) / 100) if isinstance(bound, str) else bound


def _disrupted(named: Mapping[str, str], pods: Sequence[Pod], now: datetime) -> tuple[dict[str, str], float | None]:
    """The pods whose eviction was granted and whose deletion is not yet seen, and when that stops to be believed."""
    still: dict[str, str] = {}
    recheck: float | None = None
    for pod in pods:
        time = named.get(pod.metadata.name)
        granted = moment(time)
        if pod.metadata.deletion_timestamp is not None or time is None or granted is None:
            continue
        left = (granted + timedelta(seconds=DELETION_SECONDS) - now).total_seconds()
        if left >= 0:
            still[pod.metadata.name] = time
            recheck = left if recheck is None else min(left, recheck)
    return still, recheck


def _conditions(budget: Budget, why: tuple[str, str, str], now: datetime) -> tuple[Condition, ...]:
    status, reason, message = why
    old = find(budget.status.conditions, "DisruptionAllowed")
    same = old is not None and old.status == status
    new = Condition(
        type="DisruptionAllowed",
        status=status,
        reason=reason,
        message=message,
        last_transition_time=old.last_transition_time if old is not None and same else stamp(now),
        observed_generation=budget.metadata.generation,
    )
    return (*(one for one in budget.status.conditions if one.type != new.type), new)
