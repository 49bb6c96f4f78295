"""The nodes of a simulation: made so that they fit the manifests' selectors, or as a real cluster's `kubectl get nodes -o json` has them.

Pure. Made nodes get the labels that the selectors ask for; where selectors exclude each other, nodes take turns, and so they do for the
compartments of the policies in use. `nodewright simulate` relies on it.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from nodewright.api import keys
from nodewright.api.deployment_policy import DeploymentPolicySpec
from nodewright.api.nodewright import NodeWrightSpec
from nodewright.api.selectors import LabelSelector, Operator

Labels = dict[str, str]
MOST: Final = 10_000
"""More nodes than this are refused: the picture would help nobody."""


class NodesError(ValueError):
    """The nodes cannot be read or made; one sentence with the way out."""


@dataclass(frozen=True, slots=True)
class MadeNodes:
    """Nodes to be created, as API objects, and what a person should know about them."""

    items: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()
    silent: frozenset[str] = field(default_factory=frozenset)
    """Nodes whose kubelet does not answer: they were not Ready."""

    @property
    def names(self) -> list[str]:
        """All names, in order."""
        return [item["metadata"]["name"] for item in self.items]


def make_nodes(
    count: int, specs: Mapping[str, NodeWrightSpec], policies: Mapping[str, DeploymentPolicySpec]
) -> MadeNodes:
    """`count` nodes whose labels make each spec select some of them.

    Raises:
        NodesError: `count` is not 1 to 10,000.
    """
    if not 1 <= count <= MOST:
        raise NodesError(f"{count} nodes cannot be simulated; give 1 to {MOST}")
    groups, unfit = _groups(specs)
    width = max(4, len(str(count)))
    labels_of: list[Labels] = []
    for number in range(count):
        selectors, names = groups[number % len(groups)]
        own = _labels(selectors, number // len(groups)) or {}
        labels_of.append(_with_compartment(own, selectors, names, specs, policies, number))
    items = tuple(_node(f"node-{number + 1:0{width}d}", labels) for number, labels in enumerate(labels_of))
    notes = [_told(labels_of)]
    notes += [
        f"no labels satisfy the nodeSelectors of NodeWright {name}: it selects none of the nodes" for name in unfit
    ]
    return MadeNodes(items, tuple(notes))


def read_nodes(text: str) -> MadeNodes:
    """The nodes of `kubectl get nodes -o json`: a List, or one Node.

    Names, labels, NodeWright's annotations, taints, unschedulable and boot IDs are kept. The kubelet of a node that is not
    Ready does not answer.

    Raises:
        NodesError: it is something else.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise NodesError(f"is not JSON ({error}); make it with `kubectl get nodes -o json`") from None
    found = document.get("items", [document]) if isinstance(document, dict) else document
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise NodesError("is not a list of Nodes; make it with `kubectl get nodes -o json`")
    items, silent = [], set()
    for raw in found:
        metadata = raw.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if raw.get("kind", "Node") != "Node" or not name or not isinstance(name, str):
            raise NodesError(
                f"has a {raw.get('kind', 'object without a kind')}; make it with `kubectl get nodes -o json`"
            )
        _check_shape(name, raw)
        items.append(_cleaned(raw))
        if not _is_ready(raw):
            silent.add(name)
    if not items:
        raise NodesError("has no nodes")
    if len(items) > MOST:
        raise NodesError(f"has {len(items)} nodes; at most {MOST} can be simulated")
    if len({item["metadata"]["name"] for item in items}) < len(items):
        raise NodesError("has a node twice")
    notes = [f"{counted(len(items), 'node')} as they were read"]
    carried = sum(1 for item in items if item["metadata"]["annotations"])
    if carried:
        notes.append(f"NodeWright's annotations on {counted(carried, 'node')}: the operator goes on from them")
    if silent:
        notes.append(f"not Ready, so nothing that is started there will run: {_some(sorted(silent))}")
    return MadeNodes(tuple(items), tuple(notes), frozenset(silent))


