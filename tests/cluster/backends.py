"""The clusters on which one and the same suite runs, and what each can do.

``--backend`` (or ``NODEWRIGHT_TEST_BACKEND``) chooses; the default is both. A test that needs more than every backend has says so with
``@pytest.mark.needs(...)`` and is skipped, by that name, where it is missing.
"""

import os
from enum import StrEnum
from typing import Final

import pytest

from nodewright.simulator.embedded_process import kubectl_or_none

CONTROL_PLANE: Final = "control-plane"
EMBEDDED: Final = "embedded"
EXISTING: Final = "existing"
"""The cluster of ``NODEWRIGHT_TEST_KUBECONFIG``, which takes the control plane's place."""


class Need(StrEnum):
    """What not every backend has; the values are arguments of the marker ``needs``."""

    AUDIT_LOG = "audit log"
    AUTHORISATION = "authorisation"
    BUILT_IN_SCHEMAS = "schemas of built-in kinds"
    DAEMON_SETS = "DaemonSet controller"
    KUBECTL = "kubectl"


_ABILITIES: Final = {
    CONTROL_PLANE: frozenset(Need),
    EXISTING: frozenset(Need) - {Need.AUDIT_LOG},
    EMBEDDED: frozenset({Need.KUBECTL}),  # where one is found: the suite itself needs none
}


def chosen_backends(config: pytest.Config) -> list[str]:
    """The backends of this run, embedded first: it starts in two seconds."""
    chosen = config.getoption("--backend") or "both"
    if chosen not in ("both", CONTROL_PLANE, EMBEDDED):
        raise pytest.UsageError(f"NODEWRIGHT_TEST_BACKEND is {chosen!r}: say embedded, control-plane or both")
    real = EXISTING if os.environ.get("NODEWRIGHT_TEST_KUBECONFIG") else CONTROL_PLANE
    return {"both": [EMBEDDED, real], CONTROL_PLANE: [real], EMBEDDED: [EMBEDDED]}[chosen]


def backend_of(item: pytest.Item) -> str | None:
    """On which backend that test runs; None for one that asks for no shared cluster."""
    callspec = getattr(item, "callspec", None)
    found: str | None = None if callspec is None else callspec.params.get("backend")
    return found


def fixtures_of(item: pytest.Item) -> tuple[str, ...]:
    """The names of all fixtures the test asks for."""
    return tuple(getattr(item, "fixturenames", ()))


def missing(item: pytest.Item) -> list[Need]:
    """What the test needs and its backend has not."""
    backend = backend_of(item)
    if backend is None:
        return []
    needs = {Need(need) for mark in item.iter_markers("needs") for need in mark.args}
    if "admin" in fixtures_of(item):
        needs.add(Need.KUBECTL)
    has = _ABILITIES[backend]
    if backend == EMBEDDED and kubectl_or_none() is None:
        has -= {Need.KUBECTL}
    return sorted(needs - has)
