"""A real API server takes the CRDs, fills in the defaults, keeps what the user wrote and refuses what OpenAPI can (issue 3, item 5)."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_runtime.testing.control_plane import ControlPlaneError
from tests.cluster.conftest import Kubectl

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "deploy" / "samples"
SOUND: dict[str, Any] = {"version": "1.2.3", "image": "org/tuning"}


def tried(admin: Kubectl, kind: str, spec: Mapping[str, Any] | None, *, name: str = "gpu") -> dict[str, Any]:
    """The object as the API server would store it; fields it does not know are pruned, not refused."""
    manifest: dict[str, Any] = {
        "apiVersion": "nodewright.nvidia.com/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
    }
    if spec is not None:
        manifest["spec"] = spec
    arguments = ("create", "--dry-run=server", "--validate=ignore", "-o", "json", "-f", "-")
    return dict(json.loads(admin(*arguments, stdin=json.dumps(manifest))))


def refusal(admin: Kubectl, kind: str, spec: Mapping[str, Any], *, name: str = "gpu") -> str:
    """What the API server says against the object."""
    with pytest.raises(ControlPlaneError) as caught:
        tried(admin, kind, spec, name=name)
    return str(caught.value)


def with_package(**fields: Any) -> dict[str, Any]:
    return {"packages": {"tuning": {**SOUND, **fields}}}


DEFAULTS = {
    "priority": 200,
    "sequencing": "node",
    "serial": False,
    "runtimeRequired": False,
    "autoTaintNewNodes": False,
    "runtimeRequiredCordonAfter": False,
    "drainConfig": {"disableEviction": False, "deleteEmptyDirData": True, "force": True, "ignoreDaemonSets": True},
}


def test_the_seeds_complete_example_comes_back_unpruned_and_unchanged(admin: Kubectl) -> None:
    """CON-4a, ADM-23: defaults aside."""
    text = (SAMPLES / "complete.yaml").read_text(encoding="utf-8")
    written = yaml.safe_load(text)
    stored = json.loads(admin("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-", stdin=text))
    assert stored["spec"] == {"runtimeRequiredCordonAfter": False, **written["spec"]}
    assert stored["metadata"]["annotations"] == written["metadata"]["annotations"]


def test_the_sample_policy_comes_back_unpruned_and_unchanged(admin: Kubectl) -> None:
    """CON-4b, ROL-9: defaults aside."""
    text = (SAMPLES / "deployment-policy.yaml").read_text(encoding="utf-8")
    stored = json.loads(admin("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-", stdin=text))
    expected = copy.deepcopy(yaml.safe_load(text)["spec"])
    expected["compartments"][1]["strategy"]["exponential"] |= {"batchThreshold": 100, "safetyLimit": 50}
    assert stored["spec"] == expected


@pytest.mark.parametrize("spec", [None, {}, {"priority": None, "drainConfig": None, "deploymentPolicy": None}])
def test_what_is_not_written_has_the_defaults(admin: Kubectl, spec: dict[str, Any] | None) -> None:
    """ADM-23."""
    assert tried(admin, "NodeWright", spec)["spec"] == DEFAULTS


def test_text_of_the_user_is_kept_as_written(admin: Kubectl) -> None:
    """ADM-23, CON-4: quantities, durations, env, order."""
    package = {
        **SOUND,
        "version": "1.2.3-rc.1+build.7",
        "stageTimeout": "1.50h",
        "gracefulShutdown": "3\u00b5s",
        "resources": {"cpuRequest": 1, "cpuLimit": "4000m", "memoryRequest": "8192Mi", "memoryLimit": "8.0Gi"},
        "env": [
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName", "apiVersion": "v1"}}},
            {
                "name": "C",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m", "containerName": "x"}},
            },
            {"name": "D", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k", "optional": False}}},
            {"name": "E"},
        ],
    }
    tolerations = [
        {"operator": "Exists"},
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 3},
    ]
    stored = tried(admin, "NodeWright", {"packages": {"tuning": package}, "additionalTolerations": tolerations})["spec"]
    assert stored["packages"]["tuning"] == package
    assert stored["additionalTolerations"] == tolerations


def test_unknown_fields_are_pruned_but_a_package_name_is_kept_for_admission_to_refuse(admin: Kubectl) -> None:
    """CON-2, CON-4a, ADM-7: there is no spec.pause."""
    stored = tried(admin, "NodeWright", {"pause": True, **with_package(name="tuning", later=1)})["spec"]
    assert "pause" not in stored
    assert stored["packages"]["tuning"] == {**SOUND, "name": "tuning"}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"priority": 0}, "spec.priority"),
        ({"sequencing": "some"}, "spec.sequencing"),
        ({"interruptionBudget": {"percent": 101}}, "spec.interruptionBudget.percent"),
        ({"interruptionBudget": {"percent": 1, "count": 1}}, "spec.interruptionBudget"),
        ({"drainConfig": {"timeout": "-1s"}}, "spec.drainConfig.timeout"),
        ({"drainConfig": {"gracePeriod": "soon"}}, "spec.drainConfig.gracePeriod"),
        (
            {"nodeSelectors": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "spec.nodeSelectors.matchExpressions[0].operator",
        ),
        ({"packages": {"tuning": {"image": "a/b"}}}, "spec.packages.tuning.version"),
        (with_package(version="v1.2.3"), "spec.packages.tuning.version"),
        (with_package(image="org/tuning:1.2.3"), "spec.packages.tuning.image"),
        (with_package(containerSHA="sha256:00"), "spec.packages.tuning.containerSHA"),
        (with_package(interrupt={}), "spec.packages.tuning.interrupt.type"),
        (with_package(interrupt={"type": "explode"}), "spec.packages.tuning.interrupt.type"),
        (with_package(resources={"cpuRequest": "1"}), "spec.packages.tuning.resources"),
        (with_package(stageTimeout="30"), "spec.packages.tuning.stageTimeout"),
        (with_package(env=[{"value": "x"}]), "spec.packages.tuning.env[0].name"),
    ],
)
def test_what_openapi_can_refuse_is_refused_without_webhooks(admin: Kubectl, spec: dict[str, Any], path: str) -> None:
    """ADM-3 to ADM-16, as far as OpenAPI can say them."""
    assert path in refusal(admin, "NodeWright", spec)


def test_the_schema_tells_all_it_sees_at_once(admin: Kubectl) -> None:
    """admission.md: never only the first."""
    text = refusal(admin, "NodeWright", {"priority": 0, "sequencing": "some", **with_package(version="v1")})
    assert all(path in text for path in ("spec.priority", "spec.sequencing", "spec.packages.tuning.version"))


def test_what_the_seed_accepts_is_not_refused_by_the_schema(admin: Kubectl) -> None:
    """ROL-5, ADM-10, ADM-15: edges that look wrong and are not."""
    spec = {
        "interruptionBudget": {"count": 0},
        **with_package(image="localhost:5000/org/tuning", resources={}, stageTimeout="0"),
    }
    assert tried(admin, "NodeWright", spec)["spec"]["packages"]["tuning"]["resources"] == {}


def test_a_name_of_fifty_characters_is_taken_and_a_longer_one_is_not(admin: Kubectl) -> None:
    """CON-9."""
    assert tried(admin, "NodeWright", {}, name="a" * 50)["metadata"]["name"] == "a" * 50
    assert "longer than 50 characters" in refusal(admin, "NodeWright", {}, name="a" * 51)


@pytest.mark.parametrize(
    ("default", "path"),
    [
        ({"budget": {}}, "spec.default.budget"),
        ({"budget": {"percent": 0}}, "spec.default.budget.percent"),
        ({"budget": {"percent": 1, "count": 1}}, "spec.default.budget"),
        ({"budget": {"count": 1}, "strategy": {"fixed": {}, "linear": {}}}, "spec.default.strategy"),
        (
            {"budget": {"count": 1}, "strategy": {"exponential": {"growthFactor": 1}}},
            "spec.default.strategy.exponential.growthFactor",
        ),
    ],
)
def test_a_policy_that_openapi_can_refuse_is_refused(admin: Kubectl, default: dict[str, Any], path: str) -> None:
    """ADM-21."""
    assert path in refusal(admin, "DeploymentPolicy", {"default": default})


def test_the_short_names_and_columns_work(admin: Kubectl) -> None:
    """CON-1, CON-3: without a single object kubectl prints no header, so there is one. Others come and go meanwhile."""
    for short, kind in (("nw", "nodewrights"), ("dp", "deploymentpolicies")):
        nobody = "--selector=nobody=has-it"
        assert admin("get", short, nobody, "-o", "json") == admin(
            "get", f"{kind}.nodewright.nvidia.com", nobody, "-o", "json"
        )
    raw = admin("create", "-f", "-", "-o", "name", stdin=json.dumps(_minimal("columns")))
    try:
        header = admin("get", raw.strip()).splitlines()[0].split("  ")
        columns = [column.strip() for column in header if column.strip()]
        assert columns == [
            "NAME",
            "STATUS",
            "PRIORITY",
            "AGE",
            "NODES IN-PROGRESS",
            "COMPLETE NODES",
            "PACKAGES",
            "POLICY",
        ]
    finally:
        admin("delete", raw.strip(), "--wait=false")


def test_status_is_written_apart_from_the_spec_and_its_maps_are_single_fields(admin: Kubectl) -> None:
    """CON-1, CON-6: managedFields name nodeStatus once, not every node. The answer is looked at, since the operator writes too."""
    name = "status"
    admin("create", "-f", "-", stdin=json.dumps(_minimal(name)))
    try:
        status: dict[str, dict[str, Any]] = {
            "nodeStatus": {f"n{i}": "complete" for i in range(50)},
            "nodeState": {"n1": {"a|1": {"name": "a", "new": 1}}},
        }
        body = json.dumps({"status": status, "spec": {"priority": 5}})
        patch = ("patch", "nodewright", name, "--type=merge", "-p", body)
        stored = json.loads(admin(*patch, "--subresource=status", "-o", "json", "--show-managed-fields"))
        for field, value in status.items():
            assert stored["status"][field].items() >= value.items()
        assert stored["spec"]["priority"] == 200
        assert '"f:n1"' not in json.dumps(stored["metadata"]["managedFields"])
    finally:
        admin("delete", "nodewright", name, "--wait=false")


def _minimal(name: str) -> dict[str, Any]:
    """Selects no node: those that are there belong to scenarios that play meanwhile."""
    return {
        "apiVersion": "nodewright.nvidia.com/v1alpha1",
        "kind": "NodeWright",
        "metadata": {"name": name},
        "spec": {"nodeSelectors": {"matchLabels": {"scenario": "nobody"}}},
    }
