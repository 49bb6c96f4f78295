"""Strategies of kinds that need a few lines each: nodes, namespaces, secrets, events, budgets, CRDs.

Relies on `strategy`; the registry names them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from controller_runtime.testing.api_server import event_versions
from controller_runtime.testing.api_server.metadata import key_problems
from controller_runtime.testing.api_server.refusals import FieldProblem
from controller_runtime.testing.api_server.strategy import Moment, Strategy, flag, immutable, render, text
from controller_runtime.testing.api_server.values import Object

NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
"""Every new node gets it; the node lifecycle controller takes it away."""
_NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "",
)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LABEL = "field label not supported: {0}"


class _NodeStrategy(Strategy):
    """Nodes: no generation, and a kubelet may register one with a status."""

    unknown_field = _LABEL

    def default(self, item: Object) -> None:
        item["spec"] = item.get("spec") or {}
        item["status"] = _node_status(item.get("status") or {})

    def prepare_create(self, item: Object, moment: Moment) -> None:
        spec = item["spec"]
        taints = list(spec.get("taints") or [])
        if not any(
            taint.get("key") == NOT_READY_TAINT["key"] and taint.get("effect") == "NoSchedule" for taint in taints
        ):
            taints.append(dict(NOT_READY_TAINT))
        item["spec"] = {**spec, "taints": taints}

    def prepare_update(self, item: Object, old: Object, subresource: str) -> None:
        super().prepare_update(item, old, subresource)
        if subresource == "status":
            item["status"] = _node_status(item.get("status") or {})

    def validate_create(self, item: Object) -> Sequence[FieldProblem]:
        return _taint_problems(item)

    def validate_update(self, item: Object, old: Object, subresource: str) -> Sequence[FieldProblem]:
        return _taint_problems(item) * 2


def _node_status(given: Object) -> Object:
    """With what the encoder never leaves out."""
    status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {}, **given}
    status["nodeInfo"] = {**_NODE_INFO, **status["nodeInfo"]}
    if "conditions" in status:
        empty = {"lastHeartbeatTime": None, "lastTransitionTime": None}
        status["conditions"] = [{**empty, **entry} for entry in status["conditions"]]
    return status


def _taint_problems(item: Object) -> list[FieldProblem]:
    """Taints have a key and an effect, and are unique by both."""
    problems: list[FieldProblem] = []
    seen = set()
    for index, taint in enumerate(item.get("spec", {}).get("taints") or []):
        where = f"metadata.taints[{index}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        problems += key_problems(f"{where}.key", key)
        if effect not in _EFFECTS:
            known = ", ".join(render(word) for word in _EFFECTS)
            said = f"Unsupported value: {render(effect)}: supported values: {known}"
            problems.append(FieldProblem(f"{where}.effect", "FieldValueNotSupported", said))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            said = f"Duplicate value: {render(shown)}: taints must be unique by key and effect pair"
            problems.append(FieldProblem(where, "FieldValueDuplicate", said))
        seen.add((key, effect))
    return problems


class _NamespaceStrategy(Strategy):
    """Namespaces: phase and the `kubernetes` finalizer of the spec."""

    unknown_field = _LABEL

    def default(self, item: Object) -> None:
        super().default(item)
        name = item["metadata"].get("name", "")
        labels = {**(item["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
        item["metadata"] = {**item["metadata"], "labels": labels}

    def prepare_create(self, item: Object, moment: Moment) -> None:
        item["spec"] = {"finalizers": ["kubernetes"]}
        item["status"] = {"phase": "Active"}

    def prepare_update(self, item: Object, old: Object, subresource: str) -> None:
        super().prepare_update(item, old, subresource)
        if not subresource:
            item["spec"] = old["spec"]


class _SecretStrategy(Strategy):
    """Secrets: `stringData` is written into `data`."""

    unknown_field = _LABEL

    def default(self, item: Object) -> None:
        _encode_strings(item)
        item.setdefault("type", "Opaque")

    def prepare_update(self, item: Object, old: Object, subresource: str) -> None:
        _encode_strings(item)
        item.setdefault("type", old.get("type", "Opaque"))

    def validate_update(self, item: Object, old: Object, subresource: str) -> Sequence[FieldProblem]:
        return (immutable("type", item["type"]),) if item["type"] != old["type"] else ()


def _encode_strings(item: Object) -> None:
    strings = item.pop("stringData", None)
    if strings:
        encoded = {name: base64.b64encode(value.encode()).decode() for name, value in strings.items()}
        item["data"] = {**(item.get("data") or {}), **encoded}


class _EventStrategy(Strategy):
    """Events: selected by what they are about."""

    unknown_field = _LABEL

    def default(self, item: Object) -> None:
        for name, value in event_versions.ALWAYS.items():
            item.setdefault(name, value)

    def validate_create(self, item: Object) -> Sequence[FieldProblem]:
        problems = []
        about = (item.get("involvedObject") or {}).get("namespace") or ""
        home = item["metadata"].get("namespace") or ""
        if about != home and (about or home != "default"):
            said = f"Invalid value: {render(about)}: does not match event.namespace"
            problems.append(FieldProblem("involvedObject.namespace", "FieldValueInvalid", said))
        return problems


class _NewEventStrategy(_EventStrategy):
    """Events written as events.k8s.io/v1, which wants more."""

    def validate_create(self, item: Object) -> Sequence[FieldProblem]:
        problems = list(super().validate_create(item))
        if item.get("eventTime") is None:
            problems.append(FieldProblem("eventTime", "FieldValueRequired", "Required value"))
        if (kind := item.get("type") or "") not in ("Normal", "Warning"):
            said = f"Invalid value: {render(kind)}: has invalid value: {kind}"
            problems.append(FieldProblem("type", "FieldValueInvalid", said))
        return problems


class _BudgetStrategy(Strategy):
    """Disruption budgets; the controller fills the status."""

    def default(self, item: Object) -> None:
        super().default(item)
        item["spec"] = item.get("spec") or {}

    def prepare_create(self, item: Object, moment: Moment) -> None:
        item["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


class _DefinitionStrategy(Strategy):
    """CRDs: names, scope and group stay; the server itself fills the status."""

    status_keeps_metadata = True

    def default(self, item: Object) -> None:
        super().default(item)
        item["spec"] = _defaulted_definition(item.get("spec") or {})

    def prepare_create(self, item: Object, moment: Moment) -> None:
        stored = [version["name"] for version in item["spec"].get("versions") or () if version.get("storage")]
        item["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}

    def prepare_update(self, item: Object, old: Object, subresource: str) -> None:
        super().prepare_update(item, old, subresource)
        if not subresource:
            item["spec"] = _defaulted_definition(item.get("spec") or {})

    def validate_create(self, item: Object) -> Sequence[FieldProblem]:
        spec = item["spec"]
        expected = f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}"
        if item["metadata"].get("name") != expected:
            name = item["metadata"].get("name", "")
            said = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
            return (FieldProblem("metadata.name", "FieldValueInvalid", said),)
        if sum(1 for version in spec.get("versions") or () if version.get("storage")) != 1:
            said = "Invalid value: must have exactly one version marked as storage version"
            return (FieldProblem("spec.versions", "FieldValueInvalid", said),)
        return ()

    def validate_update(self, item: Object, old: Object, subresource: str) -> Sequence[FieldProblem]:
        problems = [
            immutable(f"spec.{name}", item["spec"].get(name))
            for name in ("group", "scope")
            if item["spec"].get(name) != old["spec"].get(name)
        ]
        problems += [
            immutable(f"spec.names.{name}", item["spec"]["names"].get(name))
            for name in ("plural", "kind")
            if item["spec"]["names"].get(name) != old["spec"]["names"].get(name)
        ]
        return problems


def _defaulted_definition(given: Object) -> Object:
    names = dict(given.get("names") or {})
    kind = str(names.get("kind", ""))
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    return {"conversion": {"strategy": "None"}, **given, "names": names}


NODE_STRATEGY = _NodeStrategy(status=True, selectable={"spec.unschedulable": flag("spec", "unschedulable")})
NAMESPACE_STRATEGY = _NamespaceStrategy(
    status=True,
    answers_deleted=True,
    selectable={"status.phase": text("status", "phase"), "name": text("metadata", "name")},
)
SECRET_STRATEGY = _SecretStrategy(selectable={"type": text("type")})
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = {
    **{f"involvedObject.{name}": text("involvedObject", name) for name in _ABOUT},
    **{f"regarding.{name}": text("involvedObject", name) for name in _ABOUT},
    "reason": text("reason"),
    "reportingComponent": text("reportingComponent"),
    "source": text("source", "component"),
    "type": text("type"),
}
EVENT_STRATEGY = _EventStrategy(creates_on_update=True, selectable=_EVENT_FIELDS)
NEW_EVENT_STRATEGY = _NewEventStrategy(creates_on_update=True, selectable=_EVENT_FIELDS)
PDB_STRATEGY = _BudgetStrategy(generation=True, status=True, unconditional=False)
CRD_STRATEGY = _DefinitionStrategy(generation=True, status=True, unconditional=False)
