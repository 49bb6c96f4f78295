"""Two clusters with the same nodes, and a folder of manifests."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_runtime.testing.control_plane import ControlPlane
from nodewright.simulator.embedded_process import EmbeddedProcess
from nodewright.simulator.installation import DEPLOY, install
from nodewright.simulator.processes import Processes
from tests.contract.kubectl.manifests import MANIFESTS
from tests.contract.kubectl.pair import Pair

LABEL = "contract.example.com/kubectl=yes"


@pytest.fixture(scope="session")
def pair(control_plane: ControlPlane) -> Iterator[Pair]:
    """The run's control plane, and an embedded cluster."""
    with EmbeddedProcess() as embedded, Processes() as processes:
        install(embedded)
        for name, cluster in (("real", control_plane), ("embedded", embedded)):
            arguments = ["--rule=:hang", f"--label={LABEL}", "--name-format=kubectl-{}"]
            processes.start_kubelets(cluster.admin_kubeconfig, nodes=2, arguments=arguments, name=name)
        pair = Pair(control_plane, embedded)
        yield pair
        pair.close()


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """A folder with all of `MANIFESTS` and the samples."""
    for name, text in MANIFESTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for sample in (DEPLOY / "samples").iterdir():
        (tmp_path / sample.name).write_text(sample.read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


@pytest.fixture
def namespace(pair: Pair, tmp_path: Path) -> Iterator[str]:
    """A namespace of the script's own on both, with all a pod needs."""
    name = f"kubectl-{secrets.token_hex(3)}"
    for said in pair.run(f"create namespace {name}", tmp_path, "default"):
        assert said.code == 0, said.err
    yield name
    pair.run(f"delete namespace {name} --wait=false", tmp_path, "default")
