"""The names of the contract are spelled as other software reads them (CON-1, CON-7 to CON-16)."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.api import keys

DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
PART = st.text(st.characters(codec="utf-8", exclude_characters="/"), max_size=80)
NAME = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,70}[a-z0-9])?", fullmatch=True)


def test_a_safe_name_is_the_parts_and_the_digest_of_the_parts() -> None:
    """CON-12."""
    digest = hashlib.sha256(b"gpu/tuning/1.2.3+b/apply/node.a").hexdigest()[:12]
    assert (
        keys.safe_name(63, "gpu", "tuning", "1.2.3+b", "apply", "node.a") == f"gpu-tuning-1-2-3-b-apply-node-a-{digest}"
    )


def test_a_safe_name_is_cut_so_that_its_digest_is_whole() -> None:
    """CON-12."""
    name = keys.safe_name(63, "a" * 100, "b")
    assert len(name) == 63
    assert name[:51] == "a" * 50 + "-"
    assert name[51:] == hashlib.sha256(f"{'a' * 100}/b".encode()).hexdigest()[:12]


def test_lists_that_read_the_same_have_different_safe_names() -> None:
    """CON-12: joined with `-` these are one text."""
    assert keys.safe_name(63, "a-b", "c") != keys.safe_name(63, "a", "b-c")
    assert keys.safe_name(63, "a.b") != keys.safe_name(63, "a-b")


@given(st.integers(20, 253), NAME, st.lists(PART, max_size=4))
def test_a_safe_name_is_a_dns_label_within_its_limit(limit: int, first: str, rest: list[str]) -> None:
    """CON-12."""
    name = keys.safe_name(limit, first, *rest)
    assert len(name) <= limit
    assert DNS_LABEL.fullmatch(name)


@given(st.lists(PART, min_size=1, max_size=4), st.lists(PART, min_size=1, max_size=4))
def test_different_parts_have_different_safe_names_and_equal_ones_the_same(left: list[str], right: list[str]) -> None:
    """CON-12."""
    assert (keys.safe_name(63, *left) == keys.safe_name(63, *right)) == (left == right)


def test_a_jobs_name_is_made_of_what_it_claims() -> None:
    """CON-13."""
    name = keys.job_name(cr="gpu", package="tuning", version="1.2.3", stage="apply", node="n1")
    assert name == keys.safe_name(63, "gpu", "tuning", "1.2.3", "apply", "n1")
    interrupt = keys.interrupt_job_name(cr="gpu", stage="interrupt", interrupt_type="restartAllServices", node="n1")
    assert interrupt == keys.safe_name(63, "gpu", "interrupt", "restartAllServices", "n1")
    assert interrupt.startswith("gpu-interrupt-restartallservices-n1-")


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        (("tuning", "1.2.3"), "tuning-1.2.3"),
        (("a" * 63,), "a" * 63),
        (("a" * 64,), keys.safe_name(63, "a" * 64)),
        (("tuning", "1.0.0+build"), keys.safe_name(63, "tuning", "1.0.0+build")),
        (("tuning", "1.0.0-a-"), keys.safe_name(63, "tuning", "1.0.0-a-")),
    ],
)
def test_a_label_value_is_the_text_itself_or_where_kubernetes_refuses_it_the_safe_name(
    parts: tuple[str, ...], value: str
) -> None:
    """CON-14."""
    assert keys.label_value(*parts) == value
    assert keys.is_label_value(value)


def test_a_trailing_newline_makes_no_valid_name() -> None:
    assert not keys.is_label_value("a\n")
    assert not keys.is_dns_subdomain("a\n")


def test_a_package_configmap_is_named_by_cr_package_and_version_in_lower_case() -> None:
    """CON-16."""
    assert keys.package_configmap_name(cr="gpu", package="tuning", version="1.0.0-RC1") == "gpu-tuning-1.0.0-rc1"


@pytest.mark.parametrize("version", ["1.0.0+build", "1.0.0-a-", "1.0.0-a.-b"])
def test_a_package_configmap_has_a_safe_name_where_the_version_is_no_name(version: str) -> None:
    """CON-16."""
    name = keys.package_configmap_name(cr="gpu", package="tuning", version=version)
    assert name == f"gpu-{keys.safe_name(63, 'tuning', version)}"
    assert keys.is_dns_subdomain(name)


def test_a_node_metadata_configmap_is_named_by_cr_and_node() -> None:
    """CON-16."""
    name = keys.node_metadata_configmap_name(cr="gpu", node="n.1")
    assert name == keys.safe_name(253, "gpu", "n.1", "metadata")
    assert name.startswith("gpu-n-1-metadata-")


def test_keys_on_a_node_are_spelled_as_the_contract_says() -> None:
    """CON-7, CON-8."""
    assert [
        keys.node_state_key("gpu"),
        keys.status_key("gpu"),
        keys.version_key("gpu"),
        keys.cordon_key("gpu"),
        keys.drain_start_key("gpu"),
        keys.drain_blocked_key("gpu"),
        keys.pick_key("gpu"),
        keys.auto_taint_key("nodewright.nvidia.com"),
        keys.RUNTIME_REQUIRED_CORDON,
        keys.not_ready_condition("gpu"),
        keys.erroring_condition("gpu"),
    ] == [
        "nodewright.nvidia.com/nodeState_gpu",
        "nodewright.nvidia.com/status_gpu",
        "nodewright.nvidia.com/version_gpu",
        "nodewright.nvidia.com/cordon_gpu",
        "nodewright.nvidia.com/drainStart_gpu",
        "nodewright.nvidia.com/drainBlocked_gpu",
        "nodewright.nvidia.com/pick_gpu",
        "nodewright.nvidia.com/autoTaint_nodewright.nvidia.com",
        "nodewright.nvidia.com/runtimeRequiredCordon",
        "nodewright.nvidia.com/gpu/NotReady",
        "nodewright.nvidia.com/gpu/Erroring",
    ]


def test_the_longest_name_of_a_cr_fits_into_every_key() -> None:
    """CON-9."""
    longest = [prefix + "a" * keys.MAX_CR_NAME for prefix in keys.PER_CR_PREFIXES]
    assert max(len(key.partition("/")[2]) for key in longest) == 63
