"""Cases of the tables of `kubectl get`; see `objects_cases.py`. Ages are `...`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.contract.objects_cases import KINDS

ANY: Final = object()
"""A cell that a controller may change."""
MOMENT: Final = object()
"""A cell with a time."""
JOB: Final = ("batch/v1", "Job", "/apis/batch/v1/namespaces/default/jobs")
LEASE: Final = ("coordination.k8s.io/v1", "Lease", "/apis/coordination.k8s.io/v1/namespaces/default/leases")
EVENT: Final = ("v1", "Event", "/api/v1/namespaces/default/events")


@dataclass(frozen=True, kw_only=True)
class TableCase:
    """One object, with its name, and its row."""

    name: str
    resource: tuple[str, str, str]
    """apiVersion, kind and the collection's path."""
    object: Mapping[str, Any]
    columns: tuple[tuple[str, str, int], ...]
    """Name, type, priority."""
    cells: tuple[Any, ...]


def _columns(shown: str, wide: str = "") -> tuple[tuple[str, str, int], ...]:
    return tuple((name, "string", 0) for name in shown.split("|")) + tuple(
        (name, "string", 1) for name in wide.split("|") if name
    )


_NODE: Final = _columns(
    "Name|Status|Roles|Age|Version", "Internal-IP|External-IP|OS-Image|Kernel-Version|Container-Runtime"
)
_POD: Final = _columns("Name|Ready|Status|Restarts|Age", "IP|Node|Nominated Node|Readiness Gates")
_JOB: Final = _columns("Name|Status|Completions|Duration|Age", "Containers|Images|Selector")
_CONTAINER: Final = {"name": "one", "image": "i1"}


def _pod(name: str, status: Mapping[str, Any], *cells: Any, **spec: Any) -> TableCase:
    fields = {"containers": [_CONTAINER, {"name": "two", "image": "i2"}], **spec}
    wide = ("<none>", "<none>", "<none>", "<none>")
    return TableCase(
        name=name,
        resource=KINDS["pod"],
        object={"metadata": {"name": f"table-{name.replace(' ', '-')}"}, "spec": fields, "status": status},
        columns=_POD,
        cells=(f"table-{name.replace(' ', '-')}", *cells, ..., *wide),
    )


