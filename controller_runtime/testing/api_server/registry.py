"""Which resources exist: Kubernetes' own as a table, those of CRDs added at run time.

Relies on the strategies. `routes` finds resources here, `discovery` and `openapi` list them. Two versions of one
resource share a shelf of the store (`shelf`) and differ in how an object is shown and read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from controller_runtime.testing.api_server import event_versions
from controller_runtime.testing.api_server.jobs import JobStrategy
from controller_runtime.testing.api_server.plain_kinds import (
    CRD_STRATEGY,
    EVENT_STRATEGY,
    NAMESPACE_STRATEGY,
    NEW_EVENT_STRATEGY,
    NODE_STRATEGY,
    PDB_STRATEGY,
    SECRET_STRATEGY,
)
from controller_runtime.testing.api_server.pods import PodStrategy
from controller_runtime.testing.api_server.strategy import Strategy
from controller_runtime.testing.api_server.values import Object
from controller_runtime.transport import Resource

if TYPE_CHECKING:
    from controller_runtime.testing.api_server.custom_strategy import CustomVersion

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
Conversion = Callable[[Object], Object]


def _same(item: Object) -> Object:
    return item


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """One resource in one version."""

    resource: Resource
    strategy: Strategy
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    storage: tuple[str, str] = ("", "")
    to_stored: Conversion = _same
    """From this version's fields to the stored ones; both without `apiVersion` and `kind`."""
    to_served: Conversion = _same
    custom: CustomVersion | None = field(default=None, compare=False)
    """Of a CRD's resource: schema and columns."""

    @property
    def shelf(self) -> tuple[str, str]:
        """Where the store keeps the objects."""
        return self.storage if self.storage[1] else (self.resource.group, self.resource.plural)

    @property
    def group(self) -> str:
        """The API group."""
        return self.resource.group

    @property
    def plural(self) -> str:
        """The name in paths."""
        return self.resource.plural

    @property
    def kind(self) -> str:
        """The kind."""
        return self.resource.kind

    @property
    def list_kind(self) -> str:
        """The kind of lists."""
        return self.custom.list_kind if self.custom else f"{self.resource.kind}List"


TypeKey = tuple[str, str, str]


