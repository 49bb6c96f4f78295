"""The JSON merge patch (RFC 7386) that turns one document into another. Pure; `status_writer` relies on it."""

from collections.abc import Mapping
from typing import Any


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The smallest merge patch from `old` to `new`; empty when they say the same.

    Maps are compared key by key, lists as a whole. A null in `new` counts as absent, since a merge patch cannot write one. Values are
    compared as Python does (`1 == True`): the CRD's schema holds the types.
    """
    patch: dict[str, Any] = {}
    for key, value in new.items():
        before = old.get(key)
        # What is equal is most of it, and comparing it as a whole costs next to nothing.
        if value is None or before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            below = difference(before, value)
            if below:
                patch[key] = below
        else:
            patch[key] = _without_nulls(value)
    for key, before in old.items():
        if before is not None and new.get(key) is None:
            patch[key] = None
    return patch


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value
