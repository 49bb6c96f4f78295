"""OpenAPI documents, as far as `kubectl` reads them: which parameters a PATCH takes, and the schemas of custom resources.

Relies on the registry. Built-in kinds have no schemas here, so `kubectl explain` knows only custom resources.
"""

from __future__ import annotations

from controller_runtime.testing.api_server.registry import Registry, ResourceType
from controller_runtime.testing.api_server.values import Object

_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_HEAD: Object = {
    "apiVersion": {
        "type": "string",
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should convert "
        "recognized schemas to the latest internal value, and may reject unrecognized values. More info: "
        f"{_CONVENTIONS}#resources",
    },
    "kind": {
        "type": "string",
        "description": "Kind is a string value representing the REST resource this object represents. Servers may infer this "
        "from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: "
        f"{_CONVENTIONS}#types-kinds",
    },
    "metadata": {
        "description": f"Standard object's metadata. More info: {_CONVENTIONS}#metadata",
        "allOf": [{"$ref": f"#/components/schemas/{_OBJECT_META}"}],
    },
}
"""What a real server says of these of every custom kind, whatever its schema does."""
_MAP: Object = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA: Object = {
    "type": "object",
    "description": "What every stored object has: its name, who made it and when, and what others hang on it.",
    "properties": {
        "annotations": {**_MAP, "description": "Free text by key, for programs; nothing is selected by it."},
        "creationTimestamp": {"type": "string", "format": "date-time", "description": "Set by the server."},
        "deletionGracePeriodSeconds": {"type": "integer", "description": "The grace of a deletion that was asked for."},
        "deletionTimestamp": {"type": "string", "format": "date-time", "description": "When it is or was to be gone."},
        "finalizers": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Who has to agree before a deleted object goes.",
        },
        "generateName": {"type": "string", "description": "A prefix; the server adds five letters."},
        "generation": {"type": "integer", "description": "Counts changes of the spec."},
        "labels": {**_MAP, "description": "What the object is selected by."},
        "managedFields": {"type": "array", "items": {"type": "object"}, "description": "Who owns which field."},
        "name": {"type": "string", "description": "Unique among objects of its kind and namespace."},
        "namespace": {"type": "string", "description": "Where a namespaced object lives."},
        "ownerReferences": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Objects without which this one is collected as garbage.",
        },
        "resourceVersion": {"type": "string", "description": "Changes with every write; a precondition of the next."},
        "selfLink": {"type": "string", "description": "Not used any more."},
        "uid": {"type": "string", "description": "Unique in time and space; set by the server."},
    },
}


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
        schema: Object = {"type": "object"}
        if kind.custom is not None:
            schema = {**kind.custom.openapi, "properties": {**kind.custom.openapi.get("properties", {}), **_HEAD}}
            schemas[_OBJECT_META] = _METADATA
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