class Registry:
    """All resources that are served, by group, version and plural."""

    def __init__(self) -> None:
        self._types: dict[TypeKey, ResourceType] = {}
        self.revision = 0
        """Rises with each change, for what is computed from the whole."""
        for kind in builtin_types():
            self.add(kind)

    def add(self, kind: ResourceType) -> None:
        """Serve a resource, or serve it anew."""
        self._types[kind.group, kind.resource.version, kind.plural] = kind
        self.revision += 1

    def remove(self, group: str, plural: str) -> None:
        """Serve a resource no longer, in no version."""
        for key in [key for key in self._types if (key[0], key[2]) == (group, plural)]:
            del self._types[key]
        self.revision += 1

    def remove_version(self, group: str, version: str, plural: str) -> None:
        """Serve a resource no longer in this version."""
        self._types.pop((group, version, plural), None)
        self.revision += 1

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The resource, if it is served."""
        return self._types.get((group, version, plural))

    def of_shelf(self, shelf: tuple[str, str]) -> ResourceType | None:
        """Some version of what is stored there."""
        return next((kind for kind in self._types.values() if kind.shelf == shelf), None)

    def has_group_version(self, group: str, version: str) -> bool:
        """Whether anything is served there."""
        return any(key[:2] == (group, version) for key in self._types)

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(list(self._types.values()))


def builtin_types() -> Iterator[ResourceType]:
    """Kubernetes' own resources."""
    plain = Strategy()
    versioned = Strategy(generation=True)
    workload = Strategy(generation=True, status=True)
    status = ("status",)
    yield _core("nodes", "Node", NODE_STRATEGY, "no", namespaced=False, subresources=status)
    yield _core(
        "namespaces", "Namespace", NAMESPACE_STRATEGY, "ns", namespaced=False, subresources=(*status, "finalize")
    )
    yield _core("pods", "Pod", PodStrategy(), "po", subresources=(*status, "binding", "eviction"), categories=("all",))
    yield _core("configmaps", "ConfigMap", plain, "cm")
    yield _core("secrets", "Secret", SECRET_STRATEGY)
    yield _core("serviceaccounts", "ServiceAccount", Strategy(answers_deleted=True), "sa", subresources=("token",))
    yield _core("services", "Service", Strategy(status=True, answers_deleted=True), "svc", subresources=status)
    yield _core("resourcequotas", "ResourceQuota", Strategy(status=True), "quota", subresources=status)
    yield _core("limitranges", "LimitRange", plain, "limits")
    events = _core("events", "Event", EVENT_STRATEGY, "ev")
    yield events
    yield replace(
        events,
        resource=Resource("events.k8s.io", "v1", "events", "Event", namespaced=True),
        strategy=NEW_EVENT_STRATEGY,
        storage=("", "events"),
        to_stored=event_versions.to_core,
        to_served=event_versions.to_new,
    )
    lease = Strategy(unconditional=False, creates_on_update=True)
    yield _named("coordination.k8s.io", "leases", "Lease", lease)
    batch = Strategy(generation=True, status=True)
    yield _named("batch", "jobs", "Job", JobStrategy(), subresources=status, categories=("all",))
    yield _named("batch", "cronjobs", "CronJob", batch, "cj", subresources=status, categories=("all",))
    yield _named("policy", "poddisruptionbudgets", "PodDisruptionBudget", PDB_STRATEGY, "pdb", subresources=status)
    for plural, kind, short in (
        ("deployments", "Deployment", "deploy"),
        ("replicasets", "ReplicaSet", "rs"),
        ("daemonsets", "DaemonSet", "ds"),
        ("statefulsets", "StatefulSet", "sts"),
    ):
        yield _named("apps", plural, kind, workload, short, subresources=status, categories=("all",))
    yield _named(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        CRD_STRATEGY,
        "crd",
        "crds",
        namespaced=False,
        subresources=status,
        categories=("api-extensions",),
    )
    rbac = "rbac.authorization.k8s.io"
    yield _named(rbac, "roles", "Role", plain)
    yield _named(rbac, "rolebindings", "RoleBinding", plain)
    yield _named(rbac, "clusterroles", "ClusterRole", plain, namespaced=False)
    yield _named(rbac, "clusterrolebindings", "ClusterRoleBinding", plain, namespaced=False)
    admission = "admissionregistration.k8s.io"
    for plural, kind in (
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    ):
        yield _named(admission, plural, kind, versioned, namespaced=False, categories=("api-extensions",))
    yield _named("scheduling.k8s.io", "priorityclasses", "PriorityClass", versioned, "pc", namespaced=False)
    create = ("create",)
    for review in ("SelfSubjectReview", "TokenReview"):
        yield _named("authentication.k8s.io", f"{review.lower()}s", review, plain, namespaced=False, verbs=create)
    authorization = "authorization.k8s.io"
    yield _named(authorization, "localsubjectaccessreviews", "LocalSubjectAccessReview", plain, verbs=create)
    for review in ("SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"):
        yield _named(authorization, f"{review.lower()}s", review, plain, namespaced=False, verbs=create)


def _core(
    plural: str,
    kind: str,
    strategy: Strategy,
    *short_names: str,
    namespaced: bool = True,
    subresources: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
) -> ResourceType:
    return _named(
        "",
        plural,
        kind,
        strategy,
        *short_names,
        namespaced=namespaced,
        subresources=subresources,
        categories=categories,
    )


def _named(
    group: str,
    plural: str,
    kind: str,
    strategy: Strategy,
    *short_names: str,
    namespaced: bool = True,
    subresources: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
) -> ResourceType:
    return ResourceType(
        resource=Resource(group, "v1", plural, kind, namespaced=namespaced),
        strategy=strategy,
        singular=kind.lower(),
        short_names=short_names,
        categories=categories,
        verbs=verbs,
        subresources=subresources,
    )
