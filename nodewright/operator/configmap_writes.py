"""Writes to ConfigMaps: what pods mount comes before the Job that mounts it (LIF-12). Relied on by the executor."""

import logging
from collections.abc import Mapping
from typing import Any

import anyio

from controller_runtime.clock import Clock
from controller_runtime.transport import AlreadyExists, PatchType
from nodewright.api import keys
from nodewright.model.objects import ConfigMap, owner_uid
from nodewright.model.plan import ConfigMapDelete, ConfigMapWrite
from nodewright.model.snapshot import CR
from nodewright.operator import resources
from nodewright.operator.answers import REFUSED
from nodewright.operator.cluster import Cluster, Stale, Target, is_refusal
from nodewright.operator.informers import Stores
from nodewright.operator.memory import CRMemory, Tally
from nodewright.operator.object_store import ObjectStore

_log = logging.getLogger(__name__)


class Withheld(Exception):  # noqa: N818 - an outcome, told to whoever needed the ConfigMap
    """The ConfigMap is not there as wanted, and will be tried again in `after` seconds."""

    def __init__(self, text: str, after: float) -> None:
        super().__init__(text)
        self.after = after


class ConfigMapWrites:
    """Creates, updates and deletes ConfigMaps of packages and of nodes."""

    def __init__(self, cluster: Cluster, stores: Stores, clock: Clock) -> None:
        self._cluster = cluster
        self._stores = stores
        self._clock = clock

    async def write(self, cr: CR, write: ConfigMapWrite, memory: CRMemory, tally: Tally) -> None:
        """Bring a ConfigMap to what `write` says.

        Raises:
            Withheld: refused, now or a while ago; `Snapshot.refused` says why. A name that somebody else has is never touched (CON-16).
            Stale: the picture was old.
            ApiError, TransportError: the server failed or did not answer.
        """
        held = f"ConfigMap/{write.name}"
        wait = memory.answers.wait(held, anyio.current_time())
        if wait > 0:
            raise Withheld(f"ConfigMap {write.name} was refused", wait)
        tally.writes += 1
        try:
            if write.current is None:
                await self._create(cr, write)
            else:
                target = self._target(write.name, write.current.metadata.labels, write.current.metadata.uid)
                await self._cluster.patch(target, _update(write.current, write.body), PatchType.MERGE)
        except AlreadyExists as error:
            raise self._withheld(cr, memory, held, text=error.message, reason="AlreadyExists") from error
        except Exception as error:
            if not is_refusal(error):
                raise
            text, reason = getattr(error, "message", str(error)), getattr(error, "reason", "")
            raise self._withheld(cr, memory, held, text=text, reason=reason) from error
        memory.answers.accepted(held)

    async def _create(self, cr: CR, write: ConfigMapWrite) -> None:
        target = self._target(write.name, write.body["metadata"]["labels"])
        before = target.store.get(target.key)
        try:
            await self._cluster.create(target, write.body)
        except AlreadyExists as error:
            found = await self._cluster.refresh(target)
            if found is not None and found is not before and owner_uid(found.metadata) == cr.meta.uid:
                # A create whose answer was lost: the next pass sees it, and whether it still says the right thing.
                raise Stale(str(error)) from error
            raise

    async def delete(self, delete: ConfigMapDelete, tally: Tally) -> None:
        """Delete a ConfigMap that nothing needs any more, by UID."""
        meta = delete.current.metadata
        if meta.deletion_timestamp is not None:
            return
        tally.writes += 1
        await self._cluster.delete(self._target(meta.name, meta.labels, meta.uid))

    def _target(self, name: str, labels: Mapping[str, str], uid: str = "") -> Target[Any]:
        of_node = keys.NODE_META_LABEL in labels
        store: ObjectStore[Any] = self._stores.metadata if of_node else self._stores.configmaps
        label = keys.NODE_META_LABEL if of_node else keys.LABEL_NAME
        return Target(resources.CONFIG_MAP, store, name, uid, self._stores.namespace, label)

    def _withheld(self, cr: CR, memory: CRMemory, held: str, *, text: str, reason: str) -> Withheld:
        _log.warning("%s was refused: %s", held, text, extra={"cr": cr.name})
        now, monotonic = self._clock.now().timestamp(), anyio.current_time()
        after = memory.answers.refuse(held, text=text, reason=reason, now=now, monotonic=monotonic, pace=REFUSED)
        return Withheld(text, after)


def _update(current: ConfigMap, body: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch: the data as wanted and nothing else in it, and our own labels and annotations."""
    metadata = {"uid": current.metadata.uid}
    metadata |= {key: body["metadata"][key] for key in ("labels", "annotations") if key in body["metadata"]}
    gone: dict[str, str | None] = dict.fromkeys(current.data.keys() - body["data"].keys())
    return {"metadata": metadata, "data": {**gone, **body["data"]}}
