"""What other software reads, after one package went onto one node: names and contents to the letter (CON-5 to CON-25)."""

import asyncio
import hashlib
import json
import re
from typing import Any

import msgspec
import pytest

from tests.cluster.harness import AGENT_IMAGE
from tests.cluster.observer import JOB, KEY, NAMESPACE, POD, Thing
from tests.cluster.scenario import Scenario, scenario

IMAGE = "ghcr.io/example/packages/tuning"
CONFIG = {"tuning.conf": "vm.swappiness=1\n", "limits": "a=b"}
TUNING = {"version": "1.2.3", "image": IMAGE, "configMap": CONFIG, "env": [{"name": "PROFILE", "value": "fast"}]}


def safe_name(limit: int, *parts: str) -> str:
    """CON-12, written a second time."""
    digest = hashlib.sha256("/".join(parts).encode()).hexdigest()[:12]
    return re.sub("[^a-z0-9-]", "-", "-".join(parts).lower())[: limit - 13] + "-" + digest


async def live(s: Scenario, name: str) -> dict[str, Any]:
    """The Job as the API server has it."""
    read: dict[str, Any] = json.loads(await s.client.get(JOB, name, namespace=NAMESPACE))
    return read


@scenario()
async def test_the_jobs_of_a_node_are_as_the_contract_says(s: Scenario) -> None:
    """CON-13 to CON-25, JOB-1 to JOB-3."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": TUNING})
    await s.until_status("complete")
    await s.until(lambda: all(j.key("state-recorded") for j in s.jobs()), "all are marked")
    uid = s.cr().metadata.uid
    names = {stage: safe_name(63, s.name, "tuning", "1.2.3", stage, node) for stage in ("apply", "config")}
    assert sorted(job.name for job in s.jobs()) == sorted(names.values())  # CON-13
    for stage, name in names.items():
        job = await live(s, name)
        meta, spec, template = job["metadata"], job["spec"], job["spec"]["template"]
        labels = {"name": s.name, "package": "tuning-1.2.3", "stage": stage, "node": node, "generation": "1"}
        expected = {f"{KEY}/{key}": value for key, value in labels.items()}  # CON-14
        assert expected.items() <= meta["labels"].items()
        assert expected.items() <= template["metadata"]["labels"].items()
        assert f"{KEY}/interrupt" not in meta["labels"]
        (owner,) = meta["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (uid, True, False)

        notes = {key.removeprefix(f"{KEY}/"): value for key, value in meta["annotations"].items()}  # CON-15
        assert notes["resource-id"] == f"{uid}-1"
        about = {"name": "tuning", "version": "1.2.3", "skyhook": s.name, "stage": stage, "image": IMAGE}
        assert json.loads(notes["package"]) == about
        assert json.loads(template["metadata"]["annotations"][f"{KEY}/package"]) == about
        assert template["metadata"]["annotations"][f"{KEY}/run"] == notes["run"] != ""
        assert notes["node-uid"] == s.node(node).metadata.uid
        assert notes["state-recorded"] == "true"
        assert "inputs" in notes
        assert spec["ttlSecondsAfterFinished"] == 3600  # JOB-3

        assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 1)
        assert (spec["podReplacementPolicy"], spec["suspend"]) == ("Failed", False)
        (rule,) = spec["podFailurePolicy"]["rules"]
        assert (rule["action"], rule["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")

        pod = template["spec"]  # CON-17, CON-18
        assert (pod["nodeName"], pod["hostPID"], pod["hostNetwork"]) == (node, True, True)
        assert (pod["restartPolicy"], pod["activeDeadlineSeconds"]) == ("Never", 3600)
        shown = [(c["name"], c["image"], c.get("args")) for c in pod["initContainers"]]
        copy = f"/var/lib/skyhook/{s.name}/tuning-1.2.3-{uid}-1"  # CON-20
        assert shown == [
            ("tuning-init", f"{IMAGE}:1.2.3", shown[0][2]),
            (f"tuning-{stage}", AGENT_IMAGE, [stage, "/root", copy]),
            (f"tuning-{stage}check", AGENT_IMAGE, [f"{stage}-check", "/root", copy]),
        ]
        assert all(c["securityContext"]["privileged"] for c in pod["initContainers"])
        assert [c["name"] for c in pod["containers"]] == ["done"]
        env = [(e["name"], e.get("value")) for e in pod["initContainers"][1]["env"]]  # CON-21
        assert env == [
            ("PROFILE", "fast"),
            ("SKYHOOK_LOG_DIR", f"/var/log/skyhook/{s.name}"),
            ("SKYHOOK_ROOT_DIR", f"/var/lib/skyhook/{s.name}"),
            ("COPY_RESOLV", "false"),
            ("SKYHOOK_RESOURCE_ID", f"{uid}-1_tuning_1.2.3"),
            ("SKYHOOK_NODE_ORDER", "0"),
        ]
        mounts = {m["mountPath"]: m for m in pod["initContainers"][1]["volumeMounts"]}
        assert mounts["/root"]["mountPropagation"] == "HostToContainer"
        assert "/skyhook-package/node-metadata" in mounts
        for key in CONFIG:
            assert mounts[f"/skyhook-package/configmaps/{key}"]["subPath"] == key


@scenario()
async def test_the_configmaps_are_as_the_contract_says(s: Scenario) -> None:
    """CON-16."""
    (node,) = await s.nodes(1, colour="red")
    await s.apply({"tuning": TUNING})
    await s.until_status("complete")
    maps = {one.name: one for one in s.config_maps()}
    metadata_name = safe_name(253, s.name, node, "metadata")
    assert sorted(maps) == sorted([f"{s.name}-tuning-1.2.3", metadata_name])
    config = maps[f"{s.name}-tuning-1.2.3"]
    assert config.data == CONFIG
    assert (config.key("name"), config.label("name")) == (s.name, s.name)
    assert (config.key("Package.Name"), config.key("Package.Version")) == ("tuning", "1.2.3")
    about = maps[metadata_name]
    assert about.label("nodewright-node-meta") == s.name
    assert json.loads(about.data["labels.json"])["colour"] == "red"
    assert not [key for key in json.loads(about.data["annotations.json"]) if "nodeState_" in key]
    assert json.loads(about.data["packages.json"]) == {
        "agentVersion": "7.1.0",
        "packages": {"tuning": {"name": "tuning", "version": "1.2.3", "image": IMAGE}},
    }
    assert {o.uid for one in maps.values() for o in one.metadata.owner_references} == {s.cr().metadata.uid}


@scenario()
async def test_the_node_carries_what_the_contract_says(s: Scenario) -> None:
    """CON-7, CON-8, CON-10, ROL-13."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": TUNING})
    await s.until_status("complete")
    seen = s.node(node)
    (entry,) = s.node_state(node).values()
    run = entry.pop("run")
    assert entry == {
        "name": "tuning",
        "version": "1.2.3",
        "image": IMAGE,
        "stage": "config",
        "state": "complete",
        "generation": 1,
    }
    assert run == s.job(stage="config").key("run")
    assert (seen.key(f"status_{s.name}"), seen.label(f"status_{s.name}")) == ("complete", "complete")
    assert seen.key(f"version_{s.name}")
    pick = json.loads(seen.key(f"pick_{s.name}") or "{}")
    assert {k: pick[k] for k in ("batch", "compartment", "order", "completed")} == {
        "batch": 1,
        "compartment": "__default__",
        "order": 0,
        "completed": True,
    }
    assert sorted(key.removeprefix(f"{KEY}/") for key in seen.annotations if key.startswith(KEY)) == sorted(
        f"{key}_{s.name}" for key in ("nodeState", "status", "version", "pick")
    )
    assert "spec" not in seen.spec
    assert not seen.spec.get("unschedulable")


