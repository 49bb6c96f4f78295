"""Every admission rule that needs no cluster is told, all faults at once (ADM-1 to ADM-17a, ADM-19, ADM-21)."""

from typing import Any

import pytest

from nodewright.api.validation import check_nodewright, check_policy, name_faults

SOUND: dict[str, Any] = {"version": "1.2.3", "image": "registry:5000/org/tuning"}


def faults_of(spec: dict[str, Any]) -> list[str]:
    """Paths below `spec` of the faults of a spec."""
    return [fault.path.removeprefix("spec.") for fault in check_nodewright({"metadata": {"name": "gpu"}, "spec": spec})]


def faults_of_package(package: str = "tuning", /, **fields: Any) -> list[str]:
    """Paths below the package of the faults of a sound package with these fields."""
    return [
        path.removeprefix(f"packages[{package}]").removeprefix(".")
        for path in faults_of({"packages": {package: {**SOUND, **fields}}})
    ]


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"deploymentPolicy": "p", "interruptionBudget": {"percent": 0}}, ["deploymentPolicy"]),  # ADM-1
        ({"deploymentPolicy": "p", "interruptionBudget": {}}, []),  # ADM-1: neither set is absent
        ({"interruptionBudget": {"percent": 1, "count": 1}}, ["interruptionBudget"]),  # ADM-3
        ({"interruptionBudget": {"percent": 101}}, ["interruptionBudget.percent"]),  # ADM-3
        ({"interruptionBudget": {"percent": -1}}, ["interruptionBudget.percent"]),  # ADM-3
        ({"interruptionBudget": {"count": -1}}, ["interruptionBudget.count"]),  # ADM-3
        ({"interruptionBudget": {"count": 0}}, []),  # ROL-5: admits none
        (
            {"drainConfig": {"timeout": "-1s", "gracePeriod": "soon"}},
            ["drainConfig.timeout", "drainConfig.gracePeriod"],
        ),  # ADM-4
        ({"drainConfig": {"timeout": "0", "gracePeriod": "0s"}}, []),
        ({"nodeSelectors": {"matchLabels": {"a b": "c"}}}, ["nodeSelectors.matchLabels"]),  # ADM-5
        (
            {"podNonInterruptLabels": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            ["podNonInterruptLabels.matchExpressions[0].values"],
        ),  # ADM-5
        ({"priority": 0}, ["priority"]),  # ADM-6
        ({"sequencing": "some"}, ["sequencing"]),  # ADM-6
        (
            {"additionalTolerations": [{"key": "a", "operator": "Near"}]},
            ["additionalTolerations[0].operator"],
        ),  # ADM-19
    ],
)
def test_a_resource_that_breaks_a_rule_is_told_so(spec: dict[str, Any], paths: list[str]) -> None:
    assert faults_of(spec) == paths


@pytest.mark.parametrize("name", ["a", "A-b", "1ab", "ab1", "ab-", "-ab", "a_b", "a" * 44, "ab\n", ""])
def test_a_package_name_that_does_not_fit_is_told(name: str) -> None:
    """ADM-8."""
    assert faults_of_package(name) == [""]


