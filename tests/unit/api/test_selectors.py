"""Selectors and tolerations match and are refused as Kubernetes does it (ROL-1, ROL-3, ADM-5, ADM-19)."""

import pytest

from nodewright.api.selectors import LabelSelector, is_qualified_name, selector_faults
from nodewright.api.tolerations import Toleration, toleration_faults


def expression(operator: str, *values: str, key: str = "zone") -> LabelSelector:
    return LabelSelector.parse({"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]})


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        (LabelSelector(), {}, True),
        (LabelSelector(), {"zone": "a"}, True),
        (LabelSelector(match_labels={"zone": "a"}), {"zone": "a", "x": "y"}, True),
        (LabelSelector(match_labels={"zone": "a"}), {"zone": "b"}, False),
        (LabelSelector(match_labels={"zone": ""}), {}, False),
        (expression("In", "a", "b"), {"zone": "b"}, True),
        (expression("In", "a", "b"), {}, False),
        (expression("NotIn", "a"), {"zone": "b"}, True),
        (expression("NotIn", "a"), {"zone": "a"}, False),
        (expression("NotIn", "a"), {}, True),  # a missing label is not in any set
        (expression("Exists"), {"zone": ""}, True),
        (expression("Exists"), {}, False),
        (expression("DoesNotExist"), {}, True),
        (expression("DoesNotExist"), {"zone": "a"}, False),
        (expression("Near"), {"zone": "a"}, False),  # nothing is selected by accident
    ],
)
def test_a_selector_selects_what_kubernetes_would(
    selector: LabelSelector, labels: dict[str, str], selected: bool
) -> None:
    """ROL-1."""
    assert selector.matches(labels) is selected


def test_labels_and_expressions_must_all_hold() -> None:
    """ROL-1."""
    both = LabelSelector.parse(
        {"matchLabels": {"gpu": "true"}, "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    )
    assert both.matches({"gpu": "true", "zone": "a"})
    assert not both.matches({"gpu": "true"})
    assert not both.matches({"zone": "a"})
    assert both.query() == "gpu=true,zone in (a)"


def test_selectors_that_require_the_same_are_equal_in_their_canonical_form() -> None:
    """ADM-21."""
    spelled = LabelSelector.parse(
        {"matchExpressions": [{"key": "b", "operator": "Exists"}, {"key": "a", "operator": "In", "values": ["1"]}]}
    )
    other = LabelSelector.parse({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]})
    assert spelled.canonical() == other.canonical()
    assert spelled.canonical() != LabelSelector(match_labels={"a": "1"}).canonical()


@pytest.mark.parametrize(
    ("selector", "path"),
    [
        (LabelSelector(match_labels={"a/b/c": "x"}), "s.matchLabels"),
        (LabelSelector(match_labels={"a": "x y"}), "s.matchLabels[a]"),
        (LabelSelector(match_labels={"a": "x\n"}), "s.matchLabels[a]"),
        (expression("In"), "s.matchExpressions[0].values"),
        (expression("Exists", "a"), "s.matchExpressions[0].values"),
        (expression("Near", "a"), "s.matchExpressions[0].operator"),
        (expression("In", "-"), "s.matchExpressions[0].values[0]"),
        (expression("Exists", key=""), "s.matchExpressions[0].key"),
    ],
)
def test_a_selector_kubernetes_would_refuse_has_a_fault_with_its_path(selector: LabelSelector, path: str) -> None:
    """ADM-5."""
    assert [fault.path for fault in selector_faults(selector, "s")] == [path]


def test_a_sound_selector_has_no_fault() -> None:
    """ADM-5."""
    selector = LabelSelector(match_labels={"node-role.kubernetes.io/control-plane": "", "a_B.c": "1"})
    assert not list(selector_faults(selector, "s"))


@pytest.mark.parametrize("name", ["", "/a", "a/", "-a", "a" * 64, "UPPER.case/a", "a b", "a/b/c", "a\n"])
def test_what_is_no_label_key_is_not_taken_for_one(name: str) -> None:
    assert not is_qualified_name(name)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Equal", value="yes"), True),
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", value="no"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(operator="Equal", value="yes"), False),
        (Toleration(key="gpu", operator="Near", value="yes"), False),
    ],
)
def test_a_toleration_covers_the_taints_kubernetes_says(toleration: Toleration, tolerated: bool) -> None:
    """ROL-3: the taint is gpu=yes:NoSchedule."""
    assert toleration.tolerates(key="gpu", value="yes", effect="NoSchedule") is tolerated


@pytest.mark.parametrize(
    ("toleration", "field"),
    [
        (Toleration(operator="Equal"), "operator"),
        (Toleration(key="a", operator="Near"), "operator"),
        (Toleration(key="a b", operator="Exists"), "key"),
        (Toleration(key="a", operator="Exists", value="x"), "value"),
        (Toleration(key="a", value="x y"), "value"),
        (Toleration(key="a", operator="Exists", effect="Never"), "effect"),
        (Toleration(key="a", operator="Exists", effect="NoSchedule", toleration_seconds=1), "effect"),
    ],
)
def test_a_toleration_kubernetes_would_refuse_has_a_fault(toleration: Toleration, field: str) -> None:
    """ADM-19."""
    assert [fault.path for fault in toleration_faults(toleration, "t")] == [f"t.{field}"]


def test_a_toleration_goes_into_a_pod_as_it_was_written() -> None:
    """CON-24."""
    written = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    assert Toleration.model_validate(written).to_manifest() == written
    assert not list(toleration_faults(Toleration.model_validate(written), "t"))
