"""Pods for the tests of the pod machine, and a driver that lets time pass."""

import base64
import json
from typing import Any

import msgspec

from nodewright.simulator.kubelets.container_run import ContainerRun
from nodewright.simulator.kubelets.pod_run import PodRun
from nodewright.simulator.kubelets.pod_status import StatusReport
from nodewright.simulator.kubelets.pod_view import Pod
from nodewright.simulator.kubelets.timing import Timing
from nodewright.simulator.ledger import Event
from nodewright.simulator.rules import RuleSet, parse_rule

PREFIX = "nodewright.nvidia.com/"
REBOOT_ARGS = ["interrupt", "/root", "/dir", base64.b64encode(json.dumps({"type": "node_restart"}).encode()).decode()]


def package_pod(**spec: Any) -> Pod:
    """A stage pod of package drivers at apply, as the operator's Job makes it (CON-14 to CON-18)."""
    return pod(
        {
            "restartPolicy": "Never",
            "initContainers": [
                {"name": f"drivers-{name}", "image": f"{name}:1"} for name in ("init", "apply", "applycheck")
            ],
            "containers": [{"name": "done", "image": "init:1"}],
            **spec,
        },
        job="job-1",
    )


def interrupt_pod() -> Pod:
    """A rebooting interrupt's pod (CON-19)."""
    interrupt = {"name": "interrupt", "image": "agent:1", "args": REBOOT_ARGS}
    return pod(
        {
            "restartPolicy": "OnFailure",
            "initContainers": [interrupt],
            "containers": [{"name": "done", "image": "agent:1"}],
        },
        job="job-2",
    )


def workload_pod(**spec: Any) -> Pod:
    """A pod of a Deployment."""
    return pod({"restartPolicy": "Always", "containers": [{"name": "app", "image": "app:1"}], **spec})


def pod(spec: dict[str, Any], *, job: str = "") -> Pod:
    labels = {PREFIX + "stage": "apply", PREFIX + "name": "cr", "batch.kubernetes.io/job-name": job} if job else {}
    annotations = {PREFIX + "package": '{"name": "drivers", "version": "1.0"}', PREFIX + "run": "r1"} if job else {}
    metadata = {"name": "pod-1", "namespace": "ns", "uid": "uid-1", "labels": labels, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": "node-1", **spec}}, type=Pod)


class Driver:
    """Runs a pod by its own timer and applies each patch, as the API server would."""

    def __init__(
        self, pod: Pod, *rules: str, timing: Timing | None = None, earlier_attempts: int = 0, held: bool = False
    ) -> None:
        """`held`: a ConfigMap it mounts is missing."""
        self.now = 1000.0
        self.records: list[tuple[Event, str, int, str]] = []
        self.starts: list[tuple[str, float]] = []
        self.rules = RuleSet([parse_rule(rule) for rule in rules])
        self.run = PodRun(
            pod, decide=self.rules.decide, record=self._record, timing=timing, earlier_attempts=earlier_attempts
        )
        self.run.volumes_missing = held
        self.report = StatusReport(self.run, host_ip="10.0.0.1")
        self.status: dict[str, Any] = {}
        self.patches: list[dict[str, Any]] = []
        self.go(0)

    def _record(self, run: PodRun, event: Event, container: ContainerRun | None, outcome: str, at: float) -> None:
        if event is Event.START and container is not None:
            self.starts.append((container.spec.name, at))
        self.records.append(
            (event, container.spec.name if container else "", container.attempt if container else 0, outcome)
        )

    def go(self, seconds: float) -> None:
        """Let time pass, advancing and patching whenever the machine asks for it."""
        end = self.now + seconds
        self.touch()
        for _ in range(10_000):
            if self.run.wake_at > end:
                break
            self.now = max(self.now, self.run.wake_at)
            self.touch()
        else:
            raise AssertionError("the machine asks for time that does not pass")
        self.now = end

    def touch(self) -> None:
        self.run.advance(self.now)
        self.flush()

    def flush(self) -> None:
        body = self.report.patch(self.now)
        if body is None:
            return
        patch = msgspec.json.decode(body)
        self.patches.append(patch)
        conditions = {old["type"]: old for old in self.status.get("conditions", [])}
        for new in patch["status"].pop("conditions", []):
            merged = conditions.get(new["type"], {}) | new
            conditions[new["type"]] = {key: value for key, value in merged.items() if value is not None}
        self.status |= patch["status"]
        self.status["conditions"] = list(conditions.values())

    @property
    def phase(self) -> str:
        return str(self.status.get("phase", ""))

    def state(self, name: str) -> dict[str, Any]:
        """The state of a container, `{"waiting": ...}`, as last patched."""
        both = [*self.status.get("initContainerStatuses", []), *self.status.get("containerStatuses", [])]
        return dict(next(one["state"] for one in both if one["name"] == name))

    def condition(self, type_: str) -> tuple[str, str]:
        found = next((one for one in self.status["conditions"] if one["type"] == type_), {"status": "absent"})
        return found["status"], found.get("reason", "")
