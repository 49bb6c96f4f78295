"""The benchmark's cases: how many nodes, how many packages in a chain, and whether the controller-manager keeps its default limit.

A case is asked for by name: a number of nodes (`100`), `chained` or `default-kcm`. Relied on by the rest of the benchmark.
"""

import os
from dataclasses import dataclass
from typing import Any

KCM_QPS = 2000.0
KCM_BURST = 4000
JOB_SYNCS = 64
"""Limits of the controller-manager that do not hide what is measured."""
STEP_SECONDS = 0.2
"""How long a simulated container runs."""
HEARTBEAT_SECONDS = float(os.environ.get("NODEWRIGHT_BENCH_HEARTBEAT", "300"))
"""How often each kubelet posts its whole status, nodes spread over the time: a kubelet does so every 5 minutes while nothing changes."""
PACKAGES = ("alpha", "beta", "gamma")
"""Names of the packages, in the order of the chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One rollout and its floor. `packages` depend on each other in a chain."""

    name: str
    nodes: int
    packages: int = 1
    default_kcm: bool = False

    @property
    def jobs(self) -> int:
        """Each package has two stages, apply and config."""
        return self.nodes * self.packages * 2

    @property
    def deadline_seconds(self) -> float:
        """When a run counts as failed: ten times what it should need."""
        return 120.0 + (2.0 if self.default_kcm else 0.5) * self.jobs

    def kcm_limits(self) -> dict[str, Any]:
        """Arguments of `ControlPlane`."""
        if self.default_kcm:
            return {}
        return {"kcm_qps": KCM_QPS, "kcm_burst": KCM_BURST, "concurrent_job_syncs": JOB_SYNCS}

    def manifest(self) -> dict[str, Any]:
        """The NodeWright that is applied: every node, no budget."""
        packages: dict[str, Any] = {}
        for before, name in zip([None, *PACKAGES], PACKAGES[: self.packages], strict=False):
            depends = {"dependsOn": {before: "1.0.0"}} if before is not None else {}
            packages[name] = {"version": "1.0.0", "image": f"registry.example/{name}", **depends}
        return {
            "apiVersion": "nodewright.nvidia.com/v1alpha1",
            "kind": "NodeWright",
            "metadata": {"name": "bench"},
            "spec": {"nodeSelectors": {"matchLabels": {}}, "packages": packages},
        }


def parse_cases(text: str) -> list[Case]:
    """Cases by name, separated by commas. Raises ValueError for one that does not exist."""
    return [_case(name.strip()) for name in text.split(",")]


def _case(name: str) -> Case:
    match name:
        case "chained":
            return Case(name=name, nodes=500, packages=3)
        case "default-kcm":
            return Case(name=name, nodes=100, default_kcm=True)
    if not name.isdigit() or not int(name):
        raise ValueError(f"{name!r} is no case: give a number of nodes, `chained` or `default-kcm`")
    return Case(name=name, nodes=int(name))
