"""A CR whose spec cannot even be read starts nothing and says why (LIF-4): `Stalled`/`InvalidSpec`, and Ready is not True."""

from typing import Any

from nodewright.engine.conditions import Wanted, merge
from nodewright.engine.node_plan import Status
from nodewright.engine.scope import fault_texts
from nodewright.model.plan import Plan, StatusDraft
from nodewright.model.snapshot import CR


def plan_unreadable(cr: CR, now: float) -> Plan:
    """Only the status: what is wrong, with every field."""
    text = fault_texts(cr.faults)

    def build() -> dict[str, Any]:
        wanted = [Wanted("Ready", text, "Blocked", status=False), Wanted("Stalled", text, "InvalidSpec")]
        kept = {
            key: value
            for key, value in cr.published.items()
            if key not in ("conditions", "status", "observedGeneration")
        }
        return kept | {
            "observedGeneration": cr.meta.generation,
            "status": Status.BLOCKED.value,
            "conditions": merge(cr.published.get("conditions"), wanted, generation=cr.meta.generation, now=now),
        }

    return Plan(status=StatusDraft(Status.BLOCKED.value, build))
