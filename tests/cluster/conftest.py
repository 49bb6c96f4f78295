"""Fixtures of the tests of behaviour, each against the shared cluster of ``tests/conftest.py``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from controller_runtime.testing.control_plane import Cluster, ControlPlane, Programs
from nodewright.simulator.installation import install
from tests.cluster.harness import Stage, open_stage


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


@pytest.fixture(scope="session")
def control_plane(control_plane_programs: Programs) -> Iterator[ControlPlane]:
    """The run's control plane, with an audit log and without the controller-manager's client limit of three Jobs a second."""
    with ControlPlane(
        programs=control_plane_programs, audit=True, kcm_qps=200, kcm_burst=400, concurrent_job_syncs=10
    ) as running:
        install(running)
        yield running


@pytest.fixture(scope="session")
def stage(request: pytest.FixtureRequest, cluster: Cluster, operator_kubeconfig: Path) -> Iterator[Stage]:
    """Simulated kubelets and the operator on the cluster, with every scenario of this run under way."""
    plays = [play for item in request.session.items if (play := getattr(getattr(item, "obj", None), "play", None))]
    with open_stage(cluster, operator_kubeconfig, plays) as stage:
        yield stage
