"""From stores to what a pass reads: parsed CRs and policies that keep their identity, and the `Snapshot` (references only).

The engine memoises per spec object, so a spec is parsed again only when its bytes changed: status writes, annotations and even the
generation that a deletion raises leave it the same object. Relied on by the reconciler and the triggers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from nodewright.api.deployment_policy import DeploymentPolicySpec
from nodewright.api.nodewright import NodeWrightSpec
from nodewright.api.shape import Fault, parse_leniently
from nodewright.api.validation import name_faults, validate_nodewright
from nodewright.model.objects import ConfigMap, DeploymentPolicyObject, Job, NodeWrightObject, Pod
from nodewright.model.pick import Pick
from nodewright.model.snapshot import CR, Answer, Policy, Snapshot
from nodewright.operator.informers import BY_CR, BY_CR_AND_NODE, Stores
from nodewright.operator.published import PublishedStatus

T = TypeVar("T", Job, Pod)


@dataclass(slots=True)
class _ParsedCR:
    source: NodeWrightObject
    cr: CR


@dataclass(slots=True)
class _ParsedPolicy:
    source: DeploymentPolicyObject
    policy: Policy


class Catalog:
    """All CRs and policies, parsed. Follows the stores by itself and parses on demand."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._crs: dict[str, _ParsedCR] = {}
        self._policies: dict[str, _ParsedPolicy] = {}

    def cr(self, name: str) -> CR | None:
        """The CR of that name as the store has it now; the same object until anything of it changed."""
        source = self._stores.nodewrights.get(name)
        if source is None:
            self._crs.pop(name, None)
            return None
        held = self._crs.get(name)
        if held is None:
            held = self._crs[name] = _ParsedCR(source, _parse_cr(source, None))
        elif held.source is not source:
            held.cr = _parse_cr(source, held)
            held.source = source
        return held.cr

    def crs(self) -> list[CR]:
        """All CRs, by name."""
        names = sorted(self._stores.nodewrights.keys())
        for gone in self._crs.keys() - set(names):
            del self._crs[gone]
        return [cr for name in names if (cr := self.cr(name)) is not None]

    def policies(self) -> Mapping[str, Policy]:
        """All policies by name; an unchanged one is the same object."""
        present = {source.metadata.name: source for source in self._stores.policies.values()}
        for gone in self._policies.keys() - present.keys():
            del self._policies[gone]
        for name, source in present.items():
            held = self._policies.get(name)
            if held is None:
                self._policies[name] = _ParsedPolicy(source, _parse_policy(source))
            elif held.source is not source:
                if bytes(held.source.spec) != bytes(source.spec):
                    held.policy = _parse_policy(source)
                held.source = source
        return {name: held.policy for name, held in self._policies.items()}


def _parse_cr(source: NodeWrightObject, before: _ParsedCR | None) -> CR:
    meta = source.metadata
    same = before is not None and before.source.metadata.uid == meta.uid
    if before is not None and same and bytes(before.source.spec) == bytes(source.spec):
        spec, faults = before.cr.spec, before.cr.faults
    else:
        spec, faults = _parse_spec(source)
    return CR(meta=meta, spec=spec, faults=faults, published=PublishedStatus(source.status))


def _parse_spec(source: NodeWrightObject) -> tuple[NodeWrightSpec | None, tuple[Fault, ...]]:
    spec, misshapen = parse_leniently(NodeWrightSpec, source.spec, path="spec")
    if misshapen:
        # A selector that was left out would select every node: of a misshapen spec nothing is obeyed.
        return None, tuple(misshapen)
    return spec, (*name_faults(source.metadata.name), *validate_nodewright(spec))


def _parse_policy(source: DeploymentPolicyObject) -> Policy:
    spec, misshapen = parse_leniently(DeploymentPolicySpec, source.spec, path="spec")
    return Policy(name=source.metadata.name, spec=None if misshapen else spec)


class Snapshots:
    """Makes the snapshot of one pass."""

    def __init__(self, stores: Stores, catalog: Catalog) -> None:
        self._stores = stores
        self._catalog = catalog
        self._readers: dict[str, Any] = {
            "jobs_on": _on(stores.jobs.by_index),
            "pods_on": _on(stores.pods.by_index),
            "jobs_of": self._jobs_of,
            "configmaps_of": self._configmaps_of,
            "metadata_of": self._metadata_of,
            "configmap": self._configmap,
        }

    def of(
        self,
        cr: CR,
        *,
        busy: Mapping[str, Pick | None],
        refused: Mapping[str, Answer],
        unproven: Mapping[str, int],
        given: Mapping[int, int],
    ) -> Snapshot:
        """The cluster as a pass of `cr` sees it. What its functions answer is live: it is for planning, with no await in between."""
        return Snapshot(
            cr=cr,
            crs=self._catalog.crs(),
            nodes=tuple(self._stores.nodes.values()),
            policies=self._catalog.policies(),
            busy=busy,
            refused=refused,
            unproven=unproven,
            given=given,
            **self._readers,
        )

    def _jobs_of(self, cr: str) -> tuple[Job, ...]:
        return self._stores.jobs.by_index(BY_CR, cr)

    def _configmaps_of(self, cr: str) -> tuple[ConfigMap, ...]:
        return self._stores.configmaps.by_index(BY_CR, cr)

    def _metadata_of(self, cr: str) -> tuple[ConfigMap, ...]:
        return self._stores.metadata.by_index(BY_CR, cr)

    def _configmap(self, name: str) -> ConfigMap | None:
        key = self._stores.key(name)
        return self._stores.configmaps.get(key) or self._stores.metadata.get(key)


def _on(by_index: Callable[[str, str], tuple[T, ...]]) -> Callable[[str, str], tuple[T, ...]]:
    return lambda cr, node: by_index(BY_CR_AND_NODE, f"{cr}/{node}")
