"""JSON patch (RFC 6902) and merge patch (RFC 7386), with the API server's deviations from both.

Known deviations, each of which clients meet: `replace` of a map's missing key adds it; `copy` from a missing key adds null; a
negative index counts from the end; `test` for null holds for a missing key but fails where the parent is missing (`design.md`,
Consistency). `patches.py` is the door to this module.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue, copied, json_kind, same

MOST_OPERATIONS: Final = 10_000
"""The API server refuses longer JSON patches with 413."""
UNPROCESSABLE: Final = "the server rejected our request due to an error in our request"
_INDEX: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MISSING: Final = "missing value"
_OP_TYPE: Final = "jsonPatchOp"


class PatchError(Exception):
    """A patch that cannot be decoded (400), cannot be applied (422) or breaks the server's own code path (500).

    `status` is the HTTP status, `message` what Kubernetes says. For 422 that is always the same sentence; `cause` is what it keeps to
    itself, for people who debug.
    """

    def __init__(self, status: int, message: str, *, cause: str = "") -> None:
        super().__init__(f"{message} ({cause})" if cause else message)
        self.status = status
        self.message = message
        self.cause = cause

    @staticmethod
    def unprocessable(cause: str) -> "PatchError":
        """The 422 of a patch that does not apply."""
        return PatchError(422, UNPROCESSABLE, cause=cause)


def json_patch(document: JsonValue, operations: JsonValue) -> JsonValue:
    """The document with the operations applied in order; all or none.

    Raises `PatchError`: 400 for what is no list of operations, 413 for more than `MOST_OPERATIONS`, 422 for an unknown or failing
    operation. The API server gives the 422 without a cause or reason, whatever went wrong.
    """
    _check_operations(operations)
    root = copied(document)
    for operation in operations:
        apply = _OPERATIONS.get(operation.get("op") or "unknown")
        if apply is None:
            raise _failed(f"Unexpected kind: {operation.get('op', 'unknown')}")
        root = apply(root, operation)
    return root


def merge_patch(document: JsonObject, patch: JsonValue) -> JsonObject:
    """The document with the patch merged in: null removes a key, maps merge, all else replaces. It shares what did not change.

    Raises `PatchError` with 400 for a patch that is no map.
    """
    if patch is None:
        raise PatchError(400, "Invalid JSON Patch")
    if not isinstance(patch, dict):
        kind = json_kind(patch)
        raise PatchError(
            400, f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    return _merged(document, patch)


def _merged(document: JsonObject, patch: JsonObject) -> JsonObject:
    """A new map that shares what the patch does not touch."""
    merged = dict(document)
    for key, value in patch.items():
        held = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(held, dict):
            merged[key] = _merged(held, value) if isinstance(value, dict) else value
        else:
            merged[key] = _without_nulls(value)
    return merged


def _without_nulls(value: JsonValue) -> JsonValue:
    """Without keys whose value is null, at any depth and also inside lists; null elements of lists stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


# --- JSON patch ------------------------------------------------------------------------------------------------------


def _check_operations(operations: JsonValue) -> None:
    decoding = "error decoding patch: json: cannot unmarshal"
    if operations is None:
        return
    if not isinstance(operations, list):
        raise PatchError(400, f"{decoding} {json_kind(operations)} into Go value of type []handlers.{_OP_TYPE}")
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchError(400, f"{decoding} {json_kind(operation)} into Go value of type handlers.{_OP_TYPE}")
        for field in ("op", "path", "from"):
            text = operation.get(field)
            if text is not None and not isinstance(text, str):
                where = f"Go struct field {_OP_TYPE}.{field} of type string"
                raise PatchError(400, f"{decoding} {json_kind(text)} into {where}")
    if len(operations) > MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        raise PatchError(413, message)


def _failed(cause: str) -> PatchError:
    return PatchError.unprocessable(cause)


def _pointer(operation: JsonObject, field: str) -> str:
    pointer = operation.get(field)
    if pointer is None:
        verb = operation["op"]
        detail = "operation missing path field: " if field == "path" else "operation, missing from field: "
        hidden = verb in ("add", "remove") or (verb == "copy" and field == "path")
        raise _failed(f"{verb} operation failed to decode {field}: {'' if hidden else detail}{_MISSING}")
    return str(pointer)


def _decoded(token: str) -> str:
    return re.sub("~[01]", lambda found: "/" if found[0] == "~1" else "~", token)


def _find(root: JsonValue, pointer: str) -> tuple[JsonValue, str]:
    """The container that the pointer's last token is looked up in, and that token; `(None, "")` if the way there is missing."""
    tokens = pointer.split("/")
    if len(tokens) < 2:
        return None, ""
    container = root
    for token in tokens[1:-1]:
        try:
            container = _get(container, _decoded(token))
        except _NotThereError:
            return None, ""
        if not isinstance(container, dict | list):
            return None, ""
    return container, _decoded(tokens[-1])


