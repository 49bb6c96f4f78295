"""A real API server takes every body we create, with strict checks, and its Job controller makes the pod we mean."""

import json
import time
from typing import Any

import msgspec
import pytest

from controller_runtime.testing.control_plane import ControlPlaneError
from nodewright.api.nodewright import NodeWrightSpec, parse_nodewright_spec
from nodewright.model.node_state import Entry, Stage, State
from nodewright.model.objects import ConfigMap, Job, Node, ObjectMeta
from nodewright.model.snapshot import CR, PlanSettings
from nodewright.workloads.claims import claim_of, is_own
from nodewright.workloads.configmaps import differs, node_metadata, package_configmap
from nodewright.workloads.inputs import matches
from nodewright.workloads.jobs import stage_job
from tests.cluster.conftest import Kubectl

SETTINGS = PlanSettings(agent_image="ghcr.io/nvidia/nodewright/agent:7.0.0", image_pull_secret="regcred")
LONGEST_CR = "a" + "-b" * 24 + "c"
LONGEST_PACKAGE = "p" * 43
LONGEST_NODE = ".".join(["n" * 63] * 3 + ["n" * 61])
LONGEST_VERSION = "1.0.0-" + "rc." * 40 + "1+build.5"

FULL: dict[str, Any] = {
    "version": "1.2.3",
    "image": "registry.example.com:5000/packages/tuning",
    "containerSHA": "sha256:" + "0" * 64,
    "gracefulShutdown": "5m",
    "stageTimeout": "2000000h",
    "env": [
        {"name": "PROFILE", "value": "throughput"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "tuning-init"}}},
        {"name": "SKYHOOK_ROOT_DIR", "value": "/twice"},
    ],
    "resources": {"cpuRequest": 0.5, "cpuLimit": 1, "memoryRequest": "128Mi", "memoryLimit": "1e9"},
    "configMap": {"tuning.conf": "vm.swappiness=1\n", "under_score.properties": "é", "-odd": ""},
}
BARE = {"version": "0.1.0", "image": "busybox", "stageTimeout": "0"}
TOLERATIONS: list[dict[str, Any]] = [
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 90},
    {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
]
PACKAGE_STAGES = [Stage.APPLY, Stage.UPGRADE, Stage.CONFIG, Stage.POST_INTERRUPT, Stage.UNINSTALL]


def parsed(package: str, fields: dict[str, Any], tolerations: list[dict[str, Any]] = TOLERATIONS) -> NodeWrightSpec:
    spec = parse_nodewright_spec({"additionalTolerations": tolerations, "packages": {package: fields}})
    assert isinstance(spec, NodeWrightSpec)
    return spec


def body_of(cr: CR, node: Node, stage: Stage = Stage.APPLY) -> dict[str, Any]:
    assert cr.spec is not None
    name, package = next(iter(cr.spec.packages.items()))
    entry = Entry(name=name, version=package.version, stage=stage, state=State.IN_PROGRESS, run="run-1", generation=1)
    return stage_job(
        cr=cr,
        package_name=name,
        package=package,
        entry=entry,
        node=node,
        order=3,
        settings=SETTINGS,
        unproven=1,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )


def create(kubectl: Kubectl, body: dict[str, Any], *flags: str) -> bytes:
    """Creates it with unknown fields refused; the object as the API server answers it."""
    written = msgspec.json.encode(body).decode()
    return kubectl("create", "-f", "-", "--validate=strict", "--output=json", *flags, stdin=written).encode()


@pytest.mark.parametrize("fields", [FULL, BARE], ids=["full", "bare"])
@pytest.mark.parametrize("stage", PACKAGE_STAGES)
def test_the_api_server_takes_the_job_of_each_stage(admin: Kubectl, stage: Stage, fields: dict[str, Any]) -> None:
    """CON-13 to CON-25, JOB-1."""
    cr = CR(meta=ObjectMeta(name="gpu-tuning", uid="cr-uid", generation=2), spec=parsed("tuning", fields))
    node = Node(metadata=ObjectMeta(name="gpu-node-1", uid="node-uid"))
    answer = create(admin, body_of(cr, node, stage), "--dry-run=server")
    job = msgspec.json.decode(answer, type=Job)
    claim = claim_of(job)
    assert claim is not None
    assert claim.stage is stage
    assert is_own(job, cr)
    assert cr.spec is not None
    assert matches(job, cr.spec.packages["tuning"], SETTINGS, has_pod=False)


