"""Starts and stops the parts of a process in the right order."""

from controller_runtime.manager.manager import Manager
from controller_runtime.manager.stages import Flushable, Runnable, Stage, Started, Synced

__all__ = ["Flushable", "Manager", "Runnable", "Stage", "Started", "Synced"]
