"""ConfigMaps whose texts are forgotten: comparing them says the same (CON-16)."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from nodewright.model.objects import ConfigMap, ObjectMeta
from nodewright.operator.digests import DigestedConfigMap
from nodewright.operator.stored import StoredNodeMetadata
from nodewright.workloads.configmaps import differs

texts = st.dictionaries(st.sampled_from(["annotations.json", "labels.json", "x"]), st.text(max_size=5), max_size=3)


def decoded(data: dict[str, str]) -> StoredNodeMetadata:
    raw = msgspec.json.encode({"metadata": {"name": "m", "namespace": "ns", "uid": "u"}, "data": data})
    return msgspec.json.decode(raw, type=StoredNodeMetadata)


@given(texts, texts)
def test_digests_differ_exactly_when_the_texts_do(one: dict[str, str], other: dict[str, str]) -> None:
    kept, plain = decoded(one), ConfigMap(metadata=ObjectMeta(name="m"), data=one)
    body = {"data": other}
    assert differs(kept, body) == differs(plain, body) == (one != other)
    assert (kept == decoded(other)) == (one == other)


def test_the_texts_are_gone_and_the_keys_are_not() -> None:
    kept = decoded({"annotations.json": "x" * 10_000})
    assert list(kept.data) == ["annotations.json"]
    assert len(kept.data["annotations.json"]) == 12
    assert kept.metadata.key == "ns/m"


def test_a_copy_of_a_digested_one_is_not_digested_twice() -> None:
    kept = decoded({"a": "1"})
    again = msgspec.structs.replace(kept, metadata=kept.metadata)
    assert isinstance(again, DigestedConfigMap)
    assert again.data == {"a": "1"}