class _NotThereError(Exception):
    """An index that a list does not have; the text is Go's."""


def _position(token: str, length: int) -> int:
    if not _INDEX.fullmatch(token):
        raise _NotThereError(f'strconv.Atoi: parsing "{token}": invalid syntax')
    index = int(token)
    if index >= length or index < -length:
        raise _NotThereError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _get(container: JsonValue, token: str) -> JsonValue:
    if isinstance(container, dict):
        return container.get(token)
    return container[_position(token, len(container))]


def _insert(container: JsonValue, token: str, value: JsonValue) -> None:
    if isinstance(container, dict):
        container[token] = value
    elif token == "-":
        container.append(value)
    elif not _INDEX.fullmatch(token):
        problem = f'strconv.Atoi: parsing "{token}": invalid syntax'
        raise _NotThereError(f"value was not a proper array index: '{token}': {problem}")
    else:
        container.insert(_position(token, len(container) + 1), value)


def _delete(container: JsonValue, token: str) -> None:
    if isinstance(container, dict):
        if token not in container:
            raise _NotThereError(f"Unable to remove nonexistent key: {token}: {_MISSING}")
        del container[token]
    else:
        del container[_position(token, len(container))]


def _add(root: JsonValue, operation: JsonObject) -> JsonValue:
    path = _pointer(operation, "path")
    container, token = _find(root, path)
    if container is None:
        raise _failed(f'add operation does not apply: doc is missing path: "{path}": {_MISSING}')
    try:
        _insert(container, token, copied(operation.get("value")))
    except _NotThereError as error:
        raise _failed(f"error in add for path: '{path}': {error}") from None
    return root


def _remove(root: JsonValue, operation: JsonObject) -> JsonValue:
    path = _pointer(operation, "path")
    container, token = _find(root, path)
    if container is None:
        raise _failed(f'remove operation does not apply: doc is missing path: "{path}": {_MISSING}')
    try:
        _delete(container, token)
    except _NotThereError as error:
        raise _failed(f"error in remove for path: '{path}': {error}") from None
    return root


def _replace(root: JsonValue, operation: JsonObject) -> JsonValue:
    path = _pointer(operation, "path")
    value = copied(operation.get("value"))
    if path == "":
        if not isinstance(value, dict | list):
            raise _failed("replace operation value must be object or array: %!w(<nil>)")
        return value
    container, token = _find(root, path)
    if container is None:
        raise _failed(f"replace operation does not apply: doc is missing path: {path}: {_MISSING}")
    if isinstance(container, dict):
        container[token] = value  # also where the key was missing, against RFC 6902
        return root
    try:
        container[_position(token, len(container))] = value
    except _NotThereError:
        raise _failed(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from None
    return root


def _move(root: JsonValue, operation: JsonObject) -> JsonValue:
    source = _pointer(operation, "from")
    container, token = _find(root, source)
    if container is None:
        raise _failed(f"move operation does not apply: doc is missing from path: {source}: {_MISSING}")
    try:
        value = _get(container, token)
        _delete(container, token)
    except _NotThereError as error:
        raise _failed(f"error in move for path: '{token}': {error}") from None
    path = _pointer(operation, "path")
    container, token = _find(root, path)
    if container is None:
        raise _failed(f"move operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    try:
        _insert(container, token, value)
    except _NotThereError as error:
        raise _failed(f"error in move for path: '{path}': {error}") from None
    return root


def _copy(root: JsonValue, operation: JsonObject) -> JsonValue:
    source = _pointer(operation, "from")
    container, token = _find(root, source)
    if container is None:
        raise _failed(f"copy operation does not apply: doc is missing from path: {source}: {_MISSING}")
    try:
        value = copied(_get(container, token))
    except _NotThereError as error:
        raise _failed(f"error in copy for from: '{source}': {error}") from None
    path = _pointer(operation, "path")
    container, token = _find(root, path)
    if container is None:
        raise _failed(f"copy operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    try:
        _insert(container, token, value)
    except _NotThereError as error:
        raise _failed(f"error while adding value during copy: {error}") from None
    return root


def _test(root: JsonValue, operation: JsonObject) -> JsonValue:
    path = _pointer(operation, "path")
    expected = operation.get("value")
    if path == "":
        found = root
    else:
        container, token = _find(root, path)
        if container is None:
            raise _failed(f"test operation does not apply: is missing path: {path}: {_MISSING}")
        try:
            found = _get(container, token)
        except _NotThereError as error:
            raise _failed(f"error in test for path: '{path}': {error}") from None
    if not same(found, expected):
        raise _failed(f"testing value {path} failed: test failed")
    return root


_OPERATIONS: Final[dict[str, Callable[[Any, JsonObject], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
