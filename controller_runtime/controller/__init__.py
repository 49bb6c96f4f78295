"""Calls one async function per key, whenever something that concerns the key changed."""

from controller_runtime.controller.controller import Controller
from controller_runtime.controller.result import Reconcile, Result, TerminalError
from controller_runtime.controller.sources import (
    ChangeView,
    Mapper,
    Predicate,
    Source,
    changed_by,
    object_key,
    owner_key,
)
from controller_runtime.queue import Request

__all__ = [
    "ChangeView",
    "Controller",
    "Mapper",
    "Predicate",
    "Reconcile",
    "Request",
    "Result",
    "Source",
    "TerminalError",
    "changed_by",
    "object_key",
    "owner_key",
]
