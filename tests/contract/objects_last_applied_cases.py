"""Cases of server-side apply by `kubectl` to what was applied on the client's side before; see `objects_apply_cases.py`."""

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.contract.objects_apply_cases import ApplyCase, Step
from tests.contract.objects_cases import KINDS

_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OWNER: Final = 'conflict with "kubectl-client-side-apply" using contract.example.com/v1'


def _noted(spec: Mapping[str, Any]) -> dict[str, str]:
    version, title, _ = KINDS["widget"]
    return {_ANNOTATION: json.dumps({"apiVersion": version, "kind": title, "spec": spec})}


def _applied_by_client(spec: Mapping[str, Any], *, noted: Mapping[str, Any] | None = None) -> Step:
    fields = {"metadata": {"annotations": _noted(spec if noted is None else noted)}, "spec": spec}
    return Step(verb="create", manager="kubectl-client-side-apply", fields=fields)


def _apply(manager: str, spec: Mapping[str, Any], **rest: Any) -> Step:
    return Step(verb="apply", manager=manager, fields={"spec": spec}, **rest)


LAST_APPLIED: Final = (
    ApplyCase(
        name="what kubectl applied on the client's side is kubectl's",
        steps=(_applied_by_client({"replicas": 1, "mode": "a"}), _apply("kubectl", {"replicas": 2})),
        expect={"spec.replicas": 2, "spec.mode": "a"},
    ),
    ApplyCase(
        name="of others it is not",
        steps=(
            _applied_by_client({"replicas": 1}),
            _apply("two", {"replicas": 2}, refused=(409, f"Apply failed with 1 conflict: {_OWNER}: .spec.replicas")),
        ),
        expect={"spec.replicas": 1},
    ),
    ApplyCase(
        name="a field that changed since it was noted is not kubectl's any more",
        steps=(
            _applied_by_client({"replicas": 1, "mode": "a"}),
            Step(verb="merge", manager="two", fields={"spec": {"mode": "b"}}),
            _apply(
                "kubectl",
                {"replicas": 2, "mode": "c"},
                refused=(
                    409,
                    'Apply failed with 1 conflict: conflict with "two" using contract.example.com/v1: .spec.mode',
                ),
            ),
        ),
        expect={"spec.replicas": 1, "spec.mode": "b"},
    ),
    ApplyCase(
        name="a field that was never noted is not kubectl's",
        steps=(
            _applied_by_client({"replicas": 1, "mode": "a"}, noted={"mode": "a"}),
            _apply(
                "kubectl",
                {"replicas": 2, "mode": "c"},
                refused=(409, f"Apply failed with 1 conflict: {_OWNER}: .spec.replicas"),
            ),
        ),
        expect={"spec.replicas": 1, "spec.mode": "a"},
    ),
    ApplyCase(
        name="a note that is no JSON forgives nothing",
        steps=(
            Step(
                verb="create",
                manager="kubectl-client-side-apply",
                fields={"metadata": {"annotations": {_ANNOTATION: "{"}}, "spec": {"replicas": 1}},
            ),
            _apply(
                "kubectl", {"replicas": 2}, refused=(409, f"Apply failed with 1 conflict: {_OWNER}: .spec.replicas")
            ),
        ),
        expect={"spec.replicas": 1},
    ),
)
