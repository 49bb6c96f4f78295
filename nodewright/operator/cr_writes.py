"""Writes to the NodeWright itself: its finalizer (CHG-11). Metadata only, so that a spec is never rewritten (CHG-12)."""

from controller_runtime.transport import PatchType
from nodewright.api import keys
from nodewright.model.objects import NodeWrightObject
from nodewright.operator import resources
from nodewright.operator.cluster import Cluster, Target
from nodewright.operator.informers import Stores
from nodewright.operator.memory import Tally


class CRWrites:
    """Adds and removes the finalizer."""

    def __init__(self, cluster: Cluster, stores: Stores) -> None:
        self._cluster = cluster
        self._stores = stores

    async def add_finalizer(self, source: NodeWrightObject, tally: Tally) -> None:
        """Add our finalizer to those that are there.

        Raises:
            Stale: the CR changed meanwhile or is gone.
            ApiError, TransportError: anything else.
        """
        present = source.metadata.finalizers
        if keys.FINALIZER not in present:
            await self._write(source, [*present, keys.FINALIZER], tally)

    async def remove_finalizer(self, source: NodeWrightObject, tally: Tally) -> None:
        """Remove our finalizer and no other; raises as `add_finalizer`."""
        present = source.metadata.finalizers
        if keys.FINALIZER in present:
            await self._write(source, [each for each in present if each != keys.FINALIZER], tally)

    async def _write(self, source: NodeWrightObject, finalizers: list[str], tally: Tally) -> None:
        meta = source.metadata
        target = Target(resources.NODEWRIGHT, self._stores.nodewrights, meta.name, meta.uid)
        # A list is written whole by a merge patch: the version proves that it is the one that was read.
        version = target.resource_version or meta.resource_version
        body = {"metadata": {"uid": meta.uid, "resourceVersion": version, "finalizers": finalizers}}
        tally.writes += 1
        await self._cluster.patch(target, body, PatchType.MERGE)
