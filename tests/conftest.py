"""Fixtures of all tests that need a cluster.

By default that is a real control plane, built once and started once a run; ``NODEWRIGHT_TEST_KUBECONFIG`` names another cluster (kind),
of which the caller is administrator. Without Go and without built programs these tests are skipped; where ``CI`` is set they fail.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_runtime.testing.control_plane import (
    Cluster,
    ControlPlane,
    ExistingCluster,
    GoMissingError,
    Programs,
    build_programs,
    check_buildable,
)
from nodewright.simulator.installation import install

_GIVEN = os.environ.get("NODEWRIGHT_TEST_KUBECONFIG")


@pytest.fixture(scope="session", autouse=True)
def _no_loop_left_by_a_plugin() -> None:
    """looptime asks for the event loop before each test; if none was ever set, Python makes one that nobody closes."""
    asyncio.set_event_loop(None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        choices=("embedded", "control-plane", "both"),
        default=os.environ.get("NODEWRIGHT_TEST_BACKEND"),
        help="what tests/cluster runs on; default: NODEWRIGHT_TEST_BACKEND, else both",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(*what): what not every backend of tests/cluster has, see backends.py there"
    )


def _needs_programs(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    callspec = getattr(item, "callspec", None)
    if callspec is not None and callspec.params.get("backend") == "embedded":
        return False
    return "control_plane_programs" in fixtures or ("cluster" in fixtures and _GIVEN is None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _needs_programs(item):
            item.add_marker(pytest.mark.control_plane)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips here and not in the fixture, since pytest folds skips of one place into one line."""
    if not _needs_programs(item):
        return
    try:
        check_buildable()
    except GoMissingError as error:
        if os.environ.get("CI"):
            pytest.fail(f"{error} (where CI is set a skip is a failure)", pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def control_plane_programs(request: pytest.FixtureRequest) -> Programs:
    """The built programs of a control plane; builds them the first time, with a line of progress past pytest's capture."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return build_programs()


@pytest.fixture(scope="session")
def control_plane(control_plane_programs: Programs) -> Iterator[ControlPlane]:
    """One control plane for the whole run, with the CRDs, namespace and rights of ``deploy``.

    Tests share it: they use names of their own and leave its servers alone. A test that harms servers starts its own.
    """
    with ControlPlane(programs=control_plane_programs) as running:
        install(running)
        yield running


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster tests of behaviour use: the shared control plane, or the one of ``NODEWRIGHT_TEST_KUBECONFIG``."""
    if _GIVEN is None:
        yield request.getfixturevalue("control_plane")
        return
    with ExistingCluster(Path(_GIVEN)) as existing:
        install(existing)
        yield existing


@pytest.fixture(scope="session")
def operator_kubeconfig(cluster: Cluster) -> Path:
    """A token of the operator's service account, which has exactly the rights of ``deploy``."""
    return install(cluster)
