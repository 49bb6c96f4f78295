"""Fixtures of the tests of behaviour, each on every backend that was chosen (see ``backends.py``)."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import pytest

from controller_runtime.testing.control_plane import Cluster, ControlPlane, ExistingCluster, Programs
from nodewright.simulator.embedded_process import EmbeddedProcess
from nodewright.simulator.installation import install
from tests.cluster.backends import CONTROL_PLANE, EMBEDDED, backend_of, chosen_backends, fixtures_of, missing
from tests.cluster.harness import Stage, open_stage

EMBEDDED_SPEED: Final = 10.0
"""Divides what the embedded controllers wait only to let time pass; the control plane's controllers wait as long as anywhere."""

_HERE: Final = Path(__file__).parent
_NOT_IN_PARTS: Final = "tests/cluster shares one cluster and one operator: run it without pytest-xdist (-n)"


class Kubectl(Protocol):
    """Runs kubectl; standard output, or ``ControlPlaneError`` with what it said."""

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> str: ...


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All tests of one backend come together, since it lives as long as the session's part with that parameter."""
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", chosen_backends(metafunc.config), indirect=True, scope="session")


def pytest_configure(config: pytest.Config) -> None:
    """Ends a run that begins with ``-n``; where this file is read by a worker only, its tests fail instead."""
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        raise pytest.UsageError(_NOT_IN_PARTS)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if hasattr(item.config, "workerinput"):
        pytest.fail(_NOT_IN_PARTS, pytrace=False)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips what its backend cannot do."""
    only_embedded = chosen_backends(config) == [EMBEDDED]
    for item in items:
        if only_embedded and item.path.is_relative_to(_HERE) and "control_plane_programs" in fixtures_of(item):
            item.add_marker(pytest.mark.skip(reason="it is about the control plane, and --backend is embedded"))
        elif lacks := missing(item):
            item.add_marker(pytest.mark.skip(reason=f"the {backend_of(item)} backend has no {' and no '.join(lacks)}"))


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> str:
    """The name of the backend."""
    return str(request.param)


@pytest.fixture(scope="session")
def cluster(backend: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The backend's cluster, with the CRDs, namespace and rights of ``deploy``."""
    if backend == CONTROL_PLANE:
        yield request.getfixturevalue("control_plane")
        return
    given = Path(os.environ.get("NODEWRIGHT_TEST_KUBECONFIG", ""))
    opened = EmbeddedProcess(speed=EMBEDDED_SPEED) if backend == EMBEDDED else ExistingCluster(given)
    with opened:
        install(opened)
        yield opened


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
def stage(request: pytest.FixtureRequest, backend: str, cluster: Cluster, operator_kubeconfig: Path) -> Iterator[Stage]:
    """Simulated kubelets and the operator on the cluster, with every scenario of this run under way that it can play."""
    asked = [item for item in request.session.items if backend_of(item) == backend and not missing(item)]
    plays = [play for item in asked if (play := getattr(getattr(item, "obj", None), "play", None))]
    with open_stage(cluster, operator_kubeconfig, plays) as stage:
        yield stage
