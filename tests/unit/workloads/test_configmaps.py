"""What stage pods mount (CON-16)."""

import json
from typing import Any

import msgspec
import pytest

from nodewright.api import keys
from nodewright.model.objects import ConfigMap, Node, ObjectMeta
from nodewright.model.snapshot import CR, PlanSettings
from nodewright.workloads.configmaps import differs, image_tag, node_metadata, package_configmap
from tests.unit.workloads.conftest import TUNING, MakeCR


def as_stored(body: dict[str, Any]) -> ConfigMap:
    return msgspec.json.decode(msgspec.json.encode(body), type=ConfigMap)


def test_the_package_configmap_is_the_specs_verbatim(make_cr: MakeCR, settings: PlanSettings) -> None:
    cr = make_cr()
    assert cr.spec is not None
    assert package_configmap(cr, "tuning", cr.spec.packages["tuning"], settings) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "gpu-tuning-tuning-1.2.3",
            "namespace": "nodewright",
            "labels": {"nodewright.nvidia.com/name": "gpu-tuning"},
            "annotations": {
                "nodewright.nvidia.com/name": "gpu-tuning",
                "nodewright.nvidia.com/Package.Name": "tuning",
                "nodewright.nvidia.com/Package.Version": "1.2.3",
            },
            "ownerReferences": [
                {
                    "apiVersion": "nodewright.nvidia.com/v1alpha1",
                    "kind": "NodeWright",
                    "name": "gpu-tuning",
                    "uid": "cr-uid",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "data": TUNING["configMap"],
    }


def test_node_metadata_leaves_out_the_bookkeeping_of_every_cr(
    make_cr: MakeCR, node: Node, settings: PlanSettings
) -> None:
    body = node_metadata(make_cr(), node, settings)
    assert json.loads(body["data"]["annotations.json"]) == {"example.com/rack": 'r1 "left" é'}
    assert json.loads(body["data"]["labels.json"]) == {
        "zone": "b",
        "kubernetes.io/hostname": "gpu-node-1",
        "nodewright.nvidia.com/ignore": "false",  # people's, not ours
    }
    assert body["metadata"]["name"] == keys.node_metadata_configmap_name(cr="gpu-tuning", node="gpu-node-1")
    assert body["metadata"]["labels"] == {"nodewright.nvidia.com/nodewright-node-meta": "gpu-tuning"}
    assert body["metadata"]["ownerReferences"][0]["uid"] == "cr-uid"


def test_node_metadata_describes_the_packages(make_cr: MakeCR, node: Node, settings: PlanSettings) -> None:
    body = node_metadata(make_cr(), node, settings)
    assert json.loads(body["data"]["packages.json"]) == {
        "agentVersion": "7.0.0",
        "packages": {
            "tuning": {
                "name": "tuning",
                "version": "1.2.3",
                "image": "ghcr.io/nvidia/skyhook-packages/tuning",
                "agentImageOverride": "ghcr.io/nvidia/nodewright/agent:6.4.2",
                "interrupt": {"type": "reboot"},
                "configInterrupts": {
                    "tuning.conf": {"type": "service", "services": ["containerd"]},
                    "*.properties": {"type": "restartAllServices"},
                },
            }
        },
    }


def test_what_a_package_does_not_declare_is_left_out(make_cr: MakeCR, node: Node, settings: PlanSettings) -> None:
    cr = make_cr(agentImageOverride=None, interrupt=None, configInterrupts=None)
    packages = json.loads(node_metadata(cr, node, settings)["data"]["packages.json"])["packages"]
    assert set(packages["tuning"]) == {"name", "version", "image"}


def test_node_metadata_of_a_cr_that_cannot_be_read_names_no_package(node: Node, settings: PlanSettings) -> None:
    body = node_metadata(CR(meta=ObjectMeta(name="c", uid="u"), spec=None), node, settings)
    assert json.loads(body["data"]["packages.json"])["packages"] == {}


def test_the_order_of_keys_makes_no_other_bytes(make_cr: MakeCR, node: Node, settings: PlanSettings) -> None:
    """Trap 60: else every list of the API server could cause a write."""
    meta = node.metadata
    turned = msgspec.structs.replace(
        meta,
        labels=dict(reversed(meta.labels.items())),
        annotations=dict(reversed(meta.annotations.items())),
    )
    bodies = [node_metadata(make_cr(), n, settings)["data"] for n in (node, Node(metadata=turned))]
    assert bodies[0] == bodies[1]


def test_an_entry_written_on_the_node_causes_no_write(make_cr: MakeCR, node: Node, settings: PlanSettings) -> None:
    current = as_stored(node_metadata(make_cr(), node, settings))
    annotations = node.metadata.annotations | {"nodewright.nvidia.com/nodeState_gpu-tuning": '{"x":1}'}
    moved = Node(metadata=msgspec.structs.replace(node.metadata, annotations=annotations))
    assert not differs(current, node_metadata(make_cr(), moved, settings))


def test_only_a_change_of_data_counts_as_different(make_cr: MakeCR, node: Node, settings: PlanSettings) -> None:
    body = node_metadata(make_cr(), node, settings)
    current = as_stored(body)
    labelled = msgspec.structs.replace(current, metadata=msgspec.structs.replace(current.metadata, labels={"a": "b"}))
    assert not differs(labelled, body)
    relabelled = Node(metadata=msgspec.structs.replace(node.metadata, labels={"zone": "c"}))
    assert differs(current, node_metadata(make_cr(), relabelled, settings))


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("ghcr.io/nvidia/nodewright/agent:6.4.2", "6.4.2"),
        ("registry:5000/agent:v1", "v1"),
        ("registry:5000/agent", ""),
        ("agent:1.0@sha256:" + "0" * 64, "1.0"),
        ("agent@sha256:" + "0" * 64, ""),
    ],
)
def test_the_agent_version_is_the_tag(image: str, tag: str) -> None:
    assert image_tag(image) == tag
