"""The CR status at its own pace (CON-6): the difference to what is published, never twice the same, the last one never lost.

A status of 5,000 nodes is nearly a megabyte and etcd stores it whole at every write, so big ones are written seldom; but a changed
CR Status, and batch state that must land before the next pick, goes out within a second. Passes offer drafts; only the newest of a
CR is kept, and it is built when it may be written. Relied on by the executor.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import TaskGroup
from opentelemetry import context as tracing

from controller_runtime.election import NotLeaderError
from controller_runtime.transport import ApiError, PatchType, TransportError
from nodewright.model.objects import NodeWrightObject
from nodewright.model.plan import StatusDraft
from nodewright.operator import resources
from nodewright.operator.answers import FAILED
from nodewright.operator.cluster import Cluster, Stale, Target
from nodewright.operator.informers import Stores
from nodewright.operator.merge_patch import difference

_log = logging.getLogger(__name__)
SHORTEST: Final = 1.0
"""Seconds between two writes of one CR's status."""
BYTES_PER_SECOND: Final = 128 * 1024
"""A big status is written less often: its size divided by this."""
FLUSH_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class _Offer:
    source: NodeWrightObject
    draft: StatusDraft
    changed: bool
    """The CR Status differs from the published one, or the draft is urgent."""
    context: tracing.Context
    """The trace of the pass that made the draft: the write is a span of it, whenever it comes (OBS-4)."""


@dataclass(slots=True)
class _Lane:
    """One CR's status: the newest offer, and when the next write may be."""

    newest: _Offer | None = None
    driven: bool = False
    news: anyio.Event | None = None
    last_write: float = float("-inf")
    not_before: float = float("-inf")
    failures: int = 0
    fruitless: bytes = b""
    """A patch that the server took and that changed nothing: sent once only (trap 39)."""
    told: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The lists of nodes that were logged last (ROL-22)."""


class StatusWriter:
    """Writes CR statuses.

    `published(name, status)` is called with every status that was built, written or not: the domain's metrics live on it.
    `plan_again(name)` is called when a draft was made from a status that is not there any more.
    """

    def __init__(
        self,
        cluster: Cluster,
        stores: Stores,
        *,
        published: Callable[[str, Mapping[str, Any]], None],
        plan_again: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._stores = stores
        self._published = published
        self._plan_again = plan_again
        self._lanes: dict[str, _Lane] = {}
        self._group: TaskGroup | None = None

    def start(self, group: TaskGroup) -> None:
        """Write from now on, in tasks of `group`; their end is the end of writing."""
        self._group = group
        for lane in self._lanes.values():
            lane.driven = False

    def offer(self, source: NodeWrightObject, published: Mapping[str, Any], draft: StatusDraft) -> None:
        """Publish `draft`, made from `source`, when its time has come; it replaces what was offered before."""
        name = source.metadata.name
        changed = draft.urgent or published.get("status") != draft.cr_status
        lane = self._lanes.setdefault(name, _Lane())
        lane.newest = _Offer(source, draft, changed, tracing.get_current())
        if lane.news is not None:
            lane.news.set()
        if not lane.driven and self._group is not None:
            lane.driven = True
            self._group.start_soon(self._drive, name, lane)

    def forget(self, name: str) -> None:
        """The CR is gone."""
        lane = self._lanes.pop(name, None)
        if lane is not None:
            lane.newest = None

    async def flush(self) -> None:
        """Write at once what waits, each once and all within a few seconds; for a clean stop."""
        self._group = None
        with anyio.move_on_after(FLUSH_SECONDS, shield=True):
            for name, lane in list(self._lanes.items()):
                if lane.newest is not None:
                    await self._write(name, lane)
        self._lanes.clear()

    async def _drive(self, name: str, lane: _Lane) -> None:
        """One CR's writes, one at a time, until nothing waits."""
        try:
            while lane.newest is not None:
                wait = self._due(lane, lane.newest) - anyio.current_time()
                if wait <= 0:
                    await self._write(name, lane)
                    continue
                lane.news = anyio.Event()
                with anyio.move_on_after(wait):
                    await lane.news.wait()
                lane.news = None
        finally:
            lane.driven = False

    @staticmethod
    def _due(lane: _Lane, offer: _Offer) -> float:
        size = memoryview(offer.source.status).nbytes
        pause = SHORTEST if offer.changed else max(SHORTEST, size / BYTES_PER_SECOND)
        return max(lane.last_write + pause, lane.not_before)

    async def _write(self, name: str, lane: _Lane) -> None:
        """Write the newest offer, or find that there is nothing to write."""
        offer, lane.newest = lane.newest, None
        current = self._stores.nodewrights.get(name)
        if offer is None or current is None or current.metadata.uid != offer.source.metadata.uid:
            return
        if current is not offer.source and bytes(current.status) != bytes(offer.source.status):
            # Somebody changed the status since (a reset, LIF-1): the draft does not know of it.
            self._plan_again(name)
            return
        token = tracing.attach(offer.context)
        try:
            await self._publish(name, lane, current, offer.draft)
        except Stale:
            self._plan_again(name)
        except NotLeaderError:
            return
        except Exception as error:  # noqa: BLE001 - LIF-4: what cannot be built of one CR ends neither the others' nor the process
            lane.failures += 1
            lane.not_before = anyio.current_time() + FAILED.delay(lane.failures)
            lane.newest = lane.newest or offer
            defect = None if isinstance(error, ApiError | TransportError) else error
            _log.warning(
                "status of %s was not written (%d in a row): %s", name, lane.failures, error,
                extra={"cr": name}, exc_info=defect,
            )  # fmt: skip
        except BaseException:  # cancelled in the middle: whether it landed is not known, so the flush tries again
            lane.newest = lane.newest or offer
            raise
        else:
            lane.failures = 0
        finally:
            tracing.detach(token)

    async def _publish(self, name: str, lane: _Lane, current: NodeWrightObject, draft: StatusDraft) -> None:
        status = draft.build()
        whole = draft.whole if _is_truncated(status) else None
        self._published(name, status if whole is None else whole())
        _tell(name, lane, draft.long_lists())
        before = msgspec.json.decode(current.status)
        patch = difference(before if isinstance(before, dict) else {}, status)
        if not patch:
            return
        encoded = msgspec.json.encode(patch)
        if encoded == lane.fruitless:
            return
        target = Target(resources.NODEWRIGHT, self._stores.nodewrights, name, current.metadata.uid)
        version = target.resource_version
        body = msgspec.json.encode(
            {"metadata": {"uid": current.metadata.uid, "resourceVersion": version}, "status": msgspec.Raw(encoded)}
        )
        lane.last_write = anyio.current_time()
        written = await self._cluster.patch(target, body, PatchType.MERGE, subresource="status")
        lane.fruitless = encoded if written.metadata.resource_version == version else b""


def _is_truncated(status: Mapping[str, Any]) -> bool:
    return any(each["type"] == "StatusTruncated" and each["status"] == "True" for each in status.get("conditions", ()))


def _tell(name: str, lane: _Lane, lists: Mapping[str, tuple[str, ...]]) -> None:
    """Log the lists of nodes that are too long for a condition's message, each once per change (ROL-22)."""
    for bucket, nodes in lists.items():
        if lane.told.get(bucket) != nodes:
            _log.info("%d nodes %s: %s", len(nodes), bucket, ", ".join(nodes), extra={"cr": name})
    lane.told = dict(lists)
