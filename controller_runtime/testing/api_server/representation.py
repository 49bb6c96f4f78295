"""In which form an object is answered: whole, as a row of a table (`kubectl get`), or its metadata only.

Relies on `tables`. The form is asked for in the `Accept` header: `application/json;as=Table;g=meta.k8s.io;v=v1`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from controller_runtime.testing.api_server import tables
from controller_runtime.testing.api_server.core import encoded
from controller_runtime.testing.api_server.lists import ListPage, encode_list
from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.store import Stored

_META = "meta.k8s.io/v1"


def one(kind: ResourceType, stored: Stored, accept: str, now: datetime) -> bytes:
    """One object."""
    match _form(accept):
        case "Table":
            return (
                msgspec.json.encode(tables.table(kind, [stored], {"resourceVersion": str(stored.version)}, now)) + b"\n"
            )
        case "PartialObjectMetadata":
            return msgspec.json.encode(tables.partial_object(stored)) + b"\n"
    return encoded(kind, stored) + b"\n"


def many(route: Route, page: ListPage, accept: str, now: datetime) -> bytes:
    """A page of a list."""
    match _form(accept):
        case "Table":
            return msgspec.json.encode(tables.table(route.kind, page.items, page.metadata(), now)) + b"\n"
        case "PartialObjectMetadataList":
            items = [tables.partial_object(stored) for stored in page.items]
            head = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": _META,
                "metadata": page.metadata(),
                "items": items,
            }
            return msgspec.json.encode(head) + b"\n"
    return encode_list(route, page)


def event_form(kind: ResourceType, accept: str, now: Callable[[], datetime]) -> Callable[[Stored], bytes] | None:
    """How a watch shows objects; None for whole ones."""
    match _form(accept):
        case "Table":
            return lambda stored: msgspec.json.encode(
                tables.table(kind, [stored], {"resourceVersion": str(stored.version)}, now())
            )
        case "PartialObjectMetadata":
            return lambda stored: msgspec.json.encode(tables.partial_object(stored))
    return None


def _form(accept: str) -> str:
    """The first form that is asked for and known here; empty for the whole object."""
    if ";as=" not in accept:
        return ""
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        if media not in ("application/json", "*/*"):
            continue
        given = dict(parameter.partition("=")[::2] for parameter in parameters)
        if given.get("as") and given.get("v", "v1") != "v1":
            continue
        return given.get("as", "")
    return ""
