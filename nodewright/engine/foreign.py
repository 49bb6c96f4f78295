"""Node metadata ConfigMaps under a CR's label that are not the CR's own (CHG-13, CON-16): never written, waited for.

Those of an earlier CR of that name are deleted, by UID: what was written into one would go with it when the garbage collector comes.
What anybody else owns is left alone, and people hear of it. `memory` holds the nodes concerned, `leftovers` deletes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nodewright.api import keys
from nodewright.engine.scope import Scope
from nodewright.model.objects import ConfigMap, owner_uid
from nodewright.model.reason import Code, Reason
from nodewright.model.snapshot import CR, Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """The foreign ones among `every`; `held` has, by the ConfigMap's name, what keeps the packages of its node from starting."""

    every: tuple[ConfigMap, ...] = ()
    objects: tuple[ConfigMap, ...] = ()
    held: Mapping[str, Mapping[str, Reason]] = field(default_factory=dict)

    def seen(self, scope: Scope, snapshot: Snapshot) -> "Foreign":
        """As of this pass: what holds a node is the same object while none of the foreign ones has changed."""
        every = snapshot.metadata_of(scope.name)
        if every is self.every:
            return self
        objects = tuple(c for c in every if owner_uid(c.metadata) != scope.uid)
        if objects == self.objects:
            return Foreign(every, objects, self.held)
        held = {c.metadata.name: dict.fromkeys(scope.order, _reason(c, snapshot.cr)) for c in objects}
        return Foreign(every, objects, held)

    def reasons(self, names: Collection[str]) -> tuple[Reason, ...]:
        """What people have to do something about, among the ConfigMaps of these names."""
        reasons = (next(iter(held.values()), None) for name, held in self.held.items() if name in names)
        return tuple(reason for reason in reasons if reason is not None and reason.code is Code.CONFIG_REFUSED)


NOTHING_FOREIGN = Foreign()


def is_left(configmap: ConfigMap, cr: CR) -> bool:
    """Whether it belonged to an earlier CR of this name: two at once there are never, so its owner is gone for sure."""
    owner = next((o for o in configmap.metadata.owner_references if o.controller), None)
    return (
        owner is not None and owner.kind == keys.NODEWRIGHT_KIND and owner.name == cr.name and owner.uid != cr.meta.uid
    )


def _reason(configmap: ConfigMap, cr: CR) -> Reason:
    name = configmap.metadata.name
    if is_left(configmap, cr):
        text = f"waits for ConfigMap {name} of an earlier NodeWright of that name to go"
        return Reason(Code.CONFIG_LEAVING, text, "it is deleted")
    return Reason(Code.CONFIG_REFUSED, f"ConfigMap {name} belongs to somebody else", "delete it")
