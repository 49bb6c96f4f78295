"""The seed's example as a CR, a node, and an entry: the state of the cluster that the tests here start from."""

from collections.abc import Callable
from typing import Any

import pytest

from nodewright.api.nodewright import NodeWrightSpec, parse_nodewright_spec
from nodewright.model.node_state import Entry, Stage, State
from nodewright.model.objects import Node, ObjectMeta
from nodewright.model.snapshot import CR, PlanSettings

DIGEST = "sha256:" + "0" * 64

TUNING: dict[str, Any] = {
    "version": "1.2.3",
    "image": "ghcr.io/nvidia/skyhook-packages/tuning",
    "containerSHA": DIGEST,
    "agentImageOverride": "ghcr.io/nvidia/nodewright/agent:6.4.2",
    "gracefulShutdown": "5m",
    "stageTimeout": "30m",
    "env": [{"name": "TUNING_PROFILE", "value": "throughput"}],
    "resources": {"cpuRequest": "100m", "cpuLimit": "500m", "memoryRequest": "128Mi", "memoryLimit": "512Mi"},
    "configMap": {"tuning.conf": "vm.swappiness=1\n", "network.properties": "net.core.somaxconn=1024\n"},
    "configInterrupts": {
        "tuning.conf": {"type": "service", "services": ["containerd"]},
        "*.properties": {"type": "restartAllServices"},
    },
    "interrupt": {"type": "reboot"},
    "uninstall": {"enabled": True, "apply": False},
}
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}

MakeCR = Callable[..., CR]


def parsed(spec: dict[str, Any]) -> NodeWrightSpec:
    """The spec, which must be well-shaped."""
    result = parse_nodewright_spec(spec)
    assert isinstance(result, NodeWrightSpec), result
    return result


@pytest.fixture
def make_cr() -> MakeCR:
    """A CR `gpu-tuning` of generation 7 with one package `tuning`; keyword arguments replace fields of that package."""

    def make(*, name: str = "gpu-tuning", tolerations: tuple[dict[str, Any], ...] = (GPU,), **fields: Any) -> CR:
        package = {key: value for key, value in (TUNING | fields).items() if value is not None}
        spec = parsed({"additionalTolerations": list(tolerations), "packages": {"tuning": package}})
        return CR(meta=ObjectMeta(name=name, uid="cr-uid", generation=7), spec=spec)

    return make


@pytest.fixture
def settings() -> PlanSettings:
    """The operator's defaults."""
    return PlanSettings(agent_image="ghcr.io/nvidia/nodewright/agent:7.0.0")


@pytest.fixture
def node() -> Node:
    """A node with a few labels and annotations of its own, and bookkeeping of two CRs."""
    return Node(
        metadata=ObjectMeta(
            name="gpu-node-1",
            uid="node-uid",
            labels={
                "zone": "b",
                "kubernetes.io/hostname": "gpu-node-1",
                "nodewright.nvidia.com/ignore": "false",
                "nodewright.nvidia.com/status_gpu-tuning": "in_progress",
                "nodewright.nvidia.com/status_other": "complete",
            },
            annotations={
                "example.com/rack": 'r1 "left" é',
                "nodewright.nvidia.com/nodeState_gpu-tuning": "{}",
                "nodewright.nvidia.com/nodeState_other": "{}",
                "nodewright.nvidia.com/status_other": "complete",
                "nodewright.nvidia.com/version_other": "1.0.0",
                "nodewright.nvidia.com/cordon_other": "true",
                "nodewright.nvidia.com/drainStart_other": "2026-01-01T00:00:00Z",
                "nodewright.nvidia.com/drainBlocked_other": "[]",
                "nodewright.nvidia.com/pick_other": "{}",
                "nodewright.nvidia.com/autoTaint_nodewright.nvidia.com": "true",
                "nodewright.nvidia.com/runtimeRequiredCordon": "true",
            },
        )
    )


@pytest.fixture
def entry() -> Entry:
    """`tuning` 1.2.3 at apply, in a lane that began at generation 5."""
    return Entry(name="tuning", version="1.2.3", stage=Stage.APPLY, state=State.IN_PROGRESS, run="run-1", generation=5)
