"""Fixtures of the tests of behaviour, each against the shared cluster of ``tests/conftest.py``."""

from pathlib import Path
from typing import Protocol

import pytest

from controller_runtime.testing.control_plane import Cluster


class Kubectl(Protocol):
    """Runs kubectl; standard output, or ``ControlPlaneError`` with what it said."""

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> str: ...


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> Kubectl:
    """kubectl as the administrator: ``admin("get", "nodes")``."""
    return cluster.kubectl


@pytest.fixture(scope="session")
def admin_kubeconfig(cluster: Cluster) -> Path:
    """The administrator's kubeconfig, for simulated kubelets and the like."""
    return cluster.admin_kubeconfig
