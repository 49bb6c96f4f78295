"""The merge patch from one status to another (CON-6)."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodewright.operator.merge_patch import difference

scalars = st.none() | st.booleans() | st.integers(2, 4) | st.sampled_from(["", "a", "b"])
documents = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        scalars,
        lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abc"), below, max_size=3),
        max_leaves=8,
    ),
    max_size=3,
)


def merged(document: Any, patch: Any) -> Any:
    """RFC 7386, as the API server applies it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def without_nulls(value: Any) -> Any:
    """What a merge patch can say: nulls of maps count as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return value


@given(documents, documents)
def test_applying_the_difference_to_the_old_gives_the_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    old = without_nulls(old)
    patched = merged(old, difference(old, new))
    assert json.dumps(patched, sort_keys=True) == json.dumps(without_nulls(new), sort_keys=True)


@given(documents)
def test_nothing_differs_from_itself(document: dict[str, Any]) -> None:
    # trap 39: an equal status is not written
    assert difference(without_nulls(document), document) == {}


def test_lists_are_written_as_a_whole_and_vanished_keys_as_null() -> None:
    old = {"conditions": [{"type": "A"}, {"type": "B"}], "nodeStatus": {"n1": "x", "n2": "y"}}
    new = {"conditions": [{"type": "B"}], "nodeStatus": {"n1": "x"}}
    assert difference(old, new) == {"conditions": [{"type": "B"}], "nodeStatus": {"n2": None}}