def counted(number: int, what: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _check_shape(name: str, raw: Mapping[str, Any]) -> None:
    """What is looked at below has the shape that an API server gives it."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    for where, value, shape in (
        ("spec", spec, dict),
        ("spec.taints", spec.get("taints") if isinstance(spec, dict) else None, list),
        ("status", status, dict),
        ("metadata.labels", raw["metadata"].get("labels"), dict),
        ("metadata.annotations", raw["metadata"].get("annotations"), dict),
        ("status.conditions", status.get("conditions") if isinstance(status, dict) else None, list),
    ):
        if value is not None and not isinstance(value, shape):
            wanted = "an object" if shape is dict else "a list"
            raise NodesError(f"node {name}: {where} is not {wanted}; make it with `kubectl get nodes -o json`")
    if not all(isinstance(one, dict) for one in status.get("conditions") or ()):
        raise NodesError(f"node {name}: status.conditions has no objects; make it with `kubectl get nodes -o json`")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


# --- making ----------------------------------------------------------------------------------------------------------

_Group = tuple[list[LabelSelector], list[str]]


def _groups(specs: Mapping[str, NodeWrightSpec]) -> tuple[list[_Group], list[str]]:
    """Selectors that a node can satisfy together, with the names of their CRs; and the CRs that no node can satisfy."""
    groups: list[_Group] = []
    unfit = []
    for name, spec in specs.items():
        selector = spec.node_selectors
        if _labels([selector], 0) is None:
            unfit.append(name)
            continue
        for selectors, names in groups:
            if _labels([*selectors, selector], 0) is not None:
                selectors.append(selector)
                names.append(name)
                break
        else:
            groups.append(([selector], [name]))
    return groups or [([], [])], unfit


def _labels(selectors: Sequence[LabelSelector], turn: int) -> Labels | None:
    """Labels that satisfy all of them, or None. `turn` chooses among the values of an In."""
    wanted: Labels = {}
    choices: list[tuple[str, tuple[str, ...]]] = []
    for selector in selectors:
        for key, value in selector.match_labels.items():
            if wanted.setdefault(key, value) != value:
                return None
        for requirement in selector.match_expressions:
            if requirement.operator == Operator.IN:
                choices.append((requirement.key, requirement.values))
            elif requirement.operator == Operator.EXISTS:
                choices.append((requirement.key, ()))
    for key, values in choices:
        if key in wanted or not values:
            continue
        common = [value for value in values if all(value in other for name, other in choices if name == key and other)]
        for value in _turned(common, turn):
            if all(_allows(selector, key, value) for selector in selectors):
                wanted[key] = value
                break
    for key, values in choices:
        if not values and key not in wanted:
            wanted[key] = "true"
    return wanted if all(selector.matches(wanted) for selector in selectors) else None


def _turned(values: Sequence[str], turn: int) -> Iterator[str]:
    start = turn % len(values) if values else 0
    yield from itertools.chain(values[start:], values[:start])


def _allows(selector: LabelSelector, key: str, value: str) -> bool:
    return not any(
        requirement.operator == Operator.NOT_IN and requirement.key == key and value in requirement.values
        for requirement in selector.match_expressions
    )


def _with_compartment(
    own: Labels,
    selectors: Sequence[LabelSelector],
    names: Sequence[str],
    specs: Mapping[str, NodeWrightSpec],
    policies: Mapping[str, DeploymentPolicySpec],
    number: int,
) -> Labels:
    """The labels with those of the compartment whose turn it is, if the node can have them."""
    labels = own
    for name in names:
        policy = policies.get(specs[name].deployment_policy)
        compartments = policy.compartments if policy is not None else ()
        turn = number % (len(compartments) + 1)
        if turn == len(compartments):
            continue
        added = _labels([compartments[turn].selector], number)
        merged = {**(added or {}), **labels}
        if added is not None and all(s.matches(merged) for s in (*selectors, compartments[turn].selector)):
            labels = merged
    return labels


def _told(labels_of: Sequence[Labels]) -> str:
    kinds: dict[tuple[tuple[str, str], ...], int] = {}
    for labels in labels_of:
        kind = tuple(sorted(labels.items()))
        kinds[kind] = kinds.get(kind, 0) + 1
    if set(kinds) == {()}:
        return f"{counted(len(labels_of), 'node')} without labels of their own, which is what the nodeSelectors ask for"
    parts = [
        f"{count} with {', '.join(f'{k}={v}' for k, v in kind) or 'none'}" for kind, count in list(kinds.items())[:6]
    ]
    parts += [f"{len(kinds) - 6} kinds more"] if len(kinds) > 6 else []
    return f"{counted(len(labels_of), 'node')} with labels taken from the nodeSelectors: {'; '.join(parts)}"


def _node(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    basic = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    metadata = {"name": name, "labels": {**basic, **labels}, "annotations": {}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


# --- reading ---------------------------------------------------------------------------------------------------------


def _cleaned(raw: Mapping[str, Any]) -> dict[str, Any]:
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k.startswith(keys.PREFIX)}
    kept_spec = {key: spec[key] for key in ("taints", "unschedulable") if spec.get(key)}
    kept_status = {
        key: status[key]
        for key in ("nodeInfo", "conditions", "capacity", "allocatable", "addresses")
        if status.get(key)
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": metadata["name"], "labels": metadata.get("labels") or {}, "annotations": annotations},
        "spec": kept_spec,
        "status": kept_status,
    }


def _is_ready(raw: Mapping[str, Any]) -> bool:
    conditions = (raw.get("status") or {}).get("conditions") or []
    ready = [one.get("status") for one in conditions if one.get("type") == "Ready"]
    return not ready or ready[0] == "True"
