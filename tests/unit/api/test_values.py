"""Durations, quantities and versions mean what Go and Kubernetes mean by them (CON-4, CHG-6)."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.api.durations import DURATION_PATTERN, DurationError, duration_seconds, format_duration, parse_duration
from nodewright.api.quantities import QUANTITY_PATTERN, QuantityError, parse_quantity, same_quantity
from nodewright.api.versions import VERSION_PATTERN, VersionChange, compare_versions, has_build_metadata, is_version


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("10m", 600 * 10**9),
        ("1h30m", 5400 * 10**9),
        ("500ms", 5 * 10**8),
        ("1.5s", 15 * 10**8),
        (".5s", 5 * 10**8),
        ("1.s", 10**9),
        ("+3us", 3000),
        ("3\u00b5s", 3000),
        ("3\u03bcs", 3000),
        ("7ns", 7),
        ("-1m2s", -62 * 10**9),
        ("0.0000000019s", 1),
        ("2562047h47m16.854775807s", 2**63 - 1),
        ("0" * 60 + "1s", 10**9),
    ],
)
def test_a_go_duration_is_read_to_the_nanosecond(text: str, nanoseconds: int) -> None:
    """CON-4."""
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "+",
        "5",
        "s",
        ".s",
        "1.2.3s",
        "1 h",
        "1h ",
        "1d",
        "1S",
        "--1s",
        "1s\n",
        "\uff11s",
        "2562048h",
        "9" * 5000 + "h",
    ],
)
def test_what_is_no_go_duration_is_refused(text: str) -> None:
    """ADM-4."""
    with pytest.raises(DurationError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1500, "1.5µs"),
        (2_000_000, "2ms"),
        (10**9, "1s"),
        (5400 * 10**9, "1h30m0s"),
        (-(10**9), "-1s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(nanoseconds: int, text: str) -> None:
    """CON-4."""
    assert format_duration(nanoseconds) == text


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_written_duration_reads_back_as_itself(nanoseconds: int) -> None:
    """CON-4."""
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


def test_seconds_of_a_duration_may_be_a_fraction() -> None:
    assert duration_seconds("1m500ms") == 60.5


DURATION_TEXT = st.from_regex(r"[+-]?([0-9]{0,2}\.?[0-9]{0,2}(ns|us|µs|ms|s|m|h|d)){0,3}[0-9]?", fullmatch=True)


@given(DURATION_TEXT)
def test_the_schema_accepts_exactly_the_durations_that_are_not_negative(text: str) -> None:
    """ADM-4, ADM-16: pattern and parser are one rule."""
    try:
        accepted = parse_duration(text) >= 0
    except DurationError:
        accepted = False
    # Go cuts -0.1ns to 0; the pattern sees a negative number. Nobody writes that.
    cut_to_zero = accepted and text.startswith("-") and re.search(r"[1-9]", text) is not None
    assert cut_to_zero or (re.fullmatch(DURATION_PATTERN, text) is not None) == accepted


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("4000m", "4"),
        ("8192Mi", "8Gi"),
        ("1e3", "1k"),
        ("1E3", 1000),
        ("1Ei", 2**60),
        ("1E", 10**18),
        ("0.5", "500m"),
        (".5", 0.5),
        ("+1.", "1"),
        ("1e-3", "1m"),
        ("1n", "0.001u"),
    ],
)
def test_quantities_are_compared_by_value(left: str | float, right: str | float) -> None:
    """CON-4."""
    assert same_quantity(left, right)


def test_quantities_of_other_value_differ() -> None:
    """CON-4: decimal and binary suffixes are not the same."""
    assert not same_quantity("1M", "1Mi")
    assert parse_quantity("-1500m") == Decimal("-1.5")


@pytest.mark.parametrize(
    "text", ["", "Gi", "1 Gi", "1gi", "1Ki1", "1e", "1e1.5", "--1", "1\n", "\uff11", "1e999", "inf", "9" * 200]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """ADM-15."""
    with pytest.raises(QuantityError):
        parse_quantity(text)


@given(st.integers(-(10**18), 10**18))
def test_a_quantity_in_thousandths_is_the_number_itself(number: int) -> None:
    """CON-4."""
    assert same_quantity(f"{number * 1000}m", number)
    assert same_quantity(f"{number * 1024}Ki", f"{number}Mi")


@given(st.from_regex(r"[+-]?[0-9]{0,3}\.?[0-9]{0,3}([eE][+-]?[0-9]{0,2}|[KMGTPE]i|[numkMGTPE])?", fullmatch=True))
def test_the_schema_accepts_exactly_the_quantities(text: str) -> None:
    """ADM-15: pattern and parser are one rule."""
    try:
        parse_quantity(text)
        accepted = True
    except QuantityError:
        accepted = False
    assert (re.fullmatch(QUANTITY_PATTERN, text) is not None) == accepted


@pytest.mark.parametrize("text", ["1.2.3", "0.0.0", "1.0.0-rc.1", "1.0.0-a-", "1.0.0+b.1", "1.0.0-x.7.z.92+m-1"])
def test_semver_is_a_version(text: str) -> None:
    """ADM-9."""
    assert is_version(text)
    assert re.fullmatch(VERSION_PATTERN, text)


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.3 ", "1.2.3\n", "1.2.\uff13", "1.2.3.4"],
)
def test_what_is_no_semver_is_no_version(text: str) -> None:
    """ADM-9."""
    assert not is_version(text)
    assert not re.fullmatch(VERSION_PATTERN, text)


@pytest.mark.parametrize(
    ("have", "want", "change"),
    [
        ("1.2.3", "1.2.3", VersionChange.SAME),
        ("1.9.0", "1.10.0", VersionChange.INCREASE),
        ("1.10.0", "1.9.0", VersionChange.DECREASE),
        ("1.0.0-rc.2", "1.0.0", VersionChange.INCREASE),
        ("1.0.0-rc.10", "1.0.0-rc.9", VersionChange.DECREASE),
        ("1.0.0+b", "1.0.0+a", VersionChange.INCREASE),
        ("1.0.0+b", "1.0.0", VersionChange.INCREASE),
        ("broken", "1.0.0", VersionChange.INCREASE),
        ("1.0.0", "broken", VersionChange.DECREASE),
    ],
)
def test_a_change_of_version_is_an_increase_unless_it_goes_down(have: str, want: str, change: VersionChange) -> None:
    """CHG-6: equal precedence with different text counts as an increase."""
    assert compare_versions(have=have, want=want) is change


def test_build_metadata_is_what_an_image_tag_cannot_carry() -> None:
    """ADM-20."""
    assert has_build_metadata("1.0.0+b")
    assert not has_build_metadata("1.0.0-b")
