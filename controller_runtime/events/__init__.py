"""Events for people (`events.k8s.io/v1`): never in the way, and folded into series."""

from controller_runtime.events.event import EventType, ObjectReference
from controller_runtime.events.recorder import EventRecorder

__all__ = ["EventRecorder", "EventType", "ObjectReference"]
