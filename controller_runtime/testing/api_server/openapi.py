"""OpenAPI documents, as far as `kubectl` reads them: which parameters a PATCH takes, and the schemas of custom resources.

Relies on the registry. Built-in kinds have no schemas here, so `kubectl explain` knows only custom resources.
"""

from __future__ import annotations

from controller_runtime.testing.api_server.registry import Registry, ResourceType
from controller_runtime.testing.api_server.values import Object

_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")


def version_two() -> Object:
    """An empty document: clients then use what they know themselves."""
    return {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.3"}, "paths": {}, "definitions": {}}


def version_three(registry: Registry, path: str) -> Object | None:
    """The index of documents, or the document of `api/v1` or `apis/group/version`; None if there is none."""
    if not path:
        names = dict.fromkeys(_document_path(kind) for kind in registry)
        revision = registry.revision
        return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={revision}"} for name in names}}
    kinds = [kind for kind in registry if _document_path(kind) == path]
    if not kinds:
        return None
    paths: Object = {}
    schemas: Object = {}
    for kind in kinds:
        name = _schema_name(kind)
        identity = {"group": kind.group, "version": kind.resource.version, "kind": kind.kind}
        schema = dict(kind.custom.openapi) if kind.custom is not None else {"type": "object"}
        schemas[name] = {**schema, "x-kubernetes-group-version-kind": [identity]}
        paths |= _paths(kind, identity, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _document_path(kind: ResourceType) -> str:
    return f"apis/{kind.group}/{kind.resource.version}" if kind.group else f"api/{kind.resource.version}"


def _schema_name(kind: ResourceType) -> str:
    reversed_group = (
        ".".join(reversed((kind.group or "io.k8s.api.core").split("."))) if kind.group else "io.k8s.api.core"
    )
    return f"{reversed_group}.{kind.resource.version}.{kind.kind}"


def _paths(kind: ResourceType, identity: Object, schema_name: str) -> Object:
    root = f"/{_document_path(kind)}"
    if kind.resource.namespaced:
        root = f"{root}/namespaces/{{namespace}}"
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in _PARAMETERS
    ]
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema_name}"}}}

    def operation(action: str) -> Object:
        return {
            "operationId": f"{action}{kind.kind}",
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": content}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": identity,
        }

    return {
        f"{root}/{kind.plural}": {"get": operation("list"), "post": operation("post")},
        f"{root}/{kind.plural}/{{name}}": {
            "get": operation("get"),
            "put": operation("put"),
            "patch": operation("patch"),
            "delete": operation("delete"),
        },
    }