@pytest.mark.parametrize("stage", PACKAGE_STAGES)
def test_the_longest_names_and_an_odd_version_are_taken(admin: Kubectl, stage: Stage) -> None:
    """CON-9, CON-12, CON-14, CON-18."""
    spec = parsed(LONGEST_PACKAGE, FULL | {"version": LONGEST_VERSION, "env": []})
    cr = CR(meta=ObjectMeta(name=LONGEST_CR, uid="cr-uid", generation=2**31), spec=spec)
    node = Node(metadata=ObjectMeta(name=LONGEST_NODE, uid="node-uid"))
    create(admin, body_of(cr, node, stage), "--dry-run=server")
    create(admin, node_metadata(cr, node, SETTINGS), "--dry-run=server")
    create(admin, package_configmap(cr, LONGEST_PACKAGE, spec.packages[LONGEST_PACKAGE], SETTINGS), "--dry-run=server")


def test_configmaps_read_back_equal(admin: Kubectl) -> None:
    """CON-16: else every pass would write them again."""
    cr = CR(meta=ObjectMeta(name="gpu-tuning", uid="cr-uid", generation=2), spec=parsed("tuning", FULL))
    node = Node(metadata=ObjectMeta(name="n", labels={"a": ""}, annotations={"b": 'é "\n\u2028 \U0001f600 <&>'}))
    assert cr.spec is not None
    for body in (
        node_metadata(cr, node, SETTINGS),
        package_configmap(cr, "tuning", cr.spec.packages["tuning"], SETTINGS),
    ):
        stored = msgspec.json.decode(create(admin, body, "--dry-run=server"), type=ConfigMap)
        assert not differs(stored, body)


@pytest.mark.needs("schemas of built-in kinds")
def test_the_check_is_strict_enough_to_notice(admin: Kubectl) -> None:
    cr = CR(meta=ObjectMeta(name="gpu-tuning", uid="cr-uid", generation=2), spec=parsed("tuning", FULL))
    body = body_of(cr, Node(metadata=ObjectMeta(name="n", uid="u")))
    with pytest.raises(ControlPlaneError, match="completionz"):
        create(admin, body | {"spec": body["spec"] | {"completionz": 1}}, "--dry-run=server")


def test_the_job_controllers_pod_is_what_we_mean(admin: Kubectl) -> None:
    """CON-14, CON-17, CON-24, JOB-1: the pod is on its node at once, with its claim, tolerations and deadline."""
    package = {"version": "1.0.0", "image": "busybox", "stageTimeout": "30m"}
    written = {
        "apiVersion": "nodewright.nvidia.com/v1alpha1",
        "kind": "NodeWright",
        "metadata": {"name": "workloads-pod"},
        "spec": {
            "nodeSelectors": {"matchLabels": {"nobody": "has-this"}},
            "additionalTolerations": TOLERATIONS[:1],
            "packages": {"tuning": package},
        },
    }
    stored = json.loads(create(admin, written))
    cr = CR(
        meta=ObjectMeta(name="workloads-pod", uid=stored["metadata"]["uid"], generation=1),
        spec=parsed("tuning", package, TOLERATIONS[:1]),
    )
    try:
        job = msgspec.json.decode(
            create(admin, body_of(cr, Node(metadata=ObjectMeta(name="workloads-node", uid="u")))), type=Job
        )
        pod = _pod_of(admin, job.metadata.name)
    finally:
        admin("delete", "nodewright", "workloads-pod", "--wait=false")
    assert pod["metadata"]["labels"].items() >= job.metadata.labels.items()
    assert pod["metadata"]["annotations"]["nodewright.nvidia.com/run"] == "run-1"
    spec = pod["spec"]
    assert (spec["nodeName"], spec["hostPID"], spec["hostNetwork"]) == ("workloads-node", True, True)
    assert spec["activeDeadlineSeconds"] == 1800
    lifecycle = [t for t in spec["tolerations"] if t.get("effect") == "NoExecute"]
    assert [t["key"] for t in lifecycle] == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert not any("tolerationSeconds" in t for t in lifecycle)  # admission added no bound of its own


def _pod_of(kubectl: Kubectl, job: str) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = json.loads(kubectl("-n", "nodewright", "get", "pods", f"-ljob-name={job}", "-o", "json"))["items"]
        if found:
            pod: dict[str, Any] = found[0]
            return pod
        time.sleep(0.2)
    raise AssertionError(f"no pod of Job {job} within 30 s")
