"""A queue of keys with priorities, delays and backoff; each key is worked on by one worker at a time."""

from controller_runtime.queue.backoff import Backoff
from controller_runtime.queue.work_queue import Priority, QueueShutDown, Request, WorkQueue

__all__ = ["Backoff", "Priority", "QueueShutDown", "Request", "WorkQueue"]
