"""Bodies that `kubectl create` sends in Kubernetes' protobuf encoding, as plain objects. Relies on nothing.

Only the kinds people create by a command line: namespaces, config maps, secrets, service accounts, Jobs, tokens, the
questions of `kubectl auth`, and the evictions of `kubectl drain`. Anything else is refused, since a field that is
not in the tables would be lost.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from controller_runtime.testing.api_server.values import Object

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
"""What every such body begins with."""

# A field is its name and what it is: text, int, bool, base64 (bytes), a message by name, skip; map: a map of it, list: many.
_MESSAGES: Mapping[str, Mapping[int, tuple[str, str]]] = {
    "Unknown": {1: ("head", "TypeMeta"), 2: ("raw", "bytes"), 3: ("", "skip"), 4: ("", "skip")},
    "TypeMeta": {1: ("apiVersion", "text"), 2: ("kind", "text")},
    "ObjectMeta": {
        1: ("name", "text"),
        2: ("generateName", "text"),
        3: ("namespace", "text"),
        4: ("", "skip"),
        5: ("uid", "text"),
        6: ("resourceVersion", "text"),
        7: ("", "skip"),
        8: ("", "skip"),
        11: ("labels", "map text"),
        12: ("annotations", "map text"),
        14: ("finalizers", "list text"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta"), 2: ("", "skip"), 3: ("", "skip")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "map text"),
        3: ("binaryData", "map base64"),
        4: ("immutable", "bool"),
    },
    "Secret": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "map base64"),
        3: ("type", "text"),
        4: ("stringData", "map text"),
        5: ("immutable", "bool"),
    },
    "ServiceAccount": {1: ("metadata", "ObjectMeta")},
    "TokenRequest": {1: ("metadata", "ObjectMeta"), 2: ("spec", "TokenRequestSpec"), 3: ("", "skip")},
    "TokenRequestSpec": {1: ("audiences", "list text"), 4: ("expirationSeconds", "int")},
    "SelfSubjectAccessReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "SelfAccessSpec"), 3: ("", "skip")},
    "SelfSubjectReview": {1: ("metadata", "ObjectMeta"), 2: ("", "skip")},
    "SelfSubjectRulesReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "RulesSpec"), 3: ("", "skip")},
    "RulesSpec": {1: ("namespace", "text")},
    "SelfAccessSpec": {1: ("resourceAttributes", "ResourceAttributes"), 2: ("nonResourceAttributes", "PathAttributes")},
    "PathAttributes": {1: ("path", "text"), 2: ("verb", "text")},
    "ResourceAttributes": {
        number: (name, "text")
        for number, name in enumerate(("namespace", "verb", "group", "version", "resource", "subresource", "name"), 1)
    },
    "Eviction": {1: ("metadata", "ObjectMeta"), 2: ("deleteOptions", "DeleteOptions")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "int"),
        2: ("preconditions", "Preconditions"),
        4: ("propagationPolicy", "text"),
        5: ("dryRun", "list text"),
    },
    "Preconditions": {1: ("uid", "text"), 2: ("resourceVersion", "text")},
    "Job": {1: ("metadata", "ObjectMeta"), 2: ("spec", "JobSpec"), 3: ("", "skip")},
    "JobSpec": {
        1: ("parallelism", "int"),
        2: ("completions", "int"),
        3: ("activeDeadlineSeconds", "int"),
        6: ("template", "PodTemplate"),
        7: ("backoffLimit", "int"),
        8: ("ttlSecondsAfterFinished", "int"),
        10: ("suspend", "bool"),
    },
    "PodTemplate": {1: ("metadata", "ObjectMeta"), 2: ("spec", "PodSpec")},
    "PodSpec": {
        2: ("containers", "list Container"),
        3: ("restartPolicy", "text"),
        4: ("terminationGracePeriodSeconds", "int"),
        6: ("dnsPolicy", "text"),
        7: ("nodeSelector", "map text"),
        8: ("serviceAccountName", "text"),
        9: ("serviceAccount", "text"),
        10: ("nodeName", "text"),
        11: ("", "flag off"),
        12: ("", "flag off"),
        13: ("", "flag off"),
        16: ("hostname", "text"),
        17: ("subdomain", "text"),
        19: ("schedulerName", "text"),
        20: ("initContainers", "list Container"),
        24: ("priorityClassName", "text"),
    },
    "Container": {
        1: ("name", "text"),
        2: ("image", "text"),
        3: ("command", "list text"),
        4: ("args", "list text"),
        5: ("workingDir", "text"),
        7: ("env", "list Variable"),
        8: ("", "skip"),
        13: ("terminationMessagePath", "text"),
        14: ("imagePullPolicy", "text"),
        16: ("", "flag off"),
        17: ("", "flag off"),
        18: ("", "flag off"),
        20: ("terminationMessagePolicy", "text"),
    },
    "Variable": {1: ("name", "text"), 2: ("value", "text")},
}


class UnreadableError(Exception):
    """A kind or a field that is not in the tables, or no protobuf at all."""


def decoded(body: bytes) -> Object:
    """The object.

    Raises:
        UnreadableError: what cannot be read whole.
    """
    if not body.startswith(MAGIC):
        raise UnreadableError
    envelope = _message("Unknown", body[len(MAGIC) :])
    head = envelope.get("head", {})
    return {**head, **_message(str(head.get("kind")), envelope.get("raw", b""))}


def _message(name: str, body: bytes) -> Object:
    table = _MESSAGES.get(name)
    if table is None:
        raise UnreadableError(name)
    item: Object = {}
    for number, value in _fields(body):
        if number not in table:
            raise UnreadableError(f"{name}.{number}")
        field, what = table[number]
        many, _, one = what.rpartition(" ")
        if what == "skip" or (value == b"" and one == "text" and not many):
            continue
        if many == "flag":
            if value:
                raise UnreadableError(f"{name}.{number}")
        elif many == "list":
            item.setdefault(field, []).append(_value(one, value))
        elif many == "map":
            entry = dict(_fields(_bytes(value)))
            item.setdefault(field, {})[_value("text", entry.get(1, b""))] = _value(one, entry.get(2, b""))
        else:
            item[field] = _value(one, value)
    return item


def _value(what: str, value: int | bytes) -> Any:
    match what:
        case "int":
            # Negative numbers are sent as 64 bits.
            return value - (1 << 64) if isinstance(value, int) and value >> 63 else value
        case "bool":
            return bool(value)
        case "text":
            return _bytes(value).decode()
        case "bytes":
            return value
        case "base64":
            return base64.b64encode(_bytes(value)).decode()
    return _message(what, _bytes(value))


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise UnreadableError
    return value


def _fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(body):
        key, position = _varint(body, position)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _varint(body, position)
            yield number, value
        elif wire == 2:
            length, position = _varint(body, position)
            if position + length > len(body):
                raise UnreadableError
            yield number, body[position : position + length]
            position += length
        else:
            raise UnreadableError


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(body) or shift > 63:
            raise UnreadableError
        byte = body[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return value, position
