"""Object metadata: what a client may set, what is checked, what stays. Relies on nothing but the words of refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from controller_runtime.testing.api_server.refusals import FieldProblem
from controller_runtime.testing.api_server.strategy import immutable, render
from controller_runtime.testing.api_server.values import Object

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_QUALIFIED})?"
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_ANNOTATIONS_LIMIT = 256 * 1024
_LABEL_NAMES = ("Namespace", "Service")
_PATH_NAMES = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_MAPS = ("labels", "annotations")
_LISTS = ("ownerReferences", "finalizers", "managedFields")


def tidy(metadata: Object) -> Object:
    """A copy without what is empty, as Kubernetes' encoder leaves it out."""
    return {
        name: value
        for name, value in metadata.items()
        if value is not None and not (name in (*_MAPS, *_LISTS, "generateName", "selfLink", "namespace") and not value)
    }


def carried_over(new: Object, old: Object) -> Object:
    """New metadata of an update with what only the server sets as it was."""
    metadata = dict(new)
    for name in (*_KEPT, "generation"):
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)
    if "generateName" in old:
        metadata.setdefault("generateName", old["generateName"])
    return metadata


def problems(kind: str, metadata: Object) -> Iterator[FieldProblem]:
    """What is wrong with an object's metadata."""
    prefix = metadata.get("generateName")
    if prefix and prefix.rstrip("-."):
        for problem in _name_problems(kind, prefix.rstrip("-.")):
            yield FieldProblem("metadata.generateName", problem.reason, problem.text)
    yield from _name_problems(kind, metadata.get("name") or "")
    for key, value in sorted((metadata.get("labels") or {}).items()):
        yield from key_problems("metadata.labels", key)
        yield from value_problems("metadata.labels", value)
    annotations = metadata.get("annotations") or {}
    for key in sorted(annotations):
        yield from key_problems("metadata.annotations", key.lower())
    if sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        said = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        yield FieldProblem("metadata.annotations", "FieldValueTooLong", said)
    yield from _owner_problems(metadata.get("ownerReferences") or [])
    for index, finalizer in enumerate(metadata.get("finalizers") or []):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            said = f"Invalid value: {render(finalizer)}: name is neither a standard finalizer name nor is it fully qualified"
            yield FieldProblem(f"metadata.finalizers[{index}]", "FieldValueInvalid", said)


def change_problems(new: Object, old: Object) -> Iterator[FieldProblem]:
    """What may not change: the UID, and, once an object is being deleted, its finalizers may only become fewer."""
    if new.get("uid") and new["uid"] != old["uid"]:
        yield immutable("metadata.uid", new["uid"])
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if name not in old and new.get(name) is not None:
            yield immutable(f"metadata.{name}", new[name])
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            listed = ", ".join(render(name) for name in added)
            said = (
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            yield FieldProblem("metadata.finalizers", "FieldValueForbidden", said)


@lru_cache(maxsize=10_000)
def _name_problems(kind: str, name: str) -> tuple[FieldProblem, ...]:
    where = "metadata.name"
    if not name:
        return (FieldProblem(where, "FieldValueRequired", "Required value: name or generateName is required"),)
    if kind in _PATH_NAMES:
        if "/" in name or "%" in name or name in (".", ".."):
            return (FieldProblem(where, "FieldValueInvalid", f"Invalid value: {render(name)}: may not contain '/'"),)
        return ()
    pattern, rule, limit = (_LABEL, _LABEL_RULE, 63) if kind in _LABEL_NAMES else (_SUBDOMAIN, _NAME_RULE, 253)
    said = []
    if len(name) > limit:
        said.append(f"must be no more than {limit} characters")
    if kind in _LABEL_NAMES and "." in name and re.fullmatch(_SUBDOMAIN, name):
        said.append("must not contain dots")
    elif not re.fullmatch(pattern, name):
        said.append(rule)
    return tuple(FieldProblem(where, "FieldValueInvalid", f"Invalid value: {render(name)}: {one}") for one in said)


@lru_cache(maxsize=10_000)
def key_problems(where: str, key: str) -> tuple[FieldProblem, ...]:
    """What is wrong with the key of a label, an annotation or a taint."""
    prefix, slash, name = key.rpartition("/")
    said = []
    if slash and not re.fullmatch(_SUBDOMAIN, prefix):
        said.append("prefix part " + (_NAME_RULE if prefix else "must be non-empty"))
    if not name:
        said.append("name part must be non-empty")
    elif len(name) > 63:
        said.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_QUALIFIED, name):
        said.append(_KEY_RULE)
    return tuple(FieldProblem(where, "FieldValueInvalid", f"Invalid value: {render(key)}: {one}") for one in said)


def value_problems(where: str, value: Any) -> tuple[FieldProblem, ...]:
    """What is wrong with the value of a label."""
    return _value_problems(where, str(value))


@lru_cache(maxsize=10_000)
def _value_problems(where: str, text: str) -> tuple[FieldProblem, ...]:
    said = []
    if len(text) > 63:
        said.append("must be no more than 63 bytes")
    if not re.fullmatch(_VALUE, text):
        said.append(_VALUE_RULE)
    return tuple(FieldProblem(where, "FieldValueInvalid", f"Invalid value: {render(text)}: {one}") for one in said)


def _owner_problems(owners: list[Object]) -> Iterator[FieldProblem]:
    for owner in owners:
        for name, said in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(name):
                yield FieldProblem(
                    f"metadata.ownerReferences.{name}", "FieldValueInvalid", f'Invalid value: "": {said}'
                )
    controllers = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        said = (
            f"Invalid value: {render(owners)}: Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        )
        yield FieldProblem("metadata.ownerReferences", "FieldValueInvalid", said)
