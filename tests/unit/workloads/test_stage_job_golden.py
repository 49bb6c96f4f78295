"""The whole Job of the seed's `tuning` package, written out: what package images, agents and the plugin see."""

from nodewright.model.node_state import Entry
from nodewright.model.objects import Node
from nodewright.model.snapshot import PlanSettings
from nodewright.workloads.jobs import stage_job
from tests.unit.workloads.conftest import DIGEST, GPU, MakeCR

IMAGE = f"ghcr.io/nvidia/skyhook-packages/tuning@{DIGEST}"
AGENT = "ghcr.io/nvidia/nodewright/agent:6.4.2"
COPY_DIR = "/var/lib/skyhook/gpu-tuning/tuning-1.2.3-cr-uid-5"
PACKAGE = (
    '{"name":"tuning","version":"1.2.3","skyhook":"gpu-tuning","stage":"apply",'
    f'"image":"ghcr.io/nvidia/skyhook-packages/tuning","containerSHA":"{DIGEST}"}}'
)
LABELS = {
    "nodewright.nvidia.com/name": "gpu-tuning",
    "nodewright.nvidia.com/package": "tuning-1.2.3",
    "nodewright.nvidia.com/stage": "apply",
    "nodewright.nvidia.com/node": "gpu-node-1",
    "nodewright.nvidia.com/generation": "7",
}
MOUNTS = [
    {"name": "root-mount", "mountPath": "/root", "mountPropagation": "HostToContainer"},
    {"name": "node-metadata", "mountPath": "/skyhook-package/node-metadata"},
    {
        "name": "configmap",
        "mountPath": "/skyhook-package/configmaps/network.properties",
        "subPath": "network.properties",
        "readOnly": True,
    },
    {
        "name": "configmap",
        "mountPath": "/skyhook-package/configmaps/tuning.conf",
        "subPath": "tuning.conf",
        "readOnly": True,
    },
]
STEP = {
    "imagePullPolicy": "Always",
    "securityContext": {"privileged": True},
    "volumeMounts": MOUNTS,
    "resources": {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"cpu": "500m", "memory": "512Mi"},
    },
}
AGENT_ENV = [
    {"name": "TUNING_PROFILE", "value": "throughput"},
    {"name": "SKYHOOK_LOG_DIR", "value": "/var/log/skyhook/gpu-tuning"},
    {"name": "SKYHOOK_ROOT_DIR", "value": "/var/lib/skyhook/gpu-tuning"},
    {"name": "COPY_RESOLV", "value": "false"},
    {"name": "SKYHOOK_RESOURCE_ID", "value": "cr-uid-5_tuning_1.2.3"},
    {"name": "SKYHOOK_NODE_ORDER", "value": "4"},
]
EXPECTED = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "gpu-tuning-tuning-1-2-3-apply-gpu-node-1-31246b4d8ec3",
        "namespace": "nodewright",
        "labels": LABELS,
        "annotations": {
            "nodewright.nvidia.com/resource-id": "cr-uid-7",
            "nodewright.nvidia.com/package": PACKAGE,
            "nodewright.nvidia.com/run": "run-1",
            # Another text here would make an operator upgrade kill every running stage (JOB-10).
            "nodewright.nvidia.com/inputs": '{"package":"2479ebf31404b594","agent":"12ae32cb1ec02d01"}',
            "nodewright.nvidia.com/node-uid": "node-uid",
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
    "spec": {
        "parallelism": 1,
        "completions": 1,
        "podReplacementPolicy": "Failed",
        "backoffLimit": 3,
        "podFailurePolicy": {
            "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
        "template": {
            "metadata": {
                "labels": LABELS,
                "annotations": {
                    "nodewright.nvidia.com/package": PACKAGE,
                    "nodewright.nvidia.com/run": "run-1",
                },
            },
            "spec": {
                "nodeName": "gpu-node-1",
                "hostPID": True,
                "hostNetwork": True,
                "restartPolicy": "Never",
                "activeDeadlineSeconds": 1800,
                "terminationGracePeriodSeconds": 300,
                "tolerations": [
                    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
                    {
                        "key": "nodewright.nvidia.com",
                        "operator": "Equal",
                        "value": "runtime-required",
                        "effect": "NoSchedule",
                    },
                    {
                        "key": "skyhook.nvidia.com",
                        "operator": "Equal",
                        "value": "runtime-required",
                        "effect": "NoSchedule",
                    },
                    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
                    GPU,
                ],
                "initContainers": [
                    {
                        "name": "tuning-init",
                        "image": IMAGE,
                        "command": [
                            "/bin/sh",
                            "-c",
                            'mkdir -p "/root/$SKYHOOK_DIR" && cp -rf /skyhook-package/* "/root/$SKYHOOK_DIR"',
                        ],
                        "env": [{"name": "SKYHOOK_DIR", "value": COPY_DIR}],
                        **STEP,
                    },
                    {
                        "name": "tuning-apply",
                        "image": AGENT,
                        "args": ["apply", "/root", COPY_DIR],
                        "env": AGENT_ENV,
                        **STEP,
                    },
                    {
                        "name": "tuning-applycheck",
                        "image": AGENT,
                        "args": ["apply-check", "/root", COPY_DIR],
                        "env": AGENT_ENV,
                        **STEP,
                    },
                ],
                "containers": [
                    {
                        "name": "done",
                        "image": IMAGE,
                        "imagePullPolicy": "Always",
                        "command": ["/bin/sh", "-c", "exit 0"],
                    }
                ],
                "volumes": [
                    {"name": "root-mount", "hostPath": {"path": "/"}},
                    {"name": "configmap", "configMap": {"name": "gpu-tuning-tuning-1.2.3"}},
                    {"name": "node-metadata", "configMap": {"name": "gpu-tuning-gpu-node-1-metadata-52b40d823942"}},
                ],
            },
        },
    },
}


def test_the_job_of_the_seeds_tuning_package_is_exactly_this(
    make_cr: MakeCR, entry: Entry, node: Node, settings: PlanSettings
) -> None:
    """CON-13 to CON-25, JOB-1."""
    cr = make_cr()
    assert cr.spec is not None
    body = stage_job(
        cr=cr,
        package_name="tuning",
        package=cr.spec.packages["tuning"],
        entry=entry,
        node=node,
        order=4,
        settings=settings,
    )
    assert body == EXPECTED
