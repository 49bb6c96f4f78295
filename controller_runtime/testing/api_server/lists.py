"""Lists: of now, of the past, in pages with tokens that expire. Relies on the store's window."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from controller_runtime.testing.api_server.core import Core, encoded_item
from controller_runtime.testing.api_server.refusals import (
    FieldProblem,
    bad_request,
    expired,
    invalid,
    too_large_version,
)
from controller_runtime.testing.api_server.routes import Route
from controller_runtime.testing.api_server.selection import select
from controller_runtime.testing.api_server.store import Stored
from controller_runtime.testing.api_server.values import ApiRequest

_STALE_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_INCONSISTENT = -1


class _Token(msgspec.Struct, frozen=True, rename={"version": "rv"}):
    """A continue token: the version of the whole list (-1: whatever is now), and the last key told."""

    version: int
    start: str
    v: str = "meta.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page: the selected objects, the version they are of, and how to go on."""

    items: Sequence[Stored]
    version: int
    continue_: str = ""
    remaining: int = 0

    def metadata(self) -> dict[str, object]:
        """The list's metadata."""
        metadata: dict[str, object] = {"resourceVersion": str(self.version)}
        if self.continue_:
            metadata["continue"] = self.continue_
            if self.remaining:
                metadata["remainingItemCount"] = self.remaining
        return metadata


def list_page(core: Core, route: Route, request: ApiRequest) -> ListPage:
    """Answer a list.

    Raises:
        RefusalError: 400, 410 for what is forgotten, 422 for options that do not go together, 504 for the future.
    """
    query = request.query
    selection = select(route.kind, route.namespace, route.name, query)
    shelf = core.store.shelf(route.kind.shelf)
    limit = _limit(query.get("limit", ""))
    version, start = _position(core, route, request)
    state = shelf.at(version)
    if state is None:
        if query.get("continue"):
            raise expired(_STALE_TOKEN, continue_=_encode(_Token(_INCONSISTENT, start)))
        raise expired(f"The resourceVersion for the provided list is too old: {version} ({core.store.version})")
    keys = shelf.sorted_keys() if state is shelf.objects else sorted(state)
    begin = bisect_right(keys, start) if start else 0
    items: list[Stored] = []
    last = ""
    for index in range(begin, len(keys)):
        key = keys[index]
        if not selection.covers(key):
            continue
        stored = state[key]
        if not selection.matches(stored):
            continue
        if limit and len(items) == limit:
            rest = 0 if selection.filters else sum(1 for key in keys[index:] if selection.covers(key))
            return ListPage(items, version, _encode(_Token(version, last)), rest)
        items.append(stored)
        last = key
    return ListPage(items, version)


def encode_list(route: Route, page: ListPage) -> bytes:
    """The list as JSON."""
    kind = route.kind
    head = {"kind": kind.list_kind, "apiVersion": kind.resource.api_version, "metadata": page.metadata()}
    items = b",".join(encoded_item(kind, stored) for stored in page.items)
    return msgspec.json.encode(head)[:-1] + b',"items":[' + items + b"]}\n"


def check_not_ahead(core: Core, text: str) -> int:
    """A version asked for, which must be there already.

    Raises:
        RefusalError: 400 if it is no number, 504 if it is ahead.
    """
    if not text.isdigit():
        said = (
            f'invalid resource version: resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
        )
        raise bad_request(said + "invalid syntax")
    version = int(text)
    if version > core.store.version:
        raise too_large_version(version, core.store.version)
    return version


def _position(core: Core, route: Route, request: ApiRequest) -> tuple[int, str]:
    """The version to list at and the key to go on after."""
    query = request.query
    asked, match, token = (
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        query.get("continue", ""),
    )
    _check_options(route, asked, match, token)
    if token:
        decoded = _decode(token)
        return (core.store.version if decoded.version == _INCONSISTENT else decoded.version), decoded.start
    version = check_not_ahead(core, asked) if asked else 0
    if match == "Exact":
        return version, ""
    return core.store.version, ""


def _check_options(route: Route, asked: str, match: str, token: str) -> None:
    said = ""
    where, reason = "resourceVersionMatch", "FieldValueForbidden"
    if match and token:
        said = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
    elif match and not asked:
        said = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match not in ("", "Exact", "NotOlderThan"):
        said = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        reason = "FieldValueNotSupported"
    elif match == "Exact" and asked == "0":
        said = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    elif token and asked and asked != "0" and _decode(token):
        raise bad_request("specifying resource version is not allowed when using continue")
    if said:
        raise invalid("meta.k8s.io", "ListOptions", "", [FieldProblem(where, reason, said)])


def _limit(text: str) -> int:
    if not text:
        return 0
    if not text.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _encode(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
