"""Tables as `kubectl get` prints them: the API server chooses the columns. Relies on the registry's kinds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from controller_runtime.testing.api_server import json_path
from controller_runtime.testing.api_server.columns import COLUMNS, Column, age, age_of_custom, human_duration, name
from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.values import Object


def table(kind: ResourceType, items: Sequence[Stored], metadata: Object, now: datetime) -> Object:
    """A `meta.k8s.io/v1` Table of these objects."""
    columns = _columns(kind)
    rows = [
        {
            "cells": [column.read(kind.to_served(stored.fields), now) for column in columns],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": stored.fields["metadata"],
            },
        }
        for stored in items
    ]
    definitions = [
        {
            "name": column.title,
            "type": column.type,
            "format": "name" if column.title == "Name" else "",
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    }


def _columns(kind: ResourceType) -> Sequence[Column]:
    if kind.custom is None:
        return COLUMNS.get(kind.kind, (name, age))
    if not kind.custom.columns:
        return (name, age_of_custom)
    return (name, *(_custom_column(column) for column in kind.custom.columns))


def _custom_column(given: Object) -> Column:
    type_, path = str(given["type"]), str(given["jsonPath"])

    def read(item: Object, now: datetime) -> Any:
        found = json_path.find(item, path)
        if not found:
            return None if type_ != "date" else "<unknown>"
        value = found[0]
        if type_ == "date":
            return human_duration(value, now)
        if isinstance(value, dict | list):
            return json.dumps(value, separators=(",", ":"))
        if type_ == "string" and not isinstance(value, str):
            return str(value).lower() if isinstance(value, bool) else str(value)
        return value

    return Column(
        str(given["name"]),
        read,
        type=type_,
        priority=int(given.get("priority") or 0),
        description=str(given.get("description") or ""),
    )
