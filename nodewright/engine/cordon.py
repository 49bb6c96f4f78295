"""Releasing the CR's own cordon (INT-3): the node becomes schedulable only when no cordon of anybody's is left."""

from nodewright.api import keys
from nodewright.engine.scope import NodeKeys
from nodewright.model.objects import Node


def releases(own: NodeKeys, node: Node) -> bool | None:
    """The value for `unschedulable` when the CR's cordon annotation goes: False if it was the last cordon, None to leave it."""
    annotations = node.metadata.annotations
    if annotations.get(own.cordon) != "true" or not node.spec.unschedulable:
        return None
    others = any(key.startswith(keys.CORDON_PREFIX) and key != own.cordon for key in annotations)
    return None if others or keys.RUNTIME_REQUIRED_CORDON in annotations else False
