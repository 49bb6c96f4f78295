"""What Kubernetes does with patches, applies, schemas, selectors and tables, as data.

Each case says what a client sends and what comes of it, so that it can be run on the pure functions, on the embedded API server and
on a real one; where they differ, the embedded one is wrong. The real answers were taken from Kubernetes 1.36. Objects are given without
`apiVersion`, `kind` and name, which the runner adds. `WIDGETS` is the CRD of the custom kind that most cases use.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

JSON, MERGE, STRATEGIC = "json-patch", "merge-patch", "strategic-merge-patch"
ABSENT: Final = object()
"""Expected at a path where nothing must be."""
UNPROCESSABLE: Final = "the server rejected our request due to an error in our request"
"""All that the server says about a patch that does not apply."""
GROUP: Final = "contract.example.com"

WIDGET_SPEC: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer", "minimum": 0, "maximum": 10},
        "share": {"type": "number", "exclusiveMinimum": True, "minimum": 0, "multipleOf": 0.5},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "amount": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "tone": {"type": "string", "default": "calm"},
        "hue": {"type": "string", "nullable": True, "default": "red"},
        "quiet": {"type": "string"},
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"depth": {"type": "integer", "default": 3}, "note": {"type": "string"}},
        },
        "parts": {
            "type": "array",
            "maxItems": 3,
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "size": {"type": "integer", "default": 1},
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
        },
        "ports": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string"},
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
        },
        "words": {"type": "array", "items": {"type": "string"}},
        "colours": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "selector": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "x-kubernetes-map-type": "atomic",
        },
        "options": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
        "budget": {
            "type": "object",
            "properties": {"percent": {"type": "integer"}, "count": {"type": "integer"}},
            "oneOf": [{"required": ["percent"]}, {"required": ["count"]}],
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object", "properties": {"known": {"type": "string"}}}},
        },
    },
}
WIDGET_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": WIDGET_SPEC,
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                },
            },
        },
    },
    "x-kubernetes-validations": [
        {
            "rule": "size(self.metadata.name) <= 40",
            "message": "the name must not be longer than 40 characters",
            "fieldPath": ".metadata.name",
        }
    ],
}
WIDGET_COLUMNS: Final[list[dict[str, Any]]] = [
    {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
    {"name": "First", "type": "string", "jsonPath": ".spec.parts[0].id"},
    {"name": "Big", "type": "integer", "jsonPath": '.spec.parts[?(@.id=="big")].size', "priority": 1},
    {"name": "Words", "type": "string", "jsonPath": ".spec.words"},
    {"name": "Dotted", "type": "string", "jsonPath": ".metadata.annotations.example\\.com/a"},
    {"name": "Not a number", "type": "integer", "jsonPath": ".spec.mode"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
WIDGETS: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": WIDGET_COLUMNS,
                "schema": {"openAPIV3Schema": WIDGET_SCHEMA},
            }
        ],
    },
}
KINDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "configmap": ("v1", "ConfigMap", "/api/v1/namespaces/default/configmaps"),
    "node": ("v1", "Node", "/api/v1/nodes"),
    "pod": ("v1", "Pod", "/api/v1/namespaces/default/pods"),
    "widget": (f"{GROUP}/v1", "Widget", f"/apis/{GROUP}/v1/widgets"),
}
"""apiVersion, kind and the collection's path by the cases' short names."""


@dataclass(frozen=True, kw_only=True)
class PatchCase:
    """One patch of one object, as a dry run."""

    name: str
    kind: str = "widget"
    live: Mapping[str, Any] = field(default_factory=dict)
    type: str
    patch: Any
    expect: Mapping[str, Any] = field(default_factory=dict)
    """Values by dotted path; `ABSENT` for none."""
    refused: tuple[int, str] | None = None
    """Status and message."""
    cause: str = ""
    """What the pure function says was wrong where the server says nothing."""
    subresource: str = ""
