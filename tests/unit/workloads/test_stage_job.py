"""What of a stage's Job follows the spec, the node, the entry and the settings (CON-13 to CON-25, JOB-1, JOB-2)."""

import copy
import dataclasses
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodewright.api import keys
from nodewright.model.node_state import Entry, Stage
from nodewright.model.objects import Node
from nodewright.model.snapshot import CR, PlanSettings
from nodewright.workloads.jobs import stage_job
from tests.unit.workloads.conftest import DIGEST, MakeCR

Build = Callable[..., dict[str, Any]]
replaced = msgspec.structs.replace
PACKAGE_STAGES = [Stage.APPLY, Stage.UPGRADE, Stage.CONFIG, Stage.POST_INTERRUPT, Stage.UNINSTALL]


@pytest.fixture
def build(make_cr: MakeCR, entry: Entry, node: Node, settings: PlanSettings) -> Build:
    """The Job of `tuning` with what the test replaces."""

    def make(cr: CR | None = None, **replacements: Any) -> dict[str, Any]:
        cr = cr or make_cr()
        assert cr.spec is not None
        name = next(iter(cr.spec.packages))
        arguments: dict[str, Any] = {"entry": entry, "node": node, "order": 0, "settings": settings} | replacements
        return stage_job(cr=cr, package_name=name, package=cr.spec.packages[name], **arguments)

    return make


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


def env_of(job: dict[str, Any], step: int = 1) -> list[dict[str, Any]]:
    env: list[dict[str, Any]] = pod_of(job)["initContainers"][step]["env"]
    return env


@pytest.mark.parametrize("stage", PACKAGE_STAGES)
def test_each_stage_runs_its_work_then_its_check(build: Build, entry: Entry, stage: Stage) -> None:
    """CON-18, LIF-6."""
    steps = pod_of(build(entry=replaced(entry, stage=stage)))["initContainers"]
    directory = "/var/lib/skyhook/gpu-tuning/tuning-1.2.3-cr-uid-5"
    assert [step["name"] for step in steps] == ["tuning-init", f"tuning-{stage}", f"tuning-{stage}check"]
    assert [step.get("args") for step in steps] == [
        None,
        [stage.value, "/root", directory],
        [f"{stage}-check", "/root", directory],
    ]


def test_a_package_name_is_cut_so_that_every_container_name_fits(build: Build, make_cr: MakeCR, entry: Entry) -> None:
    """CON-18: `post-interruptcheck` leaves 43 characters."""
    cr = make_cr()
    assert cr.spec is not None
    job = stage_job(
        cr=cr,
        package_name="p" * 60,
        package=cr.spec.packages["tuning"],
        entry=replaced(entry, stage=Stage.POST_INTERRUPT),
        node=Node(metadata=msgspec.convert({"name": "n"}, type=type(cr.meta))),
        order=0,
        settings=PlanSettings(agent_image="a:1"),
    )
    names = [step["name"] for step in pod_of(job)["initContainers"]]
    assert names[2] == "p" * 43 + "-post-interruptcheck"
    assert max(map(len, names)) == 63


def test_the_copy_may_run_again_over_what_an_earlier_attempt_left(build: Build, tmp_path: Path) -> None:
    """CON-18, with the links of a ConfigMap volume and one that points nowhere outside the image."""
    image, host = tmp_path / "image", tmp_path / "host"
    (image / "node-metadata" / "..1").mkdir(parents=True)
    (image / "node-metadata" / "..1" / "labels.json").write_text("{}")
    (image / "node-metadata" / "..data").symlink_to("..1")
    (image / "node-metadata" / "labels.json").symlink_to("..data/labels.json")
    (image / "link").symlink_to("/not/in/the/image")
    (image / "step.sh").write_text("#!/bin/sh\n")
    (image / "step.sh").chmod(0o755)
    shell, flag, script = pod_of(build())["initContainers"][0]["command"]
    script = script.replace("/root/", f"{host}/").replace("/skyhook-package/", f"{image}/")
    for _ in range(2):
        subprocess.run([shell, flag, script], check=True, env={"SKYHOOK_DIR": "/var/lib/a b", "PATH": os.defpath})
    copied = host / "var" / "lib" / "a b"
    assert (copied / "node-metadata" / "labels.json").read_text() == "{}"
    assert (copied / "link").readlink() == Path("/not/in/the/image")
    assert os.access(copied / "step.sh", os.X_OK)


