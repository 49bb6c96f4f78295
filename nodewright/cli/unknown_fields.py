"""Finds the fields of a manifest that its kind does not have, and says which one was meant.

An API server drops such a field and `kubectl apply` refuses it: a rollout that ignores a misspelt budget is not what was asked for.
Pure. Relies on the generated CRDs; `cli.manifests` relies on it.
"""

import functools
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from controller_runtime.testing.api_server.objects.schemas import METADATA_FIELDS
from nodewright.api import keys
from nodewright.api.crd import deployment_policy_crd, nodewright_crd
from nodewright.api.shape import Fault

_CRDS: Final = {keys.NODEWRIGHT_KIND: nodewright_crd, keys.DEPLOYMENT_POLICY_KIND: deployment_policy_crd}


def unknown_fields(kind: str, fields: Mapping[str, Any]) -> list[Fault]:
    """A fault for each field that objects of this kind do not have; what its value has is not looked at, nor is the status."""
    schema = _schema(kind)
    found = list(_of_object(fields, schema, ""))
    metadata = fields.get("metadata")
    if isinstance(metadata, Mapping):
        known: dict[str, Any] = {"properties": {name: {} for name in sorted(METADATA_FIELDS)}}
        found += _of_object(metadata, known, "metadata")
    return found


@functools.cache
def _schema(kind: str) -> Mapping[str, Any]:
    (version,) = _CRDS[kind]()["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    anything: dict[str, Any] = {}
    return {"properties": {**schema["properties"], "metadata": anything, "status": anything}}


def _of(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Fault]:
    if isinstance(value, Mapping):
        yield from _of_object(value, schema, path)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _of(item, schema["items"], f"{path}[{index}]")


def _of_object(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[Fault]:
    known, others = schema.get("properties"), schema.get("additionalProperties")
    for name, item in value.items():
        if known and name in known:
            yield from _of(item, known[name], f"{path}.{name}" if path else name)
        elif isinstance(others, Mapping):
            yield from _of(item, others, f"{path}[{name}]")
        elif known and not others and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield Fault(f"{path}.{name}" if path else str(name), None, _sentence(str(name), list(known)))


def _sentence(name: str, known: list[str]) -> str:
    meant = get_close_matches(name, known, n=1)
    way_out = f"write {meant[0]}" if meant else f"there are {', '.join(known)}"
    return f"is not a field; {way_out}"
