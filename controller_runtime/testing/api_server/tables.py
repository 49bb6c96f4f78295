"""Tables as `kubectl get` prints them: the API server chooses the columns. Relies on `objects.tables`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from controller_runtime.testing.api_server.core import served
from controller_runtime.testing.api_server.objects.tables import TableLayout, layout_of
from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.values import Object


def table(kind: ResourceType, items: Sequence[Stored], metadata: Object, now: datetime) -> Object:
    """A `meta.k8s.io/v1` Table of these objects."""
    layout = _layout(kind)
    rows = [{**layout.row(served(kind, stored.fields), now), "object": partial_object(stored)} for stored in items]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": layout.definitions(),
        "rows": rows,
    }


def partial_object(stored: Stored) -> Object:
    """The metadata only."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored.fields["metadata"],
    }


def _layout(kind: ResourceType) -> TableLayout:
    return kind.custom.layout if kind.custom is not None else layout_of(kind.group, kind.kind)
