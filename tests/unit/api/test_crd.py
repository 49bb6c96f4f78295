"""The CRDs are made from the models and say what the contract asks (CON-1 to CON-6, CON-9)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodewright.api.crd import DIRECTORY, as_yaml, deployment_policy_crd, file_name, main, nodewright_crd
from nodewright.api.validation import check_nodewright, check_policy

SAMPLES = DIRECTORY.parent / "deploy" / "samples"
CRDS = [nodewright_crd(), deployment_policy_crd()]


def version_of(crd: dict[str, Any]) -> dict[str, Any]:
    (version,) = crd["spec"]["versions"]
    return dict(version)


def schema_of(crd: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema at a path of property names; `*` is a map's or list's entry."""
    schema = version_of(crd)["schema"]["openAPIV3Schema"]
    for step in path.split("."):
        schema = (schema.get("additionalProperties") or schema["items"]) if step == "*" else schema["properties"][step]
    return dict(schema)


def every_schema(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    children = list(schema.get("properties", {}).values())
    children += [schema[name] for name in ("items", "additionalProperties") if name in schema]
    for child in children:
        yield from every_schema(child)


@pytest.mark.parametrize("crd", CRDS, ids=file_name)
def test_the_committed_file_is_what_the_models_say(crd: dict[str, Any]) -> None:
    """CON-2."""
    assert (DIRECTORY / file_name(crd)).read_text(encoding="utf-8") == as_yaml(crd)
    assert yaml.safe_load(as_yaml(crd)) == crd


def test_check_tells_a_file_that_differs_and_writing_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """CON-2."""
    arguments = ["--directory", str(tmp_path)]
    assert main([*arguments, "--check"]) == 1
    assert capsys.readouterr().err.count("is not what the models say") == 2
    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0


def test_both_kinds_are_cluster_scoped_and_have_their_names_and_a_status() -> None:
    """CON-1."""
    for crd, kind, plural, short in zip(
        CRDS, ("NodeWright", "DeploymentPolicy"), ("nodewrights", "deploymentpolicies"), ("nw", "dp"), strict=True
    ):
        spec, names = crd["spec"], crd["spec"]["names"]
        assert (spec["group"], spec["scope"], version_of(crd)["name"]) == (
            "nodewright.nvidia.com",
            "Cluster",
            "v1alpha1",
        )
        assert (names["kind"], names["plural"], names["shortNames"]) == (kind, plural, [short])
        assert version_of(crd)["subresources"] == {"status": {}}


def test_the_printer_columns_are_in_order() -> None:
    """CON-3."""
    columns = version_of(CRDS[0])["additionalPrinterColumns"]
    assert [(column["name"], column["jsonPath"]) for column in columns] == [
        ("Status", ".status.status"),
        ("Priority", ".spec.priority"),
        ("Age", ".metadata.creationTimestamp"),
        ("Nodes In-Progress", ".status.nodesInProgress"),
        ("Complete Nodes", ".status.completeNodes"),
        ("Packages", ".status.packageList"),
        ("Policy", ".spec.deploymentPolicy"),
    ]


def test_every_map_of_status_is_one_field_for_field_management() -> None:
    """CON-6."""
    status = schema_of(CRDS[0], "status")["properties"]
    maps = {name for name, schema in status.items() if "additionalProperties" in schema}
    assert maps == {
        "nodeStatus", "nodeState", "nodeBootIds", "nodePriority", "nodeOrder", "configUpdates", "compartmentStatuses",
    }  # fmt: skip
    assert all(status[name]["x-kubernetes-map-type"] == "atomic" for name in maps)


def test_the_status_has_every_field_that_others_read() -> None:
    """CON-5."""
    assert set(schema_of(CRDS[0], "status")["properties"]) == {
        "observedGeneration", "status", "nodeStatus", "nodeState", "conditions", "nodeBootIds", "nodePriority", "nodeOrder",
        "nodeOrderOffset", "rollout", "configUpdates", "compartmentStatuses", "nodesInProgress", "completeNodes", "packageList",
    }  # fmt: skip
    assert set(schema_of(CRDS[0], "status.compartmentStatuses.*.batchState")["properties"]) == {
        "currentBatch", "evaluated", "consecutiveFailures", "completedNodes", "failedNodes", "shouldStop", "lastBatchSize",
        "lastBatchFailed",
    }  # fmt: skip
    assert schema_of(CRDS[0], "status.conditions")["x-kubernetes-list-map-keys"] == ["type"]


def test_the_api_server_fills_nothing_into_a_status() -> None:
    """What the operator did not write would look like a change to it, and idle would not be silent."""
    assert not [each for each in every_schema(schema_of(CRDS[0], "status")) if "default" in each]


def test_the_spec_has_every_field_of_the_contract_and_no_pause() -> None:
    """CON-4a."""
    assert set(schema_of(CRDS[0], "spec")["properties"]) == {
        "nodeSelectors", "interruptionBudget", "deploymentPolicy", "deploymentPolicyOptions", "priority", "sequencing", "serial",
        "podNonInterruptLabels", "drainConfig", "additionalTolerations", "runtimeRequired", "autoTaintNewNodes",
        "runtimeRequiredCordonAfter", "packages",
    }  # fmt: skip
    package = schema_of(CRDS[0], "spec.packages.*")
    assert set(package["properties"]) == {
        "name", "version", "image", "containerSHA", "interrupt", "dependsOn", "configMap", "configInterrupts", "env",
        "agentImageOverride", "resources", "gracefulShutdown", "stageTimeout", "uninstall",
    }  # fmt: skip
    assert package["required"] == ["version", "image"]
    assert schema_of(CRDS[0], "spec.packages.*.interrupt")["required"] == ["type"]


def test_the_defaults_are_those_of_admission() -> None:
    """ADM-23, ROL-9."""

    def defaults(crd: dict[str, Any], path: str) -> dict[str, Any]:
        properties = schema_of(crd, path)["properties"]
        return {name: schema["default"] for name, schema in properties.items() if "default" in schema}

    assert defaults(CRDS[0], "spec") == {
        "priority": 200, "sequencing": "node", "serial": False, "runtimeRequired": False, "autoTaintNewNodes": False,
        "runtimeRequiredCordonAfter": False, "drainConfig": {},
    }  # fmt: skip
    assert defaults(CRDS[0], "spec.drainConfig") == {
        "disableEviction": False, "deleteEmptyDirData": True, "force": True, "ignoreDaemonSets": True,
    }  # fmt: skip
    assert defaults(CRDS[0], "spec.deploymentPolicyOptions") == {}
    common = {"initialBatch": 1, "batchThreshold": 100, "safetyLimit": 50}
    assert defaults(CRDS[1], "spec.default.strategy.fixed") == common
    assert defaults(CRDS[1], "spec.compartments.*.strategy.linear") == common | {"delta": 1}
    assert defaults(CRDS[1], "spec.default.strategy.exponential") == common | {"growthFactor": 2}
    assert defaults(CRDS[1], "spec") == {"resetBatchStateOnCompletion": True}


def test_bounds_and_choices_are_in_the_schema() -> None:
    """ADM-3, ADM-6, ADM-12, ADM-21."""
    percent = schema_of(CRDS[0], "spec.interruptionBudget.percent")
    assert (percent["minimum"], percent["maximum"]) == (0, 100)
    assert schema_of(CRDS[0], "spec.priority")["minimum"] == 1
    assert schema_of(CRDS[0], "spec.sequencing")["enum"] == ["node", "all"]
    assert schema_of(CRDS[0], "spec.packages.*.interrupt.type")["enum"] == [
        "service",
        "reboot",
        "noop",
        "restartAllServices",
    ]
    assert schema_of(CRDS[1], "spec.default.budget.percent")["minimum"] == 1
    assert schema_of(CRDS[1], "spec.default.strategy.exponential.growthFactor")["minimum"] == 2


def test_a_name_of_more_than_fifty_characters_is_refused_without_webhooks() -> None:
    """CON-9."""
    (rule,) = version_of(CRDS[0])["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    assert rule["rule"] == "size(self.metadata.name) <= 50"


@pytest.mark.parametrize("crd", CRDS, ids=file_name)
def test_every_field_is_described(crd: dict[str, Any]) -> None:
    """CON-2."""
    properties = version_of(crd)["schema"]["openAPIV3Schema"]["properties"]
    for part in (properties["spec"]["properties"], properties["status"].get("properties", {})):
        for name, schema in part.items():
            for each in every_schema(schema):
                for field, value in each.get("properties", {}).items():
                    assert value.get("description"), f"{name} … {field}"


def test_the_samples_have_no_fault() -> None:
    complete = yaml.safe_load((SAMPLES / "complete.yaml").read_text(encoding="utf-8"))
    policy = yaml.safe_load((SAMPLES / "deployment-policy.yaml").read_text(encoding="utf-8"))
    assert [str(fault) for fault in check_nodewright(complete) + check_policy(policy)] == []


def test_the_complete_sample_shows_every_field_but_alternatives_and_what_is_beyond_the_seed() -> None:
    complete = yaml.safe_load((SAMPLES / "complete.yaml").read_text(encoding="utf-8"))["spec"]
    left_out = set(schema_of(CRDS[0], "spec")["properties"]) - set(complete)
    assert left_out == {"deploymentPolicy", "deploymentPolicyOptions", "runtimeRequiredCordonAfter"}
    shown = {field for package in complete["packages"].values() for field in package}
    assert set(schema_of(CRDS[0], "spec.packages.*")["properties"]) - shown == {"name"}
