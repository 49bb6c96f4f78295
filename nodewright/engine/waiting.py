"""What holds a deletion, and how people hear of it (CHG-12, invariant 6): condition, Stalled and one Warning. `deletion` relies on it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nodewright.engine.conditions import Wanted, merge, names_or_count
from nodewright.engine.ordering import is_disabled, is_paused
from nodewright.engine.scope import NodeKeys
from nodewright.engine.stages import seconds
from nodewright.engine.troubles import DELETION_GRACE_SECONDS, Trouble
from nodewright.model import node_state
from nodewright.model.node_state import Malformed
from nodewright.model.objects import Node
from nodewright.model.plan import StatusDraft
from nodewright.model.snapshot import CR, Snapshot

CONDITION: Final = "DeletionBlocked"


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a deletion waits for a person, and the causes with their nodes."""

    reason: str
    message: str


def find_causes(
    snapshot: Snapshot, pending: list[Node], terminating: Iterable[Trouble], unclean: Iterable[Node], now: float
) -> tuple[Blocked | None, list[float]]:
    """What holds the deletion, and when to look again.

    `pending` are the nodes with something to uninstall; `terminating` the unfinished Jobs that are being deleted, `unclean` the nodes
    that are still to be written: these two hold it once they have taken longer than a minute.
    """
    causes, wakes = [], []
    reason = "UninstallPending"
    if pending:
        reason, text = _uninstall(snapshot.cr, pending)
        causes.append(text)
    stuck = set()
    for trouble in terminating:
        if trouble.due <= now:
            stuck.add(trouble.node)
        else:
            wakes.append(trouble.due)
    if stuck:
        where = names_or_count(sorted(stuck), "node")
        causes.append(
            f"Jobs do not go away on {where}: their pods still end, as under a kubelet that is down, or hold a finalizer"
        )
    refused = {n.name: answer.text for n in unclean if (answer := snapshot.refused.get(f"Node/{n.name}")) is not None}
    patience = seconds(snapshot.cr.meta.deletion_timestamp) + DELETION_GRACE_SECONDS
    if refused and now < patience:
        wakes.append(patience)
    elif refused:
        name = min(refused)
        causes.append(
            f"the writes to {names_or_count(list(refused), 'node')} do not go through ({name}: {refused[name]})"
        )
    return (Blocked(reason, "; ".join(causes)) if causes else None), wakes


def _uninstall(cr: CR, pending: list[Node]) -> tuple[str, str]:
    """This version cannot uninstall, so only an edit of the spec releases it."""
    own = NodeKeys.of(cr.name)
    names = [node.metadata.name for node in pending]
    malformed = [
        n.metadata.name
        for n in pending
        if isinstance(node_state.parse(n.metadata.annotations.get(own.state)), Malformed)
    ]
    reason = "UninstallPending"
    text = f"packages with uninstall.enabled are still installed on {names_or_count(names, 'node')}"
    if malformed:
        reason, text = "MalformedNodeState", f"node state is not readable on {names_or_count(malformed, 'node')}"
    elif is_disabled(cr):
        reason = "DisabledWithPendingUninstall"
    elif is_paused(cr):
        reason = "PausedWithPendingUninstall"
    return reason, f"{text}; this version does not uninstall: set uninstall.enabled to false to delete without"


def shows_blocked(cr: CR) -> bool:
    """Whether the condition is published as True."""
    return _published(cr, CONDITION).get("status") == "True"


def draft(cr: CR, blocked: Blocked | None, now: float) -> StatusDraft | None:
    """The status with the condition, or with it resolved; None where it has nothing to say."""
    if blocked is None and not shows_blocked(cr):
        return None

    def build() -> dict[str, Any]:
        wanted = _ready(cr)
        if blocked is not None:
            wanted += [
                Wanted(CONDITION, blocked.message, blocked.reason),
                Wanted("Stalled", blocked.message, CONDITION),
            ]
        conditions = merge(cr.published.get("conditions"), wanted, generation=cr.meta.generation, now=now)
        return {**cr.published, "conditions": conditions, "observedGeneration": cr.meta.generation}

    return StatusDraft(str(cr.published.get("status", "unknown")), build)


def _ready(cr: CR) -> list[Wanted]:
    """Ready stays as it was: nothing of the install lane is worked out in deletion."""
    ready = _published(cr, "Ready")
    if not ready:
        return []
    text, reason = str(ready.get("message", "")), str(ready.get("reason", ""))
    return [Wanted("Ready", text, reason, status=ready.get("status") == "True")]


def _published(cr: CR, type_: str) -> Mapping[str, Any]:
    old = cr.published.get("conditions")
    found = (c for c in old if isinstance(c, dict) and c.get("type") == type_) if isinstance(old, list) else iter(())
    return next(found, {})
