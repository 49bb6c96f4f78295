"""Runs the cases of `objects_cases.py` and its neighbours on a server, whichever it is, by requests alone."""

import itertools
import json
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from tests.contract.objects_apply_cases import ApplyCase, Step
from tests.contract.objects_cases import ABSENT, JSON, KINDS, MERGE, STRATEGIC, WIDGETS, PatchCase
from tests.contract.objects_schema_cases import LABELLED, SchemaCase, SelectorCase
from tests.contract.objects_table_cases import ANY, MOMENT, TableCase

Ask = Callable[[str, str, Any, str, str], tuple[int, Any]]
"""Method, path with query, body, content type, accepted type; the status and the decoded answer."""

TYPES: Final = {kind: f"application/{kind}+json" for kind in (JSON, MERGE, STRATEGIC)}
APPLY: Final = "application/apply-patch+yaml"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_RUN: Final = secrets.token_hex(3)
_numbers = itertools.count()


def fresh_name() -> str:
    """A name nobody has used."""
    return f"case-{_RUN}-{next(_numbers)}"


def complete(kind: str, fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object with what all cases leave out; pods get a container."""
    version, title, _ = KINDS[kind]
    obj = {"apiVersion": version, "kind": title, **json.loads(json.dumps(fields))}
    obj["metadata"] = {"name": name, **obj.get("metadata", {})}
    if kind == "pod":
        obj.setdefault("spec", {}).setdefault("containers", [{"name": "one", "image": "i"}])
    return obj


def value_at(obj: Any, path: str) -> Any:
    """By dotted path: indexes count in lists, `*name` gathers that key of all elements; ABSENT for what is not there."""
    for name in path.split("."):
        if name.startswith("*") and isinstance(obj, list):
            return [item.get(name[1:]) for item in obj]
        if isinstance(obj, list) and name.isdigit() and int(name) < len(obj):
            obj = obj[int(name)]
        elif isinstance(obj, dict) and name in obj:
            obj = obj[name]
        else:
            return ABSENT
    return obj


def _same(found: Any, wanted: Any) -> None:
    assert found == wanted, f"{found!r}, expected {wanted!r}"


def check_values(obj: Any, expect: Mapping[str, Any]) -> None:
    """None is expected for absent or null, ABSENT for absent."""
    for path, wanted in expect.items():
        found = value_at(obj, path)
        if wanted is None and found is ABSENT:
            continue
        assert found == wanted, f"{path}: {found!r}, expected {wanted!r}"


def owned_by(obj: Mapping[str, Any], *, metadata: bool) -> dict[str, Any]:
    """FieldsV1 by operation, manager and subresource."""
    entries = {}
    for entry in obj["metadata"].get("managedFields", ()):
        who = f"{entry['operation']} {entry['manager']}"
        if entry.get("subresource"):
            who += f"/{entry['subresource']}"
        fields = entry["fieldsV1"]
        entries[who] = fields if metadata else {key: each for key, each in fields.items() if key != "f:metadata"}
    return {who: fields for who, fields in entries.items() if fields}


class Contract:
    """The cases against one server."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def _request(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", accept: str = "", **query: str
    ) -> tuple[int, Any]:
        return self._ask(method, f"{path}?{urlencode(query)}" if query else path, body, kind, accept)

    def _must(self, *arguments: Any, **query: str) -> Any:
        status, answer = self._request(*arguments, **query)
        assert status in (200, 201), answer
        return answer

    def install(self) -> None:
        """The custom kind and the objects that selectors choose from."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        if self._request("GET", f"{path}/{WIDGETS['metadata']['name']}")[0] == 404:
            self._must("POST", path, WIDGETS)
        for _ in range(300):
            if self._request("GET", KINDS["widget"][2])[0] == 200:
                break
            time.sleep(0.1)  # a new kind is served after a moment
        for name, labels in LABELLED.items():
            labelled = complete("configmap", {"metadata": {"labels": {**labels, "contract": "selectors"}}}, name)
            status, answer = self._request("POST", KINDS["configmap"][2], labelled)
            assert status in (201, 409), answer

    def patch(self, case: PatchCase) -> None:
        name, path = fresh_name(), KINDS[case.kind][2]
        obj = complete(case.kind, case.live, name)
        self._must("POST", path, obj)
        try:
            if "status" in obj and case.kind != "widget":
                self._must("PATCH", f"{path}/{name}/status", {"status": obj["status"]}, TYPES[MERGE])
            target = f"{path}/{name}/{case.subresource}".rstrip("/")
            status, answer = self._request("PATCH", target, case.patch, TYPES[case.type], dryRun="All")
        finally:
            self._remove(path, name)
        if case.refused:
            _same((status, answer.get("message")), case.refused)
        else:
            assert status == 200, answer
            check_values(answer, case.expect)

    def _remove(self, path: str, name: str) -> None:
        self._request("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}}, TYPES[MERGE])
        self._request("DELETE", f"{path}/{name}", None, gracePeriodSeconds="0")

    def apply(self, case: ApplyCase) -> None:
        name, path = fresh_name(), KINDS[case.kind][2]
        try:
            for step in case.steps:
                self._step(step, case.kind, path, name)
            status, obj = self._request("GET", f"{path}/{name}")
        finally:
            self._remove(path, name)
        if status == 200:
            check_values(obj, case.expect)
            if case.owned is not None:
                _same(owned_by(obj, metadata=case.metadata), case.owned)
                untimed = {each["manager"] for each in obj["metadata"].get("managedFields", ()) if "time" not in each}
                _same(untimed, set(case.untimed))

    def _step(self, step: Step, kind: str, path: str, name: str) -> None:
        target = f"{path}/{name}/{step.subresource}".rstrip("/")
        who = {"fieldManager": step.manager}
        if step.verb == "create":
            status, answer = self._request("POST", path, complete(kind, step.fields, name), **who)
        elif step.verb == "apply":
            if step.force:
                who["force"] = "true"
            status, answer = self._request("PATCH", target, complete(kind, step.fields, name), APPLY, **who)
        else:
            status, answer = self._request("PATCH", target, step.fields, TYPES[MERGE], **who)
        if step.invalid:
            assert status == 422, answer
        elif step.refused:
            wanted = step.refused[1].replace("NAME", name)
            _same((status, answer.get("message")), (step.refused[0], wanted))
        else:
            assert status in (200, 201), answer

    def schema(self, case: SchemaCase) -> None:
        path = KINDS["widget"][2]
        metadata = {"name": fresh_name(), **case.metadata}
        obj = complete("widget", {"spec": case.spec, "metadata": metadata}, "")
        status, answer = self._request("POST", path, obj, dryRun="All", fieldValidation="Ignore")
        if case.causes:
            assert status == 422, answer
            causes = {(each["field"], each["reason"], each["message"]) for each in answer["details"]["causes"]}
            _same(causes, case.causes)
            return
        assert status == 201, answer
        check_values(answer, case.expect)
        status, answer = self._request("POST", path, obj, dryRun="All", fieldValidation="Strict")
        if case.unknown:
            said = ", ".join(f'unknown field "{path}"' for path in case.unknown)
            _same((status, answer["message"].partition("strict decoding error: ")[2]), (400, said))
        else:
            assert status == 201, answer

    def select(self, case: SelectorCase) -> None:
        query = {"fieldSelector": case.text, "labelSelector": "contract=selectors"}
        if not case.field:
            query = (
                {"labelSelector": case.text}
                if case.refused
                else {"labelSelector": f"contract=selectors,{case.text}".rstrip(",")}
            )
        status, answer = self._request("GET", KINDS[case.kind][2], **query)
        if case.refused:
            assert status == 400, answer
            assert answer["message"].endswith(case.refused), answer["message"]
        else:
            names = "".join(sorted(item["metadata"]["name"][-1] for item in answer["items"]))
            _same(names, case.names)

    def table(self, case: TableCase) -> None:
        version, title, path = case.resource
        name = case.object["metadata"]["name"]
        obj = {"apiVersion": version, "kind": title, **case.object}
        self._must("POST", path, obj)
        try:
            if "status" in obj:
                self._must("PATCH", f"{path}/{name}/status", {"status": obj["status"]}, TYPES[MERGE])
            table = self._must("GET", f"{path}/{name}", None, "", TABLE)
        finally:
            self._request("DELETE", f"{path}/{name}", None, gracePeriodSeconds="0")
        columns = [(each["name"], each["type"], each["priority"]) for each in table["columnDefinitions"]]
        _same(columns, list(case.columns))
        check_cells(table["rows"][0]["cells"], case.cells)


def check_cells(cells: list[Any], wanted: tuple[Any, ...]) -> None:
    """Ellipsis is an age, which depends on the moment, and MOMENT is one."""
    assert len(cells) == len(wanted)
    for found, expected in zip(cells, wanted, strict=True):
        if expected is ...:
            assert found[:-1].isdigit(), cells
        elif expected is MOMENT:
            assert datetime.fromisoformat(found), cells
        elif expected is not ANY:
            assert found == expected, cells
