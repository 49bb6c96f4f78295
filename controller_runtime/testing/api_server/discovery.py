"""What is served, for clients that ask: groups, versions, resources; health and version. Relies on the registry."""

from __future__ import annotations

from typing import Any

import msgspec

from controller_runtime.testing.api_server import openapi
from controller_runtime.testing.api_server.refusals import method_not_allowed, page_not_found
from controller_runtime.testing.api_server.registry import Registry, ResourceType
from controller_runtime.testing.api_server.values import ApiRequest, ApiResponse, Object

VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "embedded",
}
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which a CRD's resources have them."""
_HEALTH = ("healthz", "readyz", "livez")


def answer(registry: Registry, request: ApiRequest) -> ApiResponse | None:
    """The answer to a path that names no resource; None if it names one.

    Raises:
        RefusalError: 404, 405.
    """
    parts = request.path.strip("/").split("/")
    found: Any = None
    match parts:
        case [health, *_] if health in _HEALTH:
            return ApiResponse(200, b"ok", content_type="text/plain; charset=utf-8")
        case ["version"]:
            found = VERSION
        case ["api"]:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]
            found = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
        case ["apis"]:
            groups = [_group(registry, name) for name in _groups(registry) if name]
            found = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", name] if name in _groups(registry):
            found = {**_group(registry, name), "kind": "APIGroup", "apiVersion": "v1"}
        case ["api", version] if registry.has_group_version("", version):
            found = _resources(registry, "", version)
        case ["apis", group, version] if registry.has_group_version(group, version):
            found = _resources(registry, group, version)
        case ["openapi", "v2"]:
            found = openapi.version_two()
        case ["openapi", "v3", *rest]:
            found = openapi.version_three(registry, "/".join(rest))
        case ["api" | "apis", *rest] if len(rest) > 1:
            return None
    if found is None:
        raise page_not_found()
    if request.method != "GET":
        raise method_not_allowed()
    return ApiResponse(200, msgspec.json.encode(found) + b"\n")


def _groups(registry: Registry) -> list[str]:
    return list(dict.fromkeys(kind.group for kind in registry))


def _group(registry: Registry, name: str) -> Object:
    versions = dict.fromkeys(kind.resource.version for kind in registry if kind.group == name)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(registry: Registry, group: str, version: str) -> Object:
    entries: list[Object] = []
    for kind in registry:
        if (kind.group, kind.resource.version) == (group, version):
            entries.append(_entry(kind))
            entries += [_subresource(kind, name) for name in kind.subresources]
    entries.sort(key=lambda entry: str(entry["name"]))
    head = {"kind": "APIResourceList", "apiVersion": "v1"} if group else {"kind": "APIResourceList"}
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": entries}


def _entry(kind: ResourceType) -> Object:
    entry: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.resource.namespaced,
        "kind": kind.kind,
        "verbs": list(_CUSTOM_VERBS if kind.custom is not None else kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    return entry


def _subresource(kind: ResourceType, name: str) -> Object:
    posted = {
        "eviction": ("policy", "Eviction"),
        "binding": ("", "Binding"),
        "token": ("authentication.k8s.io", "TokenRequest"),
    }
    entry: Object = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.resource.namespaced,
        "kind": kind.kind,
        "verbs": ["get", "patch", "update"],
    }
    if name in posted:
        group, word = posted[name]
        entry |= {"kind": word, "group": group, "version": "v1", "verbs": ["create"]}
    elif name == "finalize":
        entry["verbs"] = ["update"]
    return entry
