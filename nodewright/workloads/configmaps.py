"""The ConfigMaps that stage pods mount (CON-16): a package's configuration, and what a package may know of its node.

Bodies are byte-deterministic, so that comparing `data` says whether a write is needed. NodeWright's own bookkeeping on
the node is left out of the node's metadata: it changes with every stage and is none of a package's business. Pure; the
engine relies on it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from nodewright.api import keys
from nodewright.api.nodewright import Interrupt, NodeWrightSpec, Package
from nodewright.model.objects import ConfigMap, Node
from nodewright.model.snapshot import CR, PlanSettings
from nodewright.workloads.claims import owner_reference
from nodewright.workloads.identity import Same

ANNOTATIONS_FILE: Final = "annotations.json"
LABELS_FILE: Final = "labels.json"
PACKAGES_FILE: Final = "packages.json"

_BOOKKEEPING: Final = (*keys.PER_CR_PREFIXES, keys.AUTO_TAINT_PREFIX)
_CACHED_SPECS: Final = 128
_encode = msgspec.json.Encoder(order="sorted").encode


def package_configmap(cr: CR, name: str, package: Package, settings: PlanSettings) -> dict[str, Any]:
    """The ConfigMap of package `name`: the spec's `configMap` verbatim, to be mounted key by key (CON-17)."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": keys.package_configmap_name(cr=cr.name, package=name, version=package.version),
            "namespace": settings.namespace,
            "labels": {keys.LABEL_NAME: keys.label_value(cr.name)},
            "annotations": {
                keys.ANNOTATION_NAME: cr.name,
                keys.ANNOTATION_PACKAGE_NAME: name,
                keys.ANNOTATION_PACKAGE_VERSION: package.version,
            },
            "ownerReferences": [owner_reference(cr)],
        },
        "data": dict(package.config_map),
    }


def node_metadata(cr: CR, node: Node, settings: PlanSettings) -> dict[str, Any]:
    """The ConfigMap with the node's annotations and labels and the CR's packages."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": keys.node_metadata_configmap_name(cr=cr.name, node=node.name),
            "namespace": settings.namespace,
            "labels": {keys.NODE_META_LABEL: keys.label_value(cr.name)},
            "ownerReferences": [owner_reference(cr)],
        },
        "data": {
            ANNOTATIONS_FILE: _without_bookkeeping(node.metadata.annotations),
            LABELS_FILE: _without_bookkeeping(node.metadata.labels),
            PACKAGES_FILE: _packages(Same(cr.spec), settings.agent_image),
        },
    }


def differs(current: ConfigMap, body: Mapping[str, Any]) -> bool:
    """Whether what pods would mount differs from what they should; labels and annotations of others do not matter."""
    return bool(current.data != body["data"])


def is_bookkeeping(key: str) -> bool:
    """Whether a node's annotation or label is one of NodeWright's own records, whichever CR's."""
    return key.startswith(keys.PREFIX) and (key.startswith(_BOOKKEEPING) or key == keys.RUNTIME_REQUIRED_CORDON)


def _without_bookkeeping(items: Mapping[str, str]) -> str:
    return _encode({key: value for key, value in items.items() if not is_bookkeeping(key)}).decode()


@lru_cache(maxsize=_CACHED_SPECS)
def _packages(spec: Same[NodeWrightSpec | None], agent_image: str) -> str:
    packages = spec.value.packages if spec.value else {}
    return _encode(
        {
            "agentVersion": image_tag(agent_image),
            "packages": {name: _package(name, package) for name, package in packages.items()},
        }
    ).decode()


def _package(name: str, package: Package) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "version": package.version, "image": package.image}
    if package.agent_image_override:
        described["agentImageOverride"] = package.agent_image_override
    if package.interrupt is not None:
        described["interrupt"] = _interrupt(package.interrupt)
    if package.config_interrupts:
        described["configInterrupts"] = {key: _interrupt(value) for key, value in package.config_interrupts.items()}
    return described


def _interrupt(interrupt: Interrupt) -> dict[str, Any]:
    described: dict[str, Any] = {"type": interrupt.type.value}
    if interrupt.services:
        described["services"] = list(interrupt.services)
    return described


def image_tag(image: str) -> str:
    """The tag of an image reference, empty without one; a colon before the last `/` is a registry's port."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]
