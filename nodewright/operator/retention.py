"""Keeps the number of finished Jobs bounded (JOB-18): beyond it the cluster's pod garbage collector would take anybody's pods."""

import logging
from collections.abc import Callable, Iterable
from typing import Final

import anyio

from controller_runtime.election import NotLeaderError
from controller_runtime.transport import ApiError, Client, TransportError
from nodewright.api import keys
from nodewright.model.objects import Job
from nodewright.operator import resources
from nodewright.operator.cluster import Cluster, Stale, Target
from nodewright.operator.informers import Stores

_log = logging.getLogger(__name__)
PAUSE_SECONDS: Final = 10.0

Surplus = Callable[[Iterable[Job], int], list[Job]]
"""The Jobs beyond so many, the oldest succeeded first; failed ones never."""


class JobRetention:
    """Deletes what is too much, some time after Jobs changed; run while leading."""

    def __init__(self, client: Client, stores: Stores, *, retain: int, surplus: Surplus) -> None:
        self._cluster = Cluster(client)
        self._stores = stores
        self._retain = retain
        self._surplus = surplus
        self._changed = anyio.Event()
        stores.jobs.subscribe(lambda _change: self._changed.set())

    async def run(self) -> None:
        """Sweep after changes, at most every ten seconds, until cancelled."""
        while True:
            await self.sweep()
            await anyio.sleep(PAUSE_SECONDS)
            await self._changed.wait()
            self._changed = anyio.Event()

    async def sweep(self) -> None:
        """Delete what is too much now. A failure leaves the rest to the next sweep."""
        if len(self._stores.jobs.keys()) <= self._retain:
            return
        for job in self._surplus(self._stores.jobs.values(), self._retain):
            meta = job.metadata
            target = Target(
                resources.JOB, self._stores.jobs, meta.name, meta.uid, self._stores.namespace, keys.LABEL_NAME
            )
            try:
                await self._cluster.delete(target, resource_version=target.resource_version, propagation="Background")
            except Stale:
                continue
            except NotLeaderError:
                return
            except (ApiError, TransportError) as error:
                _log.warning("retained Jobs: %s was not deleted: %s", meta.name, error)
                return
