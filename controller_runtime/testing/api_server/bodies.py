"""Bodies of requests: objects, patches and options, decoded and checked. Relies on the words of refusals."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from controller_runtime.testing.api_server import protobuf
from controller_runtime.testing.api_server.custom_strategy import CustomStrategy
from controller_runtime.testing.api_server.refusals import (
    FieldProblem,
    RefusalError,
    bad_request,
    invalid,
    media_type_not_handled,
    unsupported_media_type,
)
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
    if body.startswith(protobuf.MAGIC):
        try:
            return protobuf.decoded(body)
        except (protobuf.UnreadableError, UnicodeDecodeError) as error:
            raise unsupported_media_type(_MEDIA_TYPES[:2]) from error
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        pass
    if body.lstrip()[:1] == b"{":
        raise bad_request("couldn't get version/kind; json parse error: unexpected end of JSON input")
    try:
        return yaml.load(body, _YamlLoader)
    except yaml.YAMLError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def decoded_object(kind: ResourceType, request: ApiRequest) -> Object:
    """The object of a POST or PUT, of the kind and version the path serves.

    Raises:
        RefusalError: 400.
    """
    if not request.body:
        raise unsupported_media_type((*_MEDIA_TYPES[:2], protobuf.MEDIA_TYPE))
    media_type = request.content_type.partition(";")[0].strip()
    if media_type not in (*_MEDIA_TYPES, protobuf.MEDIA_TYPE, ""):
        raise unsupported_media_type(_MEDIA_TYPES[:2])
    try:
        body = decoded(request.body)
    except RefusalError as refusal:
        if refusal.code != 400:
            raise
        unrecognized = f"the object provided is unrecognized (must be of type {kind.kind}): {refusal.message}"
        raise bad_request(f"{unrecognized} ({request.body[:64].decode(errors='replace')})") from refusal
    if not isinstance(body, dict):
        raise bad_request("couldn't get version/kind; json parse error: json: cannot unmarshal into Go value")
    _check_kind(kind, body, request.body[:256].decode(errors="replace"))
    if not isinstance(body.get("metadata"), dict):
        body["metadata"] = {}
    return body


def decoded_patch(kind: ResourceType, request: ApiRequest, patch_type: str | None) -> Any:
    """The patch of a PATCH.

    Raises:
        RefusalError: 400, or 415 for a content type this resource does not take.
    """
    if patch_type is None:
        raise media_type_not_handled()
    if not patch_type or (patch_type == "strategic" and kind.custom is not None):
        accepted = [name for name in PATCHES if not (kind.custom and ("strategic" in name or "cbor" in name))]
        raise unsupported_media_type(accepted)
    if patch_type == "apply":
        body = decoded(request.body)
        if not isinstance(body, dict):
            raise bad_request("error decoding YAML: it is no object")
        if not request.query.get("fieldManager"):
            problem = FieldProblem("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
            raise invalid("meta.k8s.io", "PatchOptions", "", [problem])
        _check_applied_kind(kind, body)
        return body
    try:
        return msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        said = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise bad_request(f"error decoding patch: {said}") from error


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


_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def dry_run(request: ApiRequest) -> bool:
    """Whether nothing is to be stored.

    Raises:
        RefusalError: 422 for a word that is not `All`.
    """
    asked = request.query.get("dryRun")
    check_dry_run(_OPTIONS.get(request.method, "CreateOptions"), [asked] if asked else [])
    return bool(asked)


def check_dry_run(kind: str, asked: list[str]) -> None:
    """Refuse words that are not `All`.

    Raises:
        RefusalError: 422.
    """
    if any(word != "All" for word in asked):
        said = f'Unsupported value: {render(asked)}: supported values: "All"'
        raise invalid("meta.k8s.io", kind, "", [FieldProblem("dryRun", "FieldValueNotSupported", said)])


def _check_applied_kind(kind: ResourceType, body: Object) -> None:
    version, name = str(body.get("apiVersion") or ""), str(body.get("kind") or "")
    if (version, name) != (kind.resource.api_version, kind.kind):
        group, _, short = version.rpartition("/")
        raise bad_request(f"invalid object type: {group}/{short}, Kind={name}")


def _check_kind(kind: ResourceType, body: Object, text: str) -> None:
    version, name = str(body.get("apiVersion") or ""), str(body.get("kind") or "")
    expected, short = kind.resource.api_version, version.rpartition("/")[2]
    if kind.custom is not None:
        if not name:
            said = f"Object 'Kind' is missing in '{text}'"
            raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {said} ({text})")
        if name != kind.kind:
            problem = FieldProblem("kind", "FieldValueInvalid", f"Invalid value: {render(name)}: must be {kind.kind}")
            raise invalid(kind.group, name, str((body.get("metadata") or {}).get("name", "")), [problem])
    if version and version != expected:
        if kind.custom is not None:
            said = f"the API version in the data ({version}) does not match the expected API version ({expected})"
            raise bad_request(said)
        raise bad_request(
            f'{name} in version "{short}" cannot be handled as a {kind.kind}: no kind "{name}" is registered for '
            f'version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )
    if name and name != kind.kind:
        package = kind.group.partition(".")[0] or "core"
        raise bad_request(
            f'{name} in version "{short}" cannot be handled as a {kind.kind}: '
            f"converting (v1.{name}) to ({package}.{kind.kind}): unknown conversion"
        )
