"""Package versions: strict semver, and the order that tells upgrade from downgrade (ADM-9, CHG-6).

Relies on `semver` for parsing and precedence; validation and the engine's comparison of spec and node state rely on it.
"""

from enum import Enum
from typing import Final

import semver

_NUMBER: Final = "(0|[1-9][0-9]*)"
_PRERELEASE: Final = "(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
VERSION_PATTERN: Final = (
    rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$"
)
"""Semver in the CRD schema's words (ADM-9)."""


class VersionChange(Enum):
    """How a wanted version relates to the one a node has."""

    SAME = "same"
    INCREASE = "increase"
    DECREASE = "decrease"


def is_version(text: str) -> bool:
    """Whether `text` is valid semver without a leading `v` (ADM-9)."""
    return _parse(text) is not None


def compare_versions(*, have: str, want: str) -> VersionChange:
    """What going from `have` to `want` is; equal precedence with different text is an increase (CHG-6).

    A text that is not semver (a hand-edited entry) counts as older than any that is, so that a valid spec heals it by
    an upgrade.
    """
    if have == want:
        return VersionChange.SAME
    old, new = _parse(have), _parse(want)
    if old is None:
        return VersionChange.INCREASE
    if new is None:
        return VersionChange.DECREASE
    return VersionChange.DECREASE if new.compare(old) < 0 else VersionChange.INCREASE


def has_build_metadata(text: str) -> bool:
    """Whether the version has a `+…` part, which an image tag cannot carry (ADM-20)."""
    return "+" in text


def _parse(text: str) -> semver.Version | None:
    # semver's own pattern ends in `$` and uses `\d`: it would take a trailing newline and digits of other scripts.
    if not text.isascii() or not text.isprintable():
        return None
    try:
        return semver.Version.parse(text)
    except ValueError:
        return None
