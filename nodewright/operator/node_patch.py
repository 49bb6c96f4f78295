"""A node patch of the plan as a JSON patch: tests first, then changes (CON-11).

Every operation on a key of ours is preceded by a test of the value the plan was made from, and all of them by a test of the node's UID, so
that nothing of ours is ever overwritten unseen and another node of the same name is never hit. Pure; `node_writes` relies on it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nodewright.model.objects import Node
from nodewright.model.plan import NodePatch

Operation = dict[str, Any]


def operations(node: Node, patch: NodePatch, *, resource_version: str) -> list[Operation]:
    """The patch against what `node` shows; empty when nothing would change. `resource_version` is the newest at which the node read so.

    Two nodes that give equal lists pass the same tests: that is how a refusal is told from a lost race.
    """
    parts = [
        *_map_operations("/metadata/annotations", node.metadata.annotations, patch.annotations),
        *_map_operations("/metadata/labels", node.metadata.labels, patch.labels),
        *_cordon_operations(node, unschedulable=patch.unschedulable, resource_version=resource_version),
    ]
    if all(part["op"] == "test" for part in parts):
        return []
    return [_test("/metadata/uid", node.metadata.uid), *parts]


def condition_operations(node: Node, entries: Sequence[Mapping[str, Any]]) -> list[Operation] | None:
    """Conditions in the same request as our keys, if their places in the node's list are certain; None: they need one of their own.

    A condition that is there is replaced where it stands, under a test of its type. One that is missing may only be appended by a
    patch that proves in the same breath that nothing of ours was on the node (the caller's business): a picture that is too old
    would make two of a type.
    """
    places = {condition.type: place for place, condition in enumerate(node.status.conditions)}
    if not places or len(places) != len(node.status.conditions):
        return None
    result: list[Operation] = []
    for entry in entries:
        if "$patch" in entry:
            return None
        place = places.get(entry["type"])
        if place is None:
            result.append({"op": "add", "path": "/status/conditions/-", "value": dict(entry)})
            continue
        path = f"/status/conditions/{place}"
        result += [_test(f"{path}/type", entry["type"]), {"op": "replace", "path": path, "value": dict(entry)}]
    return result


def _map_operations(path: str, current: Mapping[str, str], changes: Mapping[str, str | None]) -> Iterator[Operation]:
    if not changes:
        return
    if not current:
        # The API server leaves an empty map out, and a test below a map that is not there is refused: test and add it whole.
        added = {key: changes[key] for key in sorted(changes) if changes[key] is not None}
        if added:
            yield _test(path, None)
            yield {"op": "add", "path": path, "value": added}
        return
    for key in sorted(changes):
        old, new = current.get(key), changes[key]
        where = f"{path}/{_escaped(key)}"
        yield _test(where, old)
        if new == old:
            continue
        yield {"op": "remove", "path": where} if new is None else {"op": "add", "path": where, "value": new}


def _cordon_operations(node: Node, *, unschedulable: bool | None, resource_version: str) -> Iterator[Operation]:
    if unschedulable is None:
        return
    path, cordoned = "/spec/unschedulable", node.spec.unschedulable
    # A schedulable node has no such field.
    yield _test(path, True if cordoned else None)
    if unschedulable:
        if not cordoned:
            yield {"op": "add", "path": path, "value": True}
        return
    # Another CR may be adding its cordon annotation in this very moment (design: Consistency).
    yield _test("/metadata/resourceVersion", resource_version)
    if cordoned:
        yield {"op": "remove", "path": path}


def _test(path: str, value: object) -> Operation:
    return {"op": "test", "path": path, "value": value}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
