"""Cases of the tables of kinds that only people look at; see `objects_table_cases.py`."""

from typing import Any, Final

from tests.contract.objects_table_cases import MOMENT, TableCase

_RBAC: Final = "rbac.authorization.k8s.io/v1"


def _resource(version: str, kind: str, plural: str, *, namespaced: bool = True) -> tuple[str, str, str]:
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return version, kind, f"{root}/namespaces/default/{plural}" if namespaced else f"{root}/{plural}"


def _columns(*columns: str) -> tuple[tuple[str, str, int], ...]:
    """`Name`, `Name:type` or `Name+` for a wide one."""
    found = []
    for column in columns:
        name, _, kind = column.partition(":")
        found.append((name.rstrip("+"), kind or "string", int(name.endswith("+"))))
    return tuple(found)


def _case(
    name: str, resource: tuple[str, str, str], fields: dict[str, Any], columns: tuple[Any, ...], *cells: Any
) -> TableCase:
    title = f"plain-table-{name.replace(' ', '-')}" if resource[1] != "CustomResourceDefinition" else name
    named = {"metadata": {"name": title}, **fields}
    return TableCase(name=name, resource=resource, object=named, columns=columns, cells=(title, *cells))


_BUDGET: Final = _columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age")
_BINDING: Final = _columns("Name", "Role", "Age", "Users+", "Groups+", "ServiceAccounts+")
_CLASS: Final = _columns("Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy")
_SUBJECTS: Final = [
    {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"},
    {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"},
    {"kind": "Group", "name": "all", "apiGroup": "rbac.authorization.k8s.io"},
    {"kind": "ServiceAccount", "name": "default", "namespace": "kube-system"},
]
_SELECTOR: Final = {"matchLabels": {"plain": "table"}}

PLAIN_TABLES: Final = (
    _case(
        "a secret",
        _resource("v1", "Secret", "secrets"),
        {"stringData": {"a": "b", "c": "d"}},
        _columns("Name", "Type", "Data", "Age"),
        "Opaque",
        2,
        ...,
    ),
    _case(
        "a budget of a number",
        _resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
        {"spec": {"minAvailable": 1, "selector": _SELECTOR}},
        _BUDGET,
        "1",
        "N/A",
        0,
        ...,
    ),
    _case(
        "a budget of a share",
        _resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
        {"spec": {"maxUnavailable": "25%", "selector": _SELECTOR}},
        _BUDGET,
        "N/A",
        "25%",
        0,
        ...,
    ),
    _case(
        "gadgets.contract.example.com",
        _resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False),
        {
            "spec": {
                "group": "contract.example.com",
                "scope": "Cluster",
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object"}},
                    }
                ],
            }
        },
        _columns("Name", "Created At:date"),
        MOMENT,
    ),
    _case("a role", _resource(_RBAC, "Role", "roles"), {"rules": []}, _columns("Name", "Created At:date"), MOMENT),
    _case(
        "a cluster role",
        _resource(_RBAC, "ClusterRole", "clusterroles", namespaced=False),
        {"rules": []},
        _columns("Name", "Created At:date"),
        MOMENT,
    ),
    _case(
        "a role binding",
        _resource(_RBAC, "RoleBinding", "rolebindings"),
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}, "subjects": _SUBJECTS},
        _BINDING,
        "Role/x",
        ...,
        "ann, bob",
        "all",
        "kube-system/default",
    ),
    _case(
        "a priority class",
        _resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False),
        {"value": 7},
        _CLASS,
        7,
        False,
        ...,
        "PreemptLowerPriority",
    ),
    _case(
        "a limit range",
        _resource("v1", "LimitRange", "limitranges"),
        {"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}},
        _columns("Name", "Created At:date"),
        MOMENT,
    ),
)
