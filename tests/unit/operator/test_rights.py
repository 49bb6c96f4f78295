"""The rights of `deploy/cluster` are those the operator's writes and watches need, and no others (B82)."""

from pathlib import Path
from typing import Any

import yaml

CLUSTER = Path(__file__).resolve().parents[3] / "deploy" / "cluster"
READ = {"get", "list", "watch"}


def rights(file: str) -> dict[str, set[str]]:
    role: dict[str, Any] = next(iter(yaml.safe_load_all((CLUSTER / file).read_text(encoding="utf-8"))))
    granted: dict[str, set[str]] = {}
    for rule in role["rules"]:
        for resource in rule["resources"]:
            granted.setdefault(resource, set()).update(rule["verbs"])
    return granted


def test_the_operator_may_do_to_the_cluster_what_it_does_and_nothing_else() -> None:
    assert rights("cluster-role.yaml") == {
        "nodewrights": READ | {"patch"},  # live reads after a conflict, the finalizer
        "nodewrights/status": {"patch"},
        "deploymentpolicies": {"list", "watch"},
        "nodes": READ | {"patch"},
        "nodes/status": {"patch"},
        "events": {"create", "patch"},
        "tokenreviews": {"create"},
        "subjectaccessreviews": {"create"},
    }


def test_the_operator_may_do_in_its_namespace_what_it_does_and_nothing_else() -> None:
    assert rights("role.yaml") == {
        "jobs": READ | {"create", "patch", "delete"},
        "pods": READ | {"delete"},
        "configmaps": READ | {"create", "patch", "delete"},
        "leases": {"create", "get", "update"},
    }
