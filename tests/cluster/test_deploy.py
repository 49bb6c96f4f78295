"""The manifests of `deploy` are accepted whole by a real API server, and say what the contract asks."""

import json
from pathlib import Path
from typing import Any

import pytest

from controller_runtime.testing.control_plane import Cluster
from nodewright.simulator.installation import DEPLOY
from nodewright.simulator.playground import SAMPLE

pytestmark = [
    pytest.mark.usefixtures("operator_kubeconfig"),  # which applies the CRDs and the namespace
    pytest.mark.needs("kubectl"),
]


def dry_run(cluster: Cluster, flag: str, path: Path) -> list[dict[str, Any]]:
    """What the server would make of it, field validation included."""
    arguments = ["--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", flag, str(path)]
    answer = json.loads(cluster.kubectl("apply", *arguments, "--output=json"))
    return answer["items"] if answer["kind"] == "List" else [answer]


@pytest.fixture
def operator_pod(cluster: Cluster) -> dict[str, Any]:
    items = dry_run(cluster, "-k", DEPLOY)
    deployment = next(item for item in items if item["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 2
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return pod


def test_the_operators_pods_come_back_on_cordoned_and_tainted_nodes(operator_pod: dict[str, Any]) -> None:
    """CON-28"""
    tolerations = operator_pod["tolerations"]
    assert {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"} in tolerations
    taint = {"key": "nodewright.nvidia.com", "operator": "Equal", "value": "runtime-required", "effect": "NoSchedule"}
    assert taint in tolerations


def test_the_operators_container_has_no_root_and_a_read_only_file_system(operator_pod: dict[str, Any]) -> None:
    assert operator_pod["securityContext"]["runAsNonRoot"] is True
    (container,) = operator_pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_sample_of_the_demonstration_is_accepted(cluster: Cluster) -> None:
    (sample,) = dry_run(cluster, "-f", SAMPLE)
    assert sample["spec"]["packages"]["drivers"]["dependsOn"] == {"tuning": "1.2.3"}
