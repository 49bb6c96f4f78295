"""Columns and cells of the built-in kinds, in the order and words of the real server. `tables.py` is the door."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from controller_runtime.testing.api_server.objects.ages import UNKNOWN, age, duration, parse_time
from controller_runtime.testing.api_server.objects.columns import AGE, NAME, Column, name_of
from controller_runtime.testing.api_server.objects.pod_rows import pod_cells
from controller_runtime.testing.api_server.objects.values import JsonObject, JsonValue

_ROLE: Final = "node-role.kubernetes.io/"
_NONE: Final = "<none>"


def _columns(*names: str, wide: Iterable[str] = (), **types: str) -> tuple[Column, ...]:
    """Columns by name, with `-` and blanks as `_` in `types` for those that are no strings; those in `wide` have priority 1."""
    hidden = set(wide)
    known = {"Name": NAME, "Age": AGE}
    return tuple(
        known.get(name)
        or Column(
            name=name,
            priority=int(name in hidden),
            type=types.get(name.replace(" ", "_").replace("-", "_"), "string"),
        )
        for name in names
    )


def _part(obj: JsonObject, *path: str) -> Any:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _created(obj: JsonObject, now: datetime) -> str:
    return age(parse_time(_part(obj, "metadata", "creationTimestamp")), now)


def _holds(obj: JsonObject, kind: str) -> bool:
    conditions = _part(obj, "status", "conditions") or ()
    return next((each.get("status") == "True" for each in conditions if each.get("type") == kind), False)


def _node(obj: JsonObject, now: datetime) -> list[JsonValue]:
    ready = [each for each in _part(obj, "status", "conditions") or () if each.get("type") == "Ready"]
    status = ("Ready" if ready[-1].get("status") == "True" else "NotReady") if ready else "Unknown"
    if _part(obj, "spec", "unschedulable"):
        status += ",SchedulingDisabled"
    labels = _part(obj, "metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} | {
        labels.get("kubernetes.io/role", "")
    }
    system = _part(obj, "status", "nodeInfo") or {}
    addresses = {each.get("type"): each.get("address") for each in reversed(_part(obj, "status", "addresses") or ())}
    kernel = system.get("kernelVersion") or UNKNOWN
    if system.get("architecture"):
        kernel += f" ({system['architecture']})"
    return [
        name_of(obj),
        status,
        ",".join(sorted(roles - {""})) or _NONE,
        _created(obj, now),
        system.get("kubeletVersion", ""),
        addresses.get("InternalIP", _NONE),
        addresses.get("ExternalIP", _NONE),
        system.get("osImage") or UNKNOWN,
        kernel,
        system.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _job(obj: JsonObject, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    done, wanted, parallelism = status.get("succeeded", 0), spec.get("completions"), spec.get("parallelism", 0)
    completions = f"{done}/{1 if wanted is None else wanted}"
    if wanted is None and parallelism > 1:
        completions += f" of {parallelism}"
    started, ended = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    took = duration(((ended or now) - started).total_seconds()) if started else ""
    containers = _part(spec, "template", "spec", "containers") or ()
    return [
        name_of(obj),
        _job_status(obj),
        completions,
        took,
        _created(obj, now),
        ",".join(each.get("name", "") for each in containers),
        ",".join(each.get("image", "") for each in containers),
        _selector(spec.get("selector")),
    ]


def _job_status(obj: JsonObject) -> str:
    if _holds(obj, "Complete"):
        return "Complete"
    if _holds(obj, "Failed"):
        return "Failed"
    if _part(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    going = (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    )
    return next((word for kind, word in going if _holds(obj, kind)), "Running")


def _selector(selector: JsonObject | None) -> str:
    """A label selector the way a query would say it."""
    if selector is None:
        return _NONE
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        key, values = each["key"], ",".join(sorted(each.get("values") or ()))
        match each["operator"]:
            case "Exists":
                terms.append(key)
            case "DoesNotExist":
                terms.append(f"!{key}")
            case word:
                terms.append(f"{key} {word.lower()} ({values})")
    return ",".join(sorted(terms)) or _NONE


def _event(obj: JsonObject, now: datetime) -> list[JsonValue]:
    about, source, series = (obj.get(name) or {} for name in ("involvedObject", "source", "series"))
    first = age(parse_time(obj.get("firstTimestamp")) or parse_time(obj.get("eventTime")), now)
    last_time = parse_time(obj.get("lastTimestamp"))
    last = age(last_time, now) if last_time else first
    count = obj.get("count") or 1
    if series:
        last, count = age(parse_time(series.get("lastObservedTime")), now), series.get("count", 0)
    target = about.get("kind", "").lower()
    if about.get("name"):
        target += f"/{about['name']}"
    component = source.get("component") or obj.get("reportingComponent", "")
    host = source.get("host") or obj.get("reportingInstance", "")
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (obj.get("message") or "").strip(),
        first,
        count,
        name_of(obj),
    ]


def _namespace(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), _part(obj, "status", "phase") or "", _created(obj, now)]


def _config_map(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), _created(obj, now)]


def _lease(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), _part(obj, "spec", "holderIdentity") or "", _created(obj, now)]


def _created_at(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), _part(obj, "metadata", "creationTimestamp") or ""]


def _secret(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), obj.get("type") or "", len(obj.get("data") or ()), _created(obj, now)]


def _budget(obj: JsonObject, now: datetime) -> list[JsonValue]:
    spec = obj.get("spec") or {}
    bounds = (str(spec.get(name, "N/A")) for name in ("minAvailable", "maxUnavailable"))
    return [name_of(obj), *bounds, _part(obj, "status", "disruptionsAllowed") or 0, _created(obj, now)]


def _priority_class(obj: JsonObject, now: datetime) -> list[JsonValue]:
    policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
    return [name_of(obj), obj.get("value", 0), bool(obj.get("globalDefault")), _created(obj, now), policy]


def _role_binding(obj: JsonObject, now: datetime) -> list[JsonValue]:
    role = obj.get("roleRef") or {}
    subjects = obj.get("subjects") or ()

    def named(kind: str) -> str:
        return ", ".join(each.get("name", "") for each in subjects if each.get("kind") == kind)

    accounts = ", ".join(
        f"{each.get('namespace', '')}/{each.get('name', '')}"
        for each in subjects
        if each.get("kind") == "ServiceAccount"
    )
    where = f"{role.get('kind', '')}/{role.get('name', '')}"
    return [name_of(obj), where, _created(obj, now), named("User"), named("Group"), accounts]


_RBAC: Final = "rbac.authorization.k8s.io"
_BINDING_WIDE: Final = ("Users", "Groups", "ServiceAccounts")
_CREATED_AT: Final = (_columns("Name", "Created At", Created_At="date"), _created_at)
_BINDING: Final = (_columns("Name", "Role", "Age", *_BINDING_WIDE, wide=_BINDING_WIDE), _role_binding)
_POD_WIDE: Final = ("IP", "Node", "Nominated Node", "Readiness Gates")
_NODE_WIDE: Final = ("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")
_JOB_WIDE: Final = ("Containers", "Images", "Selector")
_EVENT_NAME: Final = Column(name="Name", format="name", priority=1, description=NAME.description)

BUILT_IN: Final[dict[tuple[str, str], tuple[tuple[Column, ...], Callable[[JsonObject, datetime], list[JsonValue]]]]] = {
    ("", "ConfigMap"): (_columns("Name", "Data", "Age"), _config_map),
    ("", "Event"): (
        (
            *_columns("Last Seen", "Type", "Reason", "Object", "Subobject", "Source", wide=("Subobject", "Source")),
            *_columns("Message", "First Seen", "Count", wide=("First Seen", "Count")),
            _EVENT_NAME,
        ),
        _event,
    ),
    ("", "Namespace"): (_columns("Name", "Status", "Age"), _namespace),
    ("", "Node"): (_columns("Name", "Status", "Roles", "Age", "Version", *_NODE_WIDE, wide=_NODE_WIDE), _node),
    ("", "Pod"): (_columns("Name", "Ready", "Status", "Restarts", "Age", *_POD_WIDE, wide=_POD_WIDE), pod_cells),
    ("batch", "Job"): (
        _columns("Name", "Status", "Completions", "Duration", "Age", *_JOB_WIDE, wide=_JOB_WIDE),
        _job,
    ),
    ("coordination.k8s.io", "Lease"): (_columns("Name", "Holder", "Age"), _lease),
    ("", "LimitRange"): _CREATED_AT,
    ("", "Secret"): (_columns("Name", "Type", "Data", "Age"), _secret),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _CREATED_AT,
    (_RBAC, "ClusterRole"): _CREATED_AT,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
    (_RBAC, "Role"): _CREATED_AT,
    (_RBAC, "RoleBinding"): _BINDING,
    ("policy", "PodDisruptionBudget"): (
        _columns(
            "Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age", Allowed_Disruptions="integer"
        ),
        _budget,
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        _columns(
            "Name", "Value", "Global-Default", "Age", "PreemptionPolicy", Value="integer", Global_Default="boolean"
        ),
        _priority_class,
    ),
}
"""Columns and cells by group and kind."""