def test_a_long_node_name_is_replaced_by_its_safe_name_in_the_label_only(build: Build, node: Node) -> None:
    """CON-14; `nodeName` stays whole, or the pod would never start."""
    name = ".".join(["ip-10-0-0-1"] * 7)
    job = build(node=replaced(node, metadata=replaced(node.metadata, name=name)))
    assert job["metadata"]["labels"][keys.LABEL_NODE] == keys.safe_name(63, name)
    assert pod_of(job)["nodeName"] == name
    assert len(job["metadata"]["name"]) == 63


def test_build_metadata_in_a_version_gives_a_valid_label(build: Build, make_cr: MakeCR, entry: Entry) -> None:
    """CON-14, CON-16: `+` is valid semver and no label value or object name."""
    job = build(make_cr(version="1.2.3+b7"), entry=replaced(entry, version="1.2.3+b7"))
    assert job["metadata"]["labels"][keys.LABEL_PACKAGE] == keys.safe_name(63, "tuning", "1.2.3+b7")
    assert pod_of(job)["volumes"][1]["configMap"]["name"] == f"gpu-tuning-{keys.safe_name(63, 'tuning', '1.2.3+b7')}"


def test_the_directory_and_resource_id_carry_the_entrys_generation_and_labels_the_crs(build: Build) -> None:
    """CON-14, CON-15, CON-20, CON-21: a spec edit half way must not point to a directory that was never made."""
    job = build()
    assert {"name": "SKYHOOK_RESOURCE_ID", "value": "cr-uid-5_tuning_1.2.3"} in env_of(job)
    assert job["metadata"]["labels"][keys.LABEL_GENERATION] == "7"
    assert job["metadata"]["annotations"][keys.ANNOTATION_RESOURCE_ID] == "cr-uid-7"


def test_env_is_handed_on_verbatim_before_the_operators_own(build: Build, make_cr: MakeCR) -> None:
    """CON-21: the later entry of a name wins in the kubelet, so a package cannot redirect the operator's."""
    secret = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}}
    own = {"name": "SKYHOOK_ROOT_DIR", "value": "/elsewhere"}
    job = build(make_cr(env=[secret, own]))
    assert env_of(job)[:2] == [secret, own]
    assert [item["value"] for item in env_of(job) if item["name"] == "SKYHOOK_ROOT_DIR"][-1] == (
        "/var/lib/skyhook/gpu-tuning"
    )
    assert env_of(job, step=0) == [
        {"name": "SKYHOOK_DIR", "value": "/var/lib/skyhook/gpu-tuning/tuning-1.2.3-cr-uid-5"}
    ]


def test_a_trace_reaches_pod_and_job_but_not_the_inputs(build: Build) -> None:
    """CON-21, OBS-4."""
    plain, traced = build(), build(traceparent="00-aa-bb-01")
    assert {"name": "TRACEPARENT", "value": "00-aa-bb-01"} in env_of(traced)
    assert traced["metadata"]["annotations"][keys.TRACEPARENT] == "00-aa-bb-01"
    assert traced["metadata"]["annotations"][keys.INPUTS] == plain["metadata"]["annotations"][keys.INPUTS]
    assert "TRACEPARENT" not in str(plain)


def test_unproven_failures_are_written_only_when_there_were_some(build: Build) -> None:
    """JOB-6: the count travels to the next Job."""
    assert keys.UNPROVEN_FAILURES not in build()["metadata"]["annotations"]
    assert build(unproven=3)["metadata"]["annotations"][keys.UNPROVEN_FAILURES] == "3"


def test_a_package_without_configmap_mounts_none(build: Build, make_cr: MakeCR) -> None:
    """CON-17: a pod that mounts a ConfigMap nobody creates would wait for ever."""
    pod = pod_of(build(make_cr(configMap=None, configInterrupts=None)))
    assert [volume["name"] for volume in pod["volumes"]] == ["root-mount", "node-metadata"]
    assert [mount["name"] for mount in pod["initContainers"][0]["volumeMounts"]] == ["root-mount", "node-metadata"]


def test_the_image_is_pinned_by_digest_or_named_by_version(build: Build, make_cr: MakeCR) -> None:
    """CON-22."""
    assert pod_of(build())["containers"][0]["image"].endswith(f"/tuning@{DIGEST}")
    assert pod_of(build(make_cr(containerSHA=None)))["containers"][0]["image"].endswith("/tuning:1.2.3")


def test_an_uninstall_of_an_older_version_runs_that_versions_image(build: Build, make_cr: MakeCR, entry: Entry) -> None:
    """The digest pins the spec's version; what undoes the old one is in the old image, with the old ConfigMap (CHG-5)."""
    job = build(make_cr(version="2.0.0"), entry=replaced(entry, stage=Stage.UNINSTALL))
    assert pod_of(job)["containers"][0]["image"] == "ghcr.io/nvidia/skyhook-packages/tuning:1.2.3"
    assert pod_of(job)["volumes"][1]["configMap"]["name"] == "gpu-tuning-tuning-1.2.3"
    assert "containerSHA" not in job["metadata"]["annotations"][keys.ANNOTATION_PACKAGE]


