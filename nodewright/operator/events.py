"""Events of the plan as `events.k8s.io/v1` events (OBS-6). The recorder never fails a pass and never makes it wait."""

from typing import Final, Protocol

from controller_runtime.events import EventRecorder, ObjectReference
from nodewright.api import keys
from nodewright.model.objects import Node
from nodewright.model.plan import Event, EventType
from nodewright.model.snapshot import CR
from nodewright.operator.informers import Stores

CONTROLLER: Final = "nodewright.nvidia.com/operator"


class EventSink(Protocol):
    """Where events go; never fails, never waits."""

    def on_node(self, node: Node, event: Event) -> None:
        """An event that came with a node's writes."""

    def on_cr(self, cr: CR, event: Event) -> None:
        """An event about a CR, or about the node it names."""


class PlanEvents:
    """Tells the recorder."""

    def __init__(self, recorder: EventRecorder, stores: Stores) -> None:
        self._recorder = recorder
        self._stores = stores

    def on_node(self, node: Node, event: Event) -> None:
        """Record an event on the node."""
        self._record(_node_reference(node.metadata.name, node.metadata.uid), event, subject=event.note)

    def on_cr(self, cr: CR, event: Event) -> None:
        """Record an event on the CR, or on the node that the event names."""
        if event.node is not None:
            node = self._stores.nodes.get(event.node)
            uid = node.metadata.uid if node is not None else ""
            self._record(_node_reference(event.node, uid), event, subject=event.note)
            return
        about = ObjectReference(
            api_version=keys.API_VERSION, kind=keys.NODEWRIGHT_KIND, name=cr.name, namespace="", uid=cr.meta.uid
        )
        self._record(about, event)

    def _record(self, about: ObjectReference, event: Event, *, subject: str = "") -> None:
        """On a node each stage of each package is an event of its own; on the CR there is one series per reason (JOB-17)."""
        self._recorder.event(
            about,
            type="Warning" if event.type is EventType.WARNING else "Normal",
            reason=event.reason,
            action=event.action,
            note=event.note,
            subject=subject,
        )


def _node_reference(name: str, uid: str) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Node", name=name, namespace="", uid=uid)
