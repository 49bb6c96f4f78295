"""A package's `env`, kept as written and checked as Kubernetes would when the pod is created (ADM-19).

Entries are plain mappings: the schema fixes their shape, and nothing of ours looks inside but these checks. Validation
relies on it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nodewright.api.selectors import is_qualified_name
from nodewright.api.shape import Fault, child

_NAME: Final = re.compile(r"[ -<>-~]+")
"""Printable ASCII without `=`."""
_REFERENCE_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
_FIELDS: Final = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_MAP_FIELD: Final = re.compile(r"metadata\.(?:labels|annotations)\['([^']+)'\]")
_RESOURCE: Final = re.compile(r"(?:limits|requests)\.(?:cpu|memory|ephemeral-storage|hugepages-[a-zA-Z0-9]+)")


def environment_faults(entries: Sequence[Mapping[str, Any]], path: str) -> Iterator[Fault]:
    """All faults of a list of EnvVar."""
    for index, variable in enumerate(entries):
        where = child(path, index)
        name = variable.get("name")
        if not isinstance(name, str) or not name:
            yield Fault(child(where, "name"), name, "is required")
        elif _NAME.fullmatch(name) is None:
            yield Fault(child(where, "name"), name, "must be printable ASCII without `=`")
        if not isinstance(variable.get("value", ""), str):
            yield Fault(child(where, "value"), variable["value"], "must be a string; put it into quotes")
        if variable.get("valueFrom") is not None:
            yield from _source_faults(variable, child(where, "valueFrom"))


def _source_faults(variable: Mapping[str, Any], path: str) -> Iterator[Fault]:
    sources = variable["valueFrom"]
    if variable.get("value"):
        yield Fault(path, sources, "excludes value; keep one of the two")
    if not isinstance(sources, Mapping):
        yield Fault(path, sources, "must be an object")
        return
    if sources.get("fileKeyRef") is not None:
        yield Fault(
            child(path, "fileKeyRef"), sources["fileKeyRef"], "names a volume, and package pods have none to give"
        )
        return
    chosen = [source for source in _SOURCES if sources.get(source) is not None]
    if len(chosen) != 1:
        yield Fault(path, chosen, f"needs exactly one of {', '.join(_SOURCES)}")
    for source in chosen:
        where, reference = child(path, source), sources[source]
        if not isinstance(reference, Mapping):
            yield Fault(where, reference, "must be an object")
        elif source == "fieldRef":
            yield from _field_faults(reference, where)
        elif source == "resourceFieldRef":
            yield from _resource_faults(reference, where)
        else:
            yield from _key_reference_faults(reference, where)


def _field_faults(reference: Mapping[str, Any], path: str) -> Iterator[Fault]:
    field = str(reference.get("fieldPath", ""))
    subscript = _MAP_FIELD.fullmatch(field)
    if field not in _FIELDS and (subscript is None or not is_qualified_name(subscript[1])):
        yield Fault(child(path, "fieldPath"), field or None, "is not a field that an environment variable can take")


def _resource_faults(reference: Mapping[str, Any], path: str) -> Iterator[Fault]:
    resource = str(reference.get("resource", ""))
    if _RESOURCE.fullmatch(resource) is None:
        yield Fault(child(path, "resource"), resource or None, "must be a resource like limits.cpu or requests.memory")


def _key_reference_faults(reference: Mapping[str, Any], path: str) -> Iterator[Fault]:
    if not reference.get("name"):
        yield Fault(child(path, "name"), None, "is required")
    key = str(reference.get("key", ""))
    if _REFERENCE_KEY.fullmatch(key) is None or key == "." or key.startswith(".."):
        yield Fault(child(path, "key"), key or None, "must be a key of a Secret or ConfigMap")
