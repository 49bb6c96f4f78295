"""What an informer's selectors select."""

import msgspec
import pytest

from controller_runtime.cache import ObjectMeta, Store
from controller_runtime.cache.scope import scope
from tests.unit.runtime.model_server import Widget


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("a=1", True),
        ("a==1", True),
        ("a = 1", True),
        ("a=2", False),
        ("a!=2", True),
        ("a!=1", False),
        ("missing!=1", True),
        ("a", True),
        ("missing", False),
        ("!missing", True),
        ("!a", False),
        ("a in (1, 2)", True),
        ("a in (2,3),b", False),
        ("a notin (2,3)", True),
        ("missing notin (2)", True),
        ("a notin (1)", False),
        ("example.com/x=y,a", True),
        ("empty=", True),
        ("a=1,b=2,empty", True),
        ("a=1,b=3", False),
        ("", True),
    ],
)
def test_label_selectors_select_as_the_api_server_does(selector: str, selected: bool) -> None:
    metadata = ObjectMeta(name="n", labels={"a": "1", "b": "2", "example.com/x": "y", "empty": ""})
    check = scope(None, selector, None)
    assert (check is None or check(metadata)) is selected


def test_namespaces_and_names_select_and_unknown_fields_say_yes() -> None:
    metadata = ObjectMeta(name="n", namespace="ns")
    assert scope(None, None, None) is None
    for namespace, fields, selected in [
        ("ns", None, True),
        ("other", None, False),
        (None, "metadata.name=n", True),
        (None, "metadata.name!=n", False),
        (None, "metadata.namespace=other", False),
        ("ns", "spec.nodeName=x,metadata.name=n", True),
    ]:
        check = scope(namespace, None, fields)
        assert check is not None
        assert check(metadata) is selected


@pytest.mark.parametrize("selector", ["a in 1", "a=1=2", "a b", "(x)"])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(ValueError, match="selector"):
        scope(None, selector, None)


def test_an_own_write_that_leaves_the_scope_takes_the_object_out_at_once() -> None:
    """Trap 37: the DELETED that the watch will send changes nothing more; and what never belonged is not taken in."""
    store = Store(Widget, scope=scope(None, "mine", None))

    def answer(name: str, version: int, **labels: str) -> bytes:
        meta = ObjectMeta(name=name, uid=f"u-{name}", resource_version=str(version), labels=labels)
        return msgspec.json.encode(Widget(metadata=meta))

    store.observe(answer("a", 5, mine="yes"))
    assert "a" in store
    returned = store.observe(answer("a", 7))
    assert returned.metadata.resource_version == "7"
    assert "a" not in store
    store.observe(answer("stranger", 8))
    assert "stranger" not in store
    store.observe(answer("a", 9, mine="yes"))
    store.remove("a", "u-a", "7")
    assert "a" in store