def test_the_operators_agent_runs_unless_the_package_overrides_it(build: Build, make_cr: MakeCR) -> None:
    """CON-22."""
    images = [step["image"] for step in pod_of(build(make_cr(agentImageOverride=None)))["initContainers"]]
    assert images[1:] == ["ghcr.io/nvidia/nodewright/agent:7.0.0"] * 2


def test_resources_are_left_to_the_namespace_when_unset_and_for_uninstall(
    build: Build, make_cr: MakeCR, entry: Entry
) -> None:
    """CON-23."""
    for job in (build(make_cr(resources=None)), build(entry=replaced(entry, stage=Stage.UNINSTALL))):
        assert not any("resources" in step for step in pod_of(job)["initContainers"])
    assert all("resources" in step for step in pod_of(build())["initContainers"])


@pytest.mark.parametrize(
    ("stage_timeout", "setting", "deadline"),
    [
        ("30m", 3600.0, 1800),
        (None, 3600.0, 3600),
        ("1500ms", None, 2),  # rounded up
        ("1ns", None, 1),
        ("0", 3600.0, None),
        ("0s", None, None),
        (None, 0.0, None),
        (None, None, None),
        ("2000000h", None, 2147483647),
    ],
)
def test_the_stage_timeout_bounds_each_attempt(
    build: Build, make_cr: MakeCR, settings: PlanSettings, stage_timeout: str | None, setting: float, deadline: int
) -> None:
    """JOB-1, JOB-2: on the pod template, in whole seconds, absent for 0."""
    job = build(make_cr(stageTimeout=stage_timeout), settings=_with(settings, stage_timeout=setting))
    assert pod_of(job).get("activeDeadlineSeconds") == deadline
    assert "activeDeadlineSeconds" not in job["spec"]
    assert "ttlSecondsAfterFinished" not in job["spec"]  # JOB-1: set with the mark


def test_grace_and_pull_secret_only_when_given(build: Build, make_cr: MakeCR, settings: PlanSettings) -> None:
    """CON-25."""
    bare = pod_of(build(make_cr(gracefulShutdown=None)))
    assert "terminationGracePeriodSeconds" not in bare
    assert "imagePullSecrets" not in bare
    given = pod_of(build(make_cr(gracefulShutdown="0"), settings=_with(settings, image_pull_secret="regcred")))
    assert given["terminationGracePeriodSeconds"] == 0
    assert given["imagePullSecrets"] == [{"name": "regcred"}]


def test_settings_give_namespace_directories_and_retries(build: Build, settings: PlanSettings) -> None:
    """CON-26."""
    job = build(
        settings=_with(settings, namespace="ops", copy_dir_root="/opt/c", agent_log_root="/opt/l", backoff_limit=0)
    )
    assert job["metadata"]["namespace"] == "ops"
    assert job["spec"]["backoffLimit"] == 0
    assert env_of(job)[1:3] == [
        {"name": "SKYHOOK_LOG_DIR", "value": "/opt/l/gpu-tuning"},
        {"name": "SKYHOOK_ROOT_DIR", "value": "/opt/c/gpu-tuning"},
    ]


def test_bodies_of_two_nodes_do_not_leak_into_each_other(build: Build, node: Node) -> None:
    """Parts are shared between bodies: building the second must not change the first."""
    first = build(order=1, traceparent="t1")
    before = copy.deepcopy(first)
    second = build(order=2, unproven=2, node=replaced(node, metadata=replaced(node.metadata, name="gpu-node-2")))
    assert first == before
    assert pod_of(second)["nodeName"] == "gpu-node-2"
    assert first["metadata"]["name"] != second["metadata"]["name"]


def test_an_edited_spec_gives_another_body_although_parts_are_cached(build: Build, make_cr: MakeCR) -> None:
    build(make_cr(stageTimeout="1m"))
    assert pod_of(build(make_cr(stageTimeout="2m")))["activeDeadlineSeconds"] == 120


def test_a_body_costs_well_below_a_tenth_of_a_millisecond(build: Build, make_cr: MakeCR) -> None:
    """2,000 Jobs of a wave must not block the loop; the best of many, so that a busy machine does not fail it."""
    cr = make_cr()
    best = min(_seconds(lambda: build(cr)) for _ in range(200))
    assert best < 60e-6


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _with(settings: PlanSettings, **changes: Any) -> PlanSettings:
    return dataclasses.replace(settings, **changes)
