"""The operator's picture of the cluster: one informer for each kind it reads, and the indexes that snapshots are made of.

Jobs, pods and ConfigMaps are watched in the operator's namespace and by label only, nodes and our two kinds as a whole: never all
pods of the cluster (design: Performance rules). Relied on by `snapshots`, the writes and the wiring.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from controller_runtime.cache import Informer
from controller_runtime.clock import Clock
from controller_runtime.transport import Client, Resource
from nodewright.api import keys
from nodewright.model.objects import ConfigMap, DeploymentPolicyObject, Job, Node, NodeWrightObject, Pod
from nodewright.operator import resources, stored
from nodewright.operator.object_store import ObjectStore

BY_CR: Final = "cr"
BY_CR_AND_NODE: Final = "cr/node"


@dataclass(frozen=True, slots=True)
class Stores:
    """What is known of the cluster. Keys are names; for what lives in `namespace`, `namespace/name`."""

    namespace: str
    nodewrights: ObjectStore[NodeWrightObject]
    policies: ObjectStore[DeploymentPolicyObject]
    nodes: ObjectStore[Node]
    jobs: ObjectStore[Job]
    pods: ObjectStore[Pod]
    configmaps: ObjectStore[ConfigMap]
    metadata: ObjectStore[ConfigMap]

    def key(self, name: str) -> str:
        """The key of a namespaced object of that name."""
        return f"{self.namespace}/{name}"


class Informers:
    """All informers, with the stores they keep true."""

    def __init__(self, client: Client, *, namespace: str, clock: Clock) -> None:
        def watch(resource: Resource, type_: type[Any], label: str | None = None) -> Informer[Any]:
            where = namespace if resource.namespaced else None
            return Informer(client, resource, type_, namespace=where, label_selector=label, clock=clock)

        nodewrights = watch(resources.NODEWRIGHT, stored.StoredNodeWright)
        policies = watch(resources.DEPLOYMENT_POLICY, stored.StoredDeploymentPolicy)
        nodes = watch(resources.NODE, stored.StoredNode)
        jobs = watch(resources.JOB, stored.StoredJob, keys.LABEL_NAME)
        pods = watch(resources.POD, stored.StoredPod, keys.LABEL_NAME)
        configmaps = watch(resources.CONFIG_MAP, stored.StoredConfigMap, keys.LABEL_NAME)
        metadata = watch(resources.CONFIG_MAP, stored.StoredNodeMetadata, keys.NODE_META_LABEL)
        self.by_name: dict[str, Informer[Any]] = {
            "nodewrights": nodewrights,
            "deploymentpolicies": policies,
            "nodes": nodes,
            "jobs": jobs,
            "pods": pods,
            "configmaps": configmaps,
            "node metadata": metadata,
        }
        self.stores = Stores(
            namespace=namespace,
            nodewrights=nodewrights.store,
            policies=policies.store,
            nodes=nodes.store,
            jobs=jobs.store,
            pods=pods.store,
            configmaps=configmaps.store,
            metadata=metadata.store,
        )
        add_indexes(self.stores)


def add_indexes(stores: Stores) -> None:
    """Index by CR, and Jobs and pods by CR and node label (CON-14)."""
    stores.jobs.add_index(BY_CR, by_cr)
    stores.jobs.add_index(BY_CR_AND_NODE, by_cr_and_node)
    stores.pods.add_index(BY_CR_AND_NODE, by_cr_and_node)
    stores.configmaps.add_index(BY_CR, by_cr)
    stores.metadata.add_index(BY_CR, by_meta_label)


def by_cr(item: Job | Pod | ConfigMap) -> Iterable[str]:
    """The CR that the label names."""
    cr = item.metadata.labels.get(keys.LABEL_NAME)
    return (cr,) if cr else ()


def by_cr_and_node(item: Job | Pod) -> Iterable[str]:
    """The CR and the node that the labels name."""
    labels = item.metadata.labels
    cr, node = labels.get(keys.LABEL_NAME), labels.get(keys.LABEL_NODE)
    return (f"{cr}/{node}",) if cr and node else ()


def by_meta_label(item: ConfigMap) -> Iterable[str]:
    """The CR that a node metadata ConfigMap belongs to."""
    cr = item.metadata.labels.get(keys.NODE_META_LABEL)
    return (cr,) if cr else ()
