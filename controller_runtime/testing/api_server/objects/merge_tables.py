"""How the built-in kinds merge, written down from their published API types; `schema_of` is the door.

Only what differs from the rule is named (`merge_schema.py`), so a kind that is not here merges maps by key and replaces lists.
The registry of the embedded API server relies on it.
"""

from dataclasses import replace
from typing import Final

from controller_runtime.testing.api_server.objects.merge_schema import (
    ATOMIC_MAP,
    METADATA,
    ListType,
    MapType,
    MergeSchema,
)

_MERGE: Final = ("merge",)
_FREE_KEYS: Final = MergeSchema(values=MergeSchema())


def _by(key: str, items: MergeSchema | None = None, *, strategies: tuple[str, ...] = _MERGE) -> MergeSchema:
    """A list that both applies and strategic patches merge by this key."""
    return MergeSchema(
        list_type=ListType.MAP,
        list_keys=(key,),
        patch_strategies=strategies,
        patch_merge_key=key,
        items=items,
    )


def _ports(key: str) -> MergeSchema:
    """Ports are told apart by number and protocol in an apply, by number alone in a strategic patch."""
    return replace(_by(key), list_keys=(key, "protocol"), key_defaults={"protocol": "TCP"})


def _kind(*, always: tuple[str, ...] = (), **parts: MergeSchema) -> MergeSchema:
    return MergeSchema(fields={"metadata": METADATA, **parts}, always=frozenset({"metadata", *always}))


def _fields(*, always: tuple[str, ...] = (), **parts: MergeSchema) -> MergeSchema:
    return MergeSchema(fields=parts, always=frozenset(always))


_RESOURCES: Final = _fields(
    limits=_FREE_KEYS, requests=_FREE_KEYS, claims=MergeSchema(list_type=ListType.MAP, list_keys=("name",))
)
_KEY_SELECTOR: Final = _fields(
    configMapKeyRef=ATOMIC_MAP, fieldRef=ATOMIC_MAP, resourceFieldRef=ATOMIC_MAP, secretKeyRef=ATOMIC_MAP
)
_CONTAINER: Final = _fields(
    always=("resources",),
    env=_by("name", _fields(valueFrom=_KEY_SELECTOR)),
    ports=_ports("containerPort"),
    resources=_RESOURCES,
    volumeDevices=_by("devicePath"),
    volumeMounts=_by("mountPath"),
)
_NODE_AFFINITY: Final = _fields(requiredDuringSchedulingIgnoredDuringExecution=ATOMIC_MAP)
_POD_SPEC: Final = _fields(
    affinity=_fields(nodeAffinity=_NODE_AFFINITY),
    containers=_by("name", _CONTAINER),
    ephemeralContainers=_by("name", _CONTAINER),
    hostAliases=_by("ip"),
    imagePullSecrets=_by("name", ATOMIC_MAP),
    initContainers=_by("name", _CONTAINER),
    nodeSelector=replace(_FREE_KEYS, map_type=MapType.ATOMIC),
    overhead=_FREE_KEYS,
    resourceClaims=_by("name", strategies=("merge", "retainKeys")),
    resources=_RESOURCES,
    schedulingGates=_by("name"),
    topologySpreadConstraints=replace(
        _by("topologyKey", _fields(labelSelector=ATOMIC_MAP)), list_keys=("topologyKey", "whenUnsatisfiable")
    ),
    volumes=_by("name", strategies=("merge", "retainKeys")),
)
_POD_STATUS: Final = _fields(
    conditions=_by("type"),
    hostIPs=MergeSchema(patch_strategies=_MERGE, patch_merge_key="ip"),
    podIPs=_by("ip"),
    resourceClaimStatuses=_by("name", strategies=("merge", "retainKeys")),
)
_POD_TEMPLATE: Final = _fields(always=("metadata", "spec"), metadata=METADATA, spec=_POD_SPEC)

_CONDITIONS_BY_TYPE: Final = _fields(conditions=_by("type"))

_KINDS: Final = {
    ("", "ConfigMap"): _kind(binaryData=_FREE_KEYS, data=_FREE_KEYS),
    ("", "Event"): _kind(always=("involvedObject", "source"), involvedObject=ATOMIC_MAP, related=ATOMIC_MAP),
    ("", "Namespace"): _kind(always=("spec", "status"), status=_CONDITIONS_BY_TYPE),
    ("", "Node"): _kind(
        always=("spec", "status"),
        spec=_fields(
            podCIDRs=MergeSchema(list_type=ListType.SET, patch_strategies=_MERGE),
            taints=MergeSchema(),
        ),
        status=_fields(
            always=("daemonEndpoints", "nodeInfo"),
            addresses=_by("type"),
            allocatable=_FREE_KEYS,
            capacity=_FREE_KEYS,
            conditions=_by("type"),
        ),
    ),
    ("", "Pod"): _kind(always=("spec", "status"), spec=_POD_SPEC, status=_POD_STATUS),
    ("", "Secret"): _kind(data=_FREE_KEYS, stringData=_FREE_KEYS),
    ("", "Service"): _kind(
        always=("spec", "status"),
        spec=_fields(ports=_ports("port"), selector=replace(_FREE_KEYS, map_type=MapType.ATOMIC)),
        status=_CONDITIONS_BY_TYPE,
    ),
    ("", "ServiceAccount"): _kind(secrets=_by("name", ATOMIC_MAP)),
    ("apps", "DaemonSet"): _kind(
        always=("spec", "status"),
        spec=_fields(always=("template", "updateStrategy"), selector=ATOMIC_MAP, template=_POD_TEMPLATE),
        status=_CONDITIONS_BY_TYPE,
    ),
    ("apps", "Deployment"): _kind(
        always=("spec", "status"),
        spec=_fields(
            always=("template", "strategy"),
            selector=ATOMIC_MAP,
            strategy=MergeSchema(patch_strategies=("retainKeys",)),
            template=_POD_TEMPLATE,
        ),
        status=_CONDITIONS_BY_TYPE,
    ),
    ("batch", "Job"): _kind(
        always=("spec", "status"),
        spec=_fields(always=("template",), selector=ATOMIC_MAP, template=_POD_TEMPLATE),
        status=_fields(
            # By type in a strategic patch, yet one field for an apply.
            conditions=MergeSchema(patch_strategies=_MERGE, patch_merge_key="type"),
            uncountedTerminatedPods=_fields(
                failed=MergeSchema(list_type=ListType.SET), succeeded=MergeSchema(list_type=ListType.SET)
            ),
        ),
    ),
    ("coordination.k8s.io", "Lease"): _kind(always=("spec",)),
    ("policy", "PodDisruptionBudget"): _kind(
        always=("spec", "status"),
        spec=_fields(selector=MergeSchema(map_type=MapType.ATOMIC, patch_strategies=("replace",))),
        status=_CONDITIONS_BY_TYPE,
    ),
}
_ANY_KIND: Final = _kind()


def schema_of(group: str, kind: str) -> MergeSchema:
    """Of a built-in kind; the core group is the empty text."""
    return _KINDS.get((group, kind), _ANY_KIND)
