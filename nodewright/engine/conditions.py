"""Conditions as they are published (ROL-22, ROL-23a): transition times change with the status only, one that was never true is absent."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

NAMES_SHOWN = 10
OURS = frozenset({
    "Ready", "ApplyPackage", "PackageSkipped", "TaintNotTolerable", "NodesIgnored", "DeploymentPolicyNotFound", "Blocked", "DrainBlocked",
    "DeletionBlocked", "NodeStateMalformed", "ImagePullFailed", "StatusTruncated", "Stalled", "RolloutStopped", "Unsupported",
})  # fmt: skip
"""Every condition type of ours (ROL-23); one of anybody else's is none of our business and stays as it is."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A condition that holds now; `status` is True unless it is `Ready`, which always shows. `reason` is the type
    where no rule names one."""

    type: str
    message: str = ""
    reason: str = ""
    status: bool = True


def rfc3339(moment: float) -> str:
    """Seconds since the epoch as Kubernetes writes times."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merge(published: object, wanted: Iterable[Wanted], *, generation: int, now: float) -> list[dict[str, Any]]:
    """The list to publish: what is wanted, and what ceased to be true with reason `Resolved`. Sorted by type;
    conditions of others are kept."""
    before = {c["type"]: c for c in _readable(published)}
    after: dict[str, dict[str, Any]] = {}
    for one in wanted:
        after[one.type] = _condition(before.get(one.type), one, generation, now)
    for type_, old in before.items():
        if type_ in after:
            continue
        if old.get("status") == "True" and type_ in OURS:
            after[type_] = _condition(old, Wanted(type_, "", "Resolved", status=False), generation, now)
        else:
            after[type_] = {**old, "observedGeneration": generation} if type_ in OURS else dict(old)
    return [after[type_] for type_ in sorted(after)]


def _readable(published: object) -> list[Mapping[str, Any]]:
    if not isinstance(published, Sequence):
        return []
    return [c for c in published if isinstance(c, Mapping) and isinstance(c.get("type"), str)]


def _condition(old: Mapping[str, Any] | None, one: Wanted, generation: int, now: float) -> dict[str, Any]:
    status = "True" if one.status else "False"
    since = old.get("lastTransitionTime") if old is not None and old.get("status") == status else None
    since = since if isinstance(since, str) else None
    return {
        "type": one.type,
        "status": status,
        "reason": one.reason or one.type,
        "message": one.message,
        "lastTransitionTime": since or rfc3339(now),
        "observedGeneration": generation,
    }


def names_or_count(names: Sequence[str], noun: str) -> str:
    """Up to ten names, else how many (ROL-2)."""
    if len(names) > NAMES_SHOWN:
        return f"{len(names)} {noun}s"
    return f"{noun}{'s' if len(names) > 1 else ''} {', '.join(sorted(names))}"
