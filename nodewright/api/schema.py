"""From a model to a structural OpenAPI v3 schema, as a CRD carries it (CON-2).

Structural schemas know neither references nor null types, so pydantic's own JSON schema does not fit: this walks the
fields. Kubernetes' EnvVar stands here as written, since no model of ours looks inside it. `crd` relies on it.
"""

from enum import StrEnum
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from nodewright.api.quantities import QUANTITY_PATTERN, Quantity
from nodewright.api.shape import Model

Schema = dict[str, Any]

QUANTITY: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": QUANTITY_PATTERN,
    "x-kubernetes-int-or-string": True,
}


def object_schema(model: type[Model], *, defaults: bool) -> Schema:
    """The schema of a model's fields, with what its configuration adds.

    `defaults` says whether the API server shall fill in absent fields. In a status it must not: what the operator did not
    write would look like a change to it.
    """
    required: list[str] = []
    properties: Schema = {}
    for name, field in model.model_fields.items():
        alias = field.alias or name
        extra = dict(field.json_schema_extra) if isinstance(field.json_schema_extra, dict) else {}
        if extra.pop("required", field.is_required()):
            required.append(alias)
        described = {"description": field.description} if field.description else {}
        properties[alias] = {**described, **_field_schema(model, name, field, defaults=defaults), **extra}
        if defaults:
            properties[alias] |= _default(field)
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    added = model.model_config.get("json_schema_extra")
    return {**schema, **added} if isinstance(added, dict) else schema


def _field_schema(model: type[Model], name: str, field: FieldInfo, *, defaults: bool) -> Schema:
    if name == "env":
        return {"type": "array", "items": _ENV_VAR, "x-kubernetes-list-type": "atomic"}
    try:
        return _type_schema(field.annotation, defaults=defaults)
    except TypeError as error:
        raise TypeError(f"{model.__name__}.{name}: {error}") from error


def _default(field: FieldInfo) -> Schema:
    value = field.default
    if isinstance(value, StrEnum):
        return {"default": value.value}
    return {"default": value} if isinstance(value, bool | int) else {}


_SCALARS: Final[dict[Any, str]] = {bool: "boolean", int: "integer", str: "string"}


def _type_schema(annotation: Any, *, defaults: bool) -> Schema:
    if annotation in _SCALARS:
        return {"type": _SCALARS[annotation]}
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, UnionType}:
        alternatives = {each for each in arguments if each is not type(None)}
        if alternatives == set(get_args(Quantity)):
            return QUANTITY
        if len(alternatives) == 1:
            return _type_schema(alternatives.pop(), defaults=defaults)
    if origin is tuple:
        return {
            "type": "array",
            "items": _type_schema(arguments[0], defaults=defaults),
            "x-kubernetes-list-type": "atomic",
        }
    if origin is dict and arguments[1] is Any:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type_schema(arguments[1], defaults=defaults)}
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return {"type": "string", "enum": [each.value for each in annotation]}
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return object_schema(annotation, defaults=defaults)
    raise TypeError(f"no schema for {annotation}")


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _key_reference(what: str) -> Schema:
    return {
        "type": "object",
        "description": f"A key of a {what} in the operator's namespace.",
        "properties": {
            "name": _text(f"Name of the {what}."),
            "key": _text("Key in it."),
            "optional": {"type": "boolean", "description": "Whether it may be missing."},
        },
        "required": ["key"],
        "x-kubernetes-map-type": "atomic",
    }


_ENV_VAR: Final[Schema] = {
    "type": "object",
    "description": "An environment variable, as in a pod.",
    "properties": {
        "name": _text("Name of the variable."),
        "value": _text("Its value."),
        "valueFrom": {
            "type": "object",
            "description": "Where the value comes from instead.",
            "properties": {
                "configMapKeyRef": _key_reference("ConfigMap"),
                "secretKeyRef": _key_reference("Secret"),
                "fieldRef": {
                    "type": "object",
                    "description": "A field of the pod.",
                    "properties": {
                        "apiVersion": _text("Version of the schema of the field, v1 if unset."),
                        "fieldPath": _text("Path of the field."),
                    },
                    "required": ["fieldPath"],
                    "x-kubernetes-map-type": "atomic",
                },
                "resourceFieldRef": {
                    "type": "object",
                    "description": "A resource of a container.",
                    "properties": {
                        "containerName": _text("Name of the container, this one if unset."),
                        "resource": _text("The resource, as limits.cpu."),
                        "divisor": {"description": "Unit of the value, 1 if unset.", **QUANTITY},
                    },
                    "required": ["resource"],
                    "x-kubernetes-map-type": "atomic",
                },
                "fileKeyRef": {
                    "type": "object",
                    "description": "A variable in a file of a volume.",
                    "properties": {
                        "volumeName": _text("Name of the volume."),
                        "path": _text("Path of the file in it."),
                        "key": _text("Name of the variable in the file."),
                        "optional": {"type": "boolean", "description": "Whether it may be missing."},
                    },
                    "required": ["key", "path", "volumeName"],
                    "x-kubernetes-map-type": "atomic",
                },
            },
        },
    },
    "required": ["name"],
}
