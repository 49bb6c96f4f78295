"""Bodies of requests: objects, patches and options, decoded and checked. Relies on the words of refusals."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from controller_runtime.testing.api_server.custom_strategy import CustomStrategy
from controller_runtime.testing.api_server.refusals import FieldProblem, bad_request, invalid, unsupported_media_type
from controller_runtime.testing.api_server.registry import ResourceType
from controller_runtime.testing.api_server.strategy import render
from controller_runtime.testing.api_server.values import ApiRequest, Object

PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
    "application/apply-patch+cbor": "",
}


_MEDIA_TYPES = ("application/json", "application/yaml", "application/x-yaml")


class _YamlLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: a time is text."""


_YamlLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def decoded(body: bytes) -> Any:
    """A body as JSON, or as YAML if it is none.

    Raises:
        RefusalError: 400.
    """
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        pass
    try:
        return yaml.load(body, _YamlLoader)
    except yaml.YAMLError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def decoded_object(kind: ResourceType, request: ApiRequest) -> Object:
    """The object of a POST or PUT, of the kind and version the path serves.

    Raises:
        RefusalError: 400.
    """
    media_type = request.content_type.partition(";")[0].strip()
    if media_type and media_type not in _MEDIA_TYPES:
        raise unsupported_media_type(_MEDIA_TYPES[:2])
    body = decoded(request.body)
    if not isinstance(body, dict):
        raise bad_request("couldn't get version/kind; json parse error: json: cannot unmarshal into Go value")
    _check_kind(kind, body)
    if not isinstance(body.get("metadata"), dict):
        body["metadata"] = {}
    return body


def decoded_patch(kind: ResourceType, request: ApiRequest, patch_type: str | None) -> Any:
    """The patch of a PATCH.

    Raises:
        RefusalError: 400, or 415 for a content type this resource does not take.
    """
    if not patch_type or (patch_type == "strategic" and kind.custom is not None):
        accepted = [name for name in PATCHES if not (kind.custom and "strategic" in name)]
        raise unsupported_media_type(accepted)
    if patch_type == "apply":
        body = decoded(request.body)
        if not isinstance(body, dict):
            raise bad_request("error decoding YAML: it is no object")
        if not request.query.get("fieldManager"):
            raise bad_request(
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
            )
        _check_kind(kind, body)
        return body
    try:
        return msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from error


def check_unknown_fields(kind: ResourceType, item: Object, request: ApiRequest) -> tuple[str, ...]:
    """Warnings of fields that the schema of a custom resource does not know, as `fieldValidation` asks for.

    Raises:
        RefusalError: 400 (422 for a patch) with `Strict`.
    """
    level = request.query.get("fieldValidation", "Warn")
    if level == "Ignore" or not isinstance(kind.strategy, CustomStrategy):
        return ()
    warnings = tuple(f'unknown field "{path}"' for path in kind.strategy.unknown_fields(item))
    if not warnings or level != "Strict":
        return warnings
    said = f"strict decoding error: {', '.join(warnings)}"
    if request.method == "PATCH":
        problem = FieldProblem("patch", "FieldValueInvalid", f"Invalid value: {render(request.body.decode())}: {said}")
        raise invalid("", "", "", [problem])
    raise bad_request(f'{kind.kind} in version "{kind.resource.version}" cannot be handled as a {kind.kind}: {said}')


def dry_run(request: ApiRequest) -> bool:
    """Whether nothing is to be stored."""
    return request.query.get("dryRun", "") == "All"


def _check_kind(kind: ResourceType, body: Object) -> None:
    version, name = body.get("apiVersion") or "", body.get("kind") or ""
    expected = kind.resource.api_version
    if not name and kind.custom is not None:
        raise bad_request("Object 'Kind' is missing in the body")
    if name and name != kind.kind:
        raise bad_request(
            f'{name} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind.kind}: '
            f"converting ({name}) to ({kind.kind}): unknown conversion"
        )
    if version and version != expected:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({expected})"
        )
