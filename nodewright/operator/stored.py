"""The model's objects as the cache holds them: the same fields, and metadata that says under which key.

The model knows no runtime, and the cache asks every object for `metadata.key`. Relied on by the informers; everybody else sees the
model's types.
"""

from nodewright.model import objects
from nodewright.operator.digests import DigestedConfigMap


class StoredMeta(objects.ObjectMeta, frozen=True, rename="camel"):
    """Metadata with the object's key in a store."""

    @property
    def key(self) -> str:
        """`name`, or `namespace/name`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class StoredNodeWright(objects.NodeWrightObject, frozen=True, rename="camel", kw_only=True):
    """A NodeWright in the cache."""

    metadata: StoredMeta


class StoredDeploymentPolicy(objects.DeploymentPolicyObject, frozen=True, rename="camel", kw_only=True):
    """A DeploymentPolicy in the cache."""

    metadata: StoredMeta


class StoredNode(objects.Node, frozen=True, rename="camel", kw_only=True):
    """A Node in the cache."""

    metadata: StoredMeta


class StoredJob(objects.Job, frozen=True, rename="camel", kw_only=True):
    """A Job in the cache."""

    metadata: StoredMeta


class StoredPod(objects.Pod, frozen=True, rename="camel", kw_only=True):
    """A pod in the cache."""

    metadata: StoredMeta


class StoredConfigMap(objects.ConfigMap, frozen=True, rename="camel", kw_only=True):
    """A package's ConfigMap in the cache."""

    metadata: StoredMeta


class StoredNodeMetadata(DigestedConfigMap, frozen=True, rename="camel", kw_only=True):
    """A node metadata ConfigMap in the cache, its texts as digests."""

    metadata: StoredMeta