def _container(name: str, *, ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {
        "name": name,
        "image": "i",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }


_RUNNING: Final = {"startedAt": "2026-01-01T00:00:00Z"}
TABLES: Final = (
    TableCase(
        name="a node",
        resource=KINDS["node"],
        object={
            "metadata": {
                "name": "table-node",
                "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "x"},
            },
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {
                    "kubeletVersion": "v1.36.0",
                    "osImage": "OS",
                    "kernelVersion": "6.1",
                    "containerRuntimeVersion": "containerd://2",
                    "architecture": "amd64",
                    "bootID": "",
                    "kubeProxyVersion": "",
                    "machineID": "",
                    "operatingSystem": "linux",
                    "systemUUID": "",
                },
            },
        },
        columns=_NODE,
        cells=(
            "table-node",
            "Ready,SchedulingDisabled",
            "worker,x",
            ...,
            "v1.36.0",
            "10.0.0.1",
            "<none>",
            "OS",
            "6.1 (amd64)",
            "containerd://2",
        ),
    ),
    TableCase(
        name="a bare node",
        resource=KINDS["node"],
        object={"metadata": {"name": "table-bare-node"}},
        columns=_NODE,
        cells=(
            "table-bare-node",
            "Unknown",
            "<none>",
            ...,
            "",
            "<none>",
            "<none>",
            "<unknown>",
            "<unknown>",
            "<unknown>",
        ),
    ),
    _pod("pending", {"phase": "Pending"}, "0/2", "Pending", "0"),
    _pod(
        "running",
        {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                _container("one", ready=True, running=_RUNNING),
                _container("two", ready=True, restarts=2, running=_RUNNING),
            ],
        },
        "2/2",
        "Running",
        "2",
    ),
    _pod(
        "crashing",
        {
            "phase": "Running",
            "containerStatuses": [
                _container("one", ready=True, running=_RUNNING),
                _container("two", restarts=3, waiting={"reason": "CrashLoopBackOff"}),
            ],
        },
        "1/2",
        "CrashLoopBackOff",
        "3",
    ),
    _pod(
        "failed",
        {
            "phase": "Failed",
            "containerStatuses": [
                _container("one", terminated={"exitCode": 0, "reason": "Completed"}),
                _container("two", terminated={"exitCode": 1, "reason": "Error"}),
            ],
        },
        "0/2",
        "Error",
        "0",
    ),
    _pod(
        "half done",
        {
            "phase": "Running",
            "containerStatuses": [
                _container("one", terminated={"exitCode": 0, "reason": "Completed"}),
                _container("two", ready=True, running=_RUNNING),
            ],
        },
        "1/2",
        "NotReady",
        "0",
    ),
    _pod(
        "initialising",
        {
            "phase": "Pending",
            "initContainerStatuses": [
                _container("i1", ready=True, terminated={"exitCode": 0}),
                _container("i2", restarts=1, running=_RUNNING),
            ],
            "containerStatuses": [_container("one", waiting={"reason": "PodInitializing"})],
        },
        "0/2",
        "Init:1/2",
        "1",
        initContainers=[{"name": "i1", "image": "i"}, {"name": "i2", "image": "i"}],
    ),
    _pod(
        "init failed",
        {
            "phase": "Pending",
            "initContainerStatuses": [_container("i1", restarts=4, terminated={"exitCode": 3})],
        },
        "0/2",
        "Init:ExitCode:3",
        "4",
        initContainers=[{"name": "i1", "image": "i"}],
    ),
    TableCase(
        name="a job",
        resource=JOB,
        object={
            "metadata": {"name": "table-job"},
            "spec": {
                "suspend": True,
                "completions": 3,
                "manualSelector": True,
                "selector": {"matchLabels": {"a": "1"}},
                "template": {
                    "metadata": {"labels": {"a": "1"}},
                    "spec": {"restartPolicy": "Never", "containers": [_CONTAINER, {"name": "two", "image": "i2"}]},
                },
            },
        },
        columns=_JOB,
        cells=("table-job", ANY, "0/3", "", ..., "one,two", "i1,i2", "a=1"),
    ),
    TableCase(
        name="a config map",
        resource=KINDS["configmap"],
        object={"metadata": {"name": "table-map"}, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}},
        columns=_columns("Name|Data|Age"),
        cells=("table-map", 3, ...),
    ),
    TableCase(
        name="a namespace",
        resource=("v1", "Namespace", "/api/v1/namespaces"),
        object={"metadata": {"name": "table-namespace"}},
        columns=_columns("Name|Status|Age"),
        cells=("table-namespace", "Active", ...),
    ),
    TableCase(
        name="a lease",
        resource=LEASE,
        object={"metadata": {"name": "table-lease"}, "spec": {"holderIdentity": "me"}},
        columns=_columns("Name|Holder|Age"),
        cells=("table-lease", "me", ...),
    ),
    TableCase(
        name="an event",
        resource=EVENT,
        object={
            "metadata": {"name": "table-event", "namespace": "default"},
            "involvedObject": {"kind": "ConfigMap", "name": "x", "namespace": "default", "fieldPath": "data.a"},
            "type": "Normal",
            "reason": "Done",
            "message": " said \n",
            "source": {"component": "c", "host": "h"},
            "count": 4,
        },
        columns=(
            *_columns("Last Seen|Type|Reason|Object", "Subobject|Source"),
            *_columns("Message", "First Seen|Count|Name"),
        ),
        cells=("<unknown>", "Normal", "Done", "configmap/x", "data.a", "c, h", "said", "<unknown>", 4, "table-event"),
    ),
    TableCase(
        name="a custom resource",
        resource=KINDS["widget"],
        object={
            "metadata": {"name": "table-widget", "annotations": {"example.com/a": "yes"}},
            "spec": {"mode": "a", "replicas": 2, "parts": [{"id": "x"}, {"id": "big", "size": 9}], "words": ["a", "b"]},
        },
        columns=(
            ("Name", "string", 0),
            ("Mode", "string", 0),
            ("Replicas", "integer", 0),
            ("First", "string", 0),
            ("Big", "integer", 1),
            ("Words", "string", 0),
            ("Dotted", "string", 0),
            ("Not a number", "integer", 0),
            ("Age", "date", 0),
        ),
        cells=("table-widget", "a", 2, "x", 9, '["a","b"]', "yes", None, ...),
    ),
    TableCase(
        name="a custom resource without values",
        resource=KINDS["widget"],
        object={"metadata": {"name": "table-empty-widget"}},
        columns=(
            ("Name", "string", 0),
            ("Mode", "string", 0),
            ("Replicas", "integer", 0),
            ("First", "string", 0),
            ("Big", "integer", 1),
            ("Words", "string", 0),
            ("Dotted", "string", 0),
            ("Not a number", "integer", 0),
            ("Age", "date", 0),
        ),
        cells=("table-empty-widget", None, None, None, None, None, None, None, ...),
    ),
)
