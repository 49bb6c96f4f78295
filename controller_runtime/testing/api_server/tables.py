"""Tables as `kubectl get` prints them. Relies on nothing but the registry's kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.values import Object


def table(kind: ResourceType, items: Sequence[Stored], metadata: Object, now: datetime) -> Object:
    """A `meta.k8s.io/v1` Table."""
    columns = [("Name", "string", 0, lambda item: item["metadata"]["name"])]
    rows = [
        {
            "cells": [read(stored.fields) for _, _, _, read in columns],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": stored.fields["metadata"],
            },
        }
        for stored in items
    ]
    definitions = [
        {"name": name, "type": type_, "format": "", "description": "", "priority": priority}
        for name, type_, priority, _ in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    }


Read = Callable[[Object], Any]