@pytest.mark.parametrize("name", ["ab", "a" * 43, "a--b", "a1b"])
def test_a_package_name_that_fits_is_not(name: str) -> None:
    """ADM-8."""
    assert faults_of_package(name) == []


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"name": "tuning"}, ["name"]),  # ADM-7
        ({"name": ""}, ["name"]),  # ADM-7
        ({"version": ""}, ["version"]),  # ADM-9
        ({"version": "v1.2.3"}, ["version"]),  # ADM-9
        ({"version": None}, ["version"]),  # ADM-9
        ({"image": ""}, ["image"]),  # ADM-10
        ({"image": None}, ["image"]),  # ADM-10
        ({"image": "a b"}, ["image"]),  # ADM-10
        ({"image": "org/tuning:1.2.3"}, ["image"]),  # ADM-10
        ({"image": "org/tuning@sha256:00"}, ["image"]),  # ADM-10
        ({"image": "localhost:5000/org/tuning"}, []),  # ADM-10: a registry's port
        ({"containerSHA": "sha256:" + "0" * 64}, []),
        ({"containerSHA": "sha256:" + "A" * 64}, ["containerSHA"]),  # ADM-11
        ({"containerSHA": "sha256:" + "0" * 64 + "\n"}, ["containerSHA"]),  # ADM-11
        ({"interrupt": {"type": "explode"}}, ["interrupt.type"]),  # ADM-12
        ({"interrupt": {}}, ["interrupt.type"]),  # ADM-12
        ({"configInterrupts": {"a.conf": {"type": "noop"}}}, ["configInterrupts[a.conf]"]),  # ADM-13
        ({"configMap": {"a.conf": ""}, "configInterrupts": {"*.conf": {"type": "noop"}}}, []),
        (
            {"configMap": {"a.conf": ""}, "configInterrupts": {"a?conf": {"type": "noop"}}},
            ["configInterrupts[a?conf]"],
        ),  # ADM-13
        (
            {"configMap": {"a.conf": ""}, "configInterrupts": {"a.conf": {}}},
            ["configInterrupts[a.conf].type"],
        ),  # ADM-13
        ({"configMap": {"sysctl.d/99.conf": ""}}, ["configMap[sysctl.d/99.conf]"]),  # ADM-14
        (
            {"configMap": {"..": "", "..a": "", ".": "", "": ""}},
            ["configMap[..]", "configMap[..a]", "configMap[.]", "configMap[]"],
        ),
        ({"resources": {"cpuRequest": "1"}}, ["resources"]),  # ADM-15
        ({"resources": {}}, []),  # ADM-15: none of the four
        ({"stageTimeout": "-1s", "gracefulShutdown": "-1s"}, ["gracefulShutdown", "stageTimeout"]),  # ADM-16
        ({"uninstall": {"apply": True}}, ["uninstall.apply"]),  # ADM-17
        ({"uninstall": {"enabled": True, "apply": True}}, []),
        ({"dependsOn": {"other": "1.0.0"}}, ["dependsOn[other]"]),  # ADM-17a
        ({"dependsOn": {"tuning": "1.2.3"}}, ["dependsOn"]),  # ADM-17a: a cycle of one
    ],
)
def test_a_package_that_breaks_a_rule_is_told_so(fields: dict[str, Any], paths: list[str]) -> None:
    assert faults_of_package(**fields) == paths


@pytest.mark.parametrize(
    ("changed", "paths"),
    [
        ({}, []),
        ({"cpuLimit": "999m"}, ["cpuLimit"]),
        ({"cpuLimit": 1}, []),
        ({"memoryLimit": "8192Mi"}, []),  # CON-4: equals 8Gi
        ({"memoryLimit": "8191Mi"}, ["memoryLimit"]),
        ({"cpuRequest": "0"}, ["cpuRequest"]),
        ({"cpuRequest": "-1"}, ["cpuRequest"]),
        ({"memoryRequest": "lots"}, ["memoryRequest"]),
    ],
)
def test_resources_are_positive_quantities_with_limits_not_below_requests(
    changed: dict[str, Any], paths: list[str]
) -> None:
    """ADM-15."""
    sound = {"cpuRequest": "1000m", "cpuLimit": "2", "memoryRequest": "8Gi", "memoryLimit": "9Gi"}
    assert faults_of_package(resources={**sound, **changed}) == [f"resources.{path}" for path in paths]


def test_a_dependency_must_name_the_version_that_its_package_has() -> None:
    """ADM-17a."""
    wrong = {"aa": SOUND, "bb": {**SOUND, "dependsOn": {"aa": "1.2.4"}}, "cc": {**SOUND, "dependsOn": {"aa": ""}}}
    assert faults_of({"packages": wrong}) == ["packages[bb].dependsOn[aa]", "packages[cc].dependsOn[aa]"]
    assert faults_of({"packages": {"aa": SOUND, "bb": {**SOUND, "dependsOn": {"aa": "1.2.3"}}}}) == []


def test_a_cycle_is_shown_once() -> None:
    """ADM-17a: the message shows it."""
    ring = {
        name: {**SOUND, "dependsOn": {to: "1.2.3"}}
        for name, to in (("cc", "aa"), ("aa", "bb"), ("bb", "cc"), ("dd", "aa"))
    }
    faults = check_nodewright({"spec": {"packages": ring}})
    assert [str(fault) for fault in faults] == ["spec.packages[aa].dependsOn: is a cycle: aa -> bb -> cc -> aa"]


def test_a_long_chain_and_a_wide_diamond_are_no_cycle_and_no_burden() -> None:
    """ADM-17a."""
    names = [f"p{'abcdefghij'[i // 100]}{'abcdefghij'[i // 10 % 10]}{'abcdefghij'[i % 10]}" for i in range(1000)]
    packages = {
        name: {**SOUND, "dependsOn": dict.fromkeys(names[max(0, i - 3) : i], "1.2.3")} for i, name in enumerate(names)
    }
    assert faults_of({"packages": packages}) == []