@scenario()
async def test_the_status_is_as_the_contract_says(s: Scenario) -> None:
    """CON-5, ROL-15, ROL-22 to ROL-24."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": TUNING, "extra": {"version": "2.0.0", "image": IMAGE}})
    await s.until_status("complete")
    status = dict(s.cr().status)
    assert s.cr().metadata.finalizers == ("nodewright.nvidia.com/nodewright",)
    conditions = {c["type"]: c for c in status.pop("conditions")}
    ready = conditions["Ready"]
    assert (ready["status"], ready["reason"]) == ("True", "NodesConverged")
    assert ready["message"] == f"1/1 nodes complete ({node})"
    assert {c["observedGeneration"] for c in conditions.values()} == {1}
    for type_, condition in conditions.items():
        if type_ != "Ready":  # ROL-23a
            assert (condition["status"], condition["reason"], condition["message"]) == ("False", "Resolved", "")
    assert status["observedGeneration"] == 1
    assert status["nodeStatus"] == {node: "complete"}
    assert status["nodeState"] == {node: s.node_state(node)}
    assert (status["completeNodes"], status["nodesInProgress"]) == ("1/1", 0)
    assert status["packageList"] == "extra:2.0.0,tuning:1.2.3"
    assert (status["nodePriority"], status["nodeOrder"]) == ({}, {})
    default = status["compartmentStatuses"]["__default__"]
    counts = {key: default[key] for key in ("matched", "ceiling", "inProgress", "completed", "progressPercent")}
    assert counts == {"matched": 1, "ceiling": 1, "inProgress": 0, "completed": 1, "progressPercent": 100}


@pytest.mark.needs("kubectl")
@scenario()
async def test_kubectl_get_shows_the_columns(s: Scenario) -> None:
    """CON-3: Status, Priority, Age, Nodes In-Progress, Complete Nodes, Packages, Policy."""
    await s.nodes(2)
    await s.apply({"tuning": TUNING, "extra": {"version": "2.0.0", "image": IMAGE}}, priority=210)
    await s.until_status("complete")
    table = await asyncio.to_thread(s.stage.cluster.kubectl, "get", "nw", s.name)
    head, row = table.splitlines()
    columns = ["NAME", "STATUS", "PRIORITY", "AGE", "NODES IN-PROGRESS", "COMPLETE NODES", "PACKAGES", "POLICY"]
    assert re.split(r"\s{2,}", head.strip()) == columns
    cells = row.split()
    assert [cells[i] for i in (0, 1, 2, 4, 5, 6)] == [s.name, "complete", "210", "0", "2/2", "extra:2.0.0,tuning:1.2.3"]


@scenario()
async def test_each_stage_leaves_one_event_on_the_node_and_one_series_on_the_cr(s: Scenario) -> None:
    """JOB-17, OBS-6, OBS-6a."""
    (node,) = await s.nodes(1)
    await s.apply({"tuning": TUNING})
    await s.until_status("complete")

    def ours(about: str) -> list[Thing]:
        return [e for e in s.events(about) if e.reporting_controller.startswith(KEY)]

    await s.until(lambda: len(ours(node)) >= 2 and len(ours(s.name)) >= 2, "the events are there")
    told = sorted((e.reason, e.action, e.type) for e in ours(node))
    assert told == [("Apply", "apply", "Normal"), ("State", "config", "Normal")]
    assert all("tuning" in e.note and node in e.note for e in ours(node))
    assert sorted(e.reason for e in ours(s.name)) == ["Apply", "State"]
    assert {e.metadata.namespace for e in (*ours(node), *ours(s.name))} == {"default"}


@scenario()
async def test_a_digest_and_resources_reach_the_pods(s: Scenario) -> None:
    """CON-22, CON-23, CON-24, CON-25."""
    (node,) = await s.nodes(1)
    sha = "sha256:" + "ab" * 32
    resources = {"cpuRequest": "100m", "cpuLimit": "1", "memoryRequest": "64Mi", "memoryLimit": "128Mi"}
    tuning = {**TUNING, "containerSHA": sha, "resources": resources, "gracefulShutdown": "90s", "stageTimeout": "5m"}
    tuning["agentImageOverride"] = "ghcr.io/example/agent:9.9.9"
    toleration = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
    await s.taint(node, {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"})
    s.rules("stage=config:hang")
    await s.apply({"tuning": tuning}, additionalTolerations=[toleration])
    await s.until(lambda: s.pods(node=node) and s.entry(node, "tuning|1.2.3") == ("config", "in_progress"), "it runs")
    await s.until(lambda: [p for p in s.pods() if p.label("stage") == "config"], "the config pod")
    name = next(p.name for p in s.pods() if p.label("stage") == "config")
    pod = msgspec.json.decode(await s.client.get(POD, name, namespace=NAMESPACE))["spec"]
    assert pod["initContainers"][0]["image"] == f"{IMAGE}@{sha}"
    assert pod["initContainers"][1]["image"] == "ghcr.io/example/agent:9.9.9"
    wanted = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}}
    assert [c["resources"] for c in pod["initContainers"]] == [wanted] * 3
    assert (pod["terminationGracePeriodSeconds"], pod["activeDeadlineSeconds"]) == (90, 300)
    tolerated = [(t.get("key"), t.get("effect")) for t in pod["tolerations"]]
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        assert (key, "NoExecute") in tolerated
    assert ("dedicated", "NoSchedule") in tolerated