@pytest.mark.parametrize(
    ("variable", "path"),
    [
        ({"name": "A", "value": "x"}, None),
        ({"name": "with.dots-and 1"}, None),
        ({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}}, None),
        ({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a/b']"}}}, None),
        ({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}, None),
        ({"value": "x"}, "name"),
        ({"name": "A=B"}, "name"),
        ({"name": "Ä"}, "name"),
        ({"name": "A", "value": 1}, "value"),
        ({"name": "A", "valueFrom": {}}, "valueFrom"),
        ({"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, "valueFrom"),
        ({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.containers"}}}, "valueFrom.fieldRef.fieldPath"),
        ({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}}, "valueFrom.resourceFieldRef.resource"),
        ({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}, "valueFrom.secretKeyRef.key"),
        ({"name": "A", "valueFrom": {"configMapKeyRef": {"key": "k"}}}, "valueFrom.configMapKeyRef.name"),
        ({"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v"}}}, "valueFrom.fileKeyRef"),
        ({"name": "A", "valueFrom": "x"}, "valueFrom"),
        ({"name": "A", "valueFrom": {"fieldRef": "x"}}, "valueFrom.fieldRef"),
    ],
)
def test_env_is_checked_as_kubernetes_would(variable: dict[str, Any], path: str | None) -> None:
    """ADM-19."""
    assert faults_of_package(env=[variable]) == ([] if path is None else [f"env[0].{path}"])


def test_two_sources_of_one_variable_are_one_too_many() -> None:
    """ADM-19."""
    both = {"secretKeyRef": {"name": "s", "key": "k"}, "configMapKeyRef": {"name": "s", "key": "k"}}
    assert faults_of_package(env=[{"name": "A", "valueFrom": both}]) == ["env[0].valueFrom"]


def test_a_name_of_more_than_fifty_characters_is_too_long() -> None:
    """ADM-19, CON-9."""
    assert name_faults("a" * 50) == []
    assert [fault.path for fault in check_nodewright({"metadata": {"name": "a" * 51}})] == ["metadata.name"]


def test_faults_of_shape_and_of_rules_come_together_and_none_twice() -> None:
    """admission.md: never only the first."""
    spec = {"priority": "high", "drainConfig": {"timeout": "-1s"}, "packages": {"Bad": {"version": 1, "image": "a:b"}}}
    assert faults_of(spec) == [
        "priority",
        "packages[Bad].version",
        "drainConfig.timeout",
        "packages[Bad]",
        "packages[Bad].image",
    ]


ONE: dict[str, Any] = {"budget": {"count": 1}}


def faults_of_policy(**spec: Any) -> list[str]:
    return [fault.path.removeprefix("spec.") for fault in check_policy({"spec": {"default": ONE, **spec}})]


@pytest.mark.parametrize(
    ("default", "paths"),
    [
        (ONE, []),
        ({"budget": {"percent": 100}}, []),
        ({}, ["default.budget"]),
        ({"budget": {"percent": 1, "count": 1}}, ["default.budget"]),
        ({"budget": {"percent": 0}}, ["default.budget.percent"]),
        ({"budget": {"percent": 101}}, ["default.budget.percent"]),
        ({"budget": {"count": 0}}, ["default.budget.count"]),
        ({**ONE, "strategy": {}}, ["default.strategy"]),
        ({**ONE, "strategy": {"fixed": {}, "linear": {}}}, ["default.strategy"]),
        ({**ONE, "strategy": {"fixed": {"initialBatch": 0}}}, ["default.strategy.fixed.initialBatch"]),
        ({**ONE, "strategy": {"linear": {"delta": 0}}}, ["default.strategy.linear.delta"]),
        ({**ONE, "strategy": {"exponential": {"growthFactor": 1}}}, ["default.strategy.exponential.growthFactor"]),
        ({**ONE, "strategy": {"fixed": {"batchThreshold": 0}}}, ["default.strategy.fixed.batchThreshold"]),
        ({**ONE, "strategy": {"fixed": {"safetyLimit": 101}}}, ["default.strategy.fixed.safetyLimit"]),
        ({**ONE, "strategy": {"fixed": {"failureThreshold": 0}}}, ["default.strategy.fixed.failureThreshold"]),
        (None, ["default"]),
    ],
)
def test_a_policy_that_breaks_a_rule_is_told_so(default: Any, paths: list[str]) -> None:
    """ADM-21."""
    assert faults_of_policy(default=default) == paths


def test_compartments_have_names_and_selectors_of_their_own() -> None:
    """ADM-21."""
    selectors: list[dict[str, Any]] = [
        {"matchLabels": {"a": "1"}},
        {"matchLabels": {"a": "2"}},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]},
        {"matchLabels": {"a": "x y"}},
        {},
    ]
    names = ["one", "one", "three", "__default__", ""]
    compartments = [
        {"name": name, "selector": selector, **ONE} for name, selector in zip(names, selectors, strict=True)
    ]
    assert faults_of_policy(compartments=compartments) == [
        "compartments[1].name",
        "compartments[2].selector",
        "compartments[3].name",
        "compartments[3].selector.matchLabels[a]",
        "compartments[4].name",
    ]
