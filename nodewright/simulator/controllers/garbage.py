"""The garbage collector: background, foreground and orphaning deletion by owner references.

Relies on `ownership` for decisions and on a shared `Picture`. It trusts its picture that an owner exists, and asks the API server when it
does not know one; each deletion names UID and resourceVersion, so that a picture that lags deletes nothing that has changed.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from controller_runtime.cache import Change, Store
from controller_runtime.controller import Controller, Request, Result
from controller_runtime.transport import NotFound, PatchType, Resource
from nodewright.simulator.controllers.ownership import FOREGROUND, ORPHAN, Fate, Graph, Item, State, fate
from nodewright.simulator.controllers.picture import Picture
from nodewright.simulator.controllers.requests import LIFE, Requests, retry_backoff
from nodewright.simulator.controllers.settings import ControllerSettings
from nodewright.simulator.controllers.views import BUDGET, JOB, LEASE, NODE, POD, Anything, Meta, Owner

_REMEMBERED_ABSENT = 1000


class GarbageCollector:
    """`run` until cancelled, after the picture is synced.

    Objects of resources the picture does not hold are neither collected nor known as owners: that they exist is taken for granted.
    """

    def __init__(self, requests: Requests, picture: Picture, *, settings: ControllerSettings) -> None:
        self._requests = requests
        self._graph = Graph()
        self._absent: dict[str, None] = {}
        self._stores: dict[Resource, Store[Any]] = {
            POD: picture.pods,
            JOB: picture.jobs,
            NODE: picture.nodes,
            LEASE: picture.leases,
            BUDGET: picture.budgets,
            **picture.others,
        }
        self._resources = {(one.group, one.kind): one for one in self._stores}
        self._controller = Controller(
            "garbage", self._sync, concurrency=settings.concurrency, backoff=retry_backoff(0.1), expected_errors=LIFE
        )
        for resource, store in self._stores.items():
            store.subscribe(self._follow(resource))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _follow(self, resource: Resource) -> Callable[[Change[Any]], None]:
        def changed(change: Change[Any]) -> None:
            if change.new is not None:
                again = self._graph.put(Item(resource, change.new.metadata))
            else:
                assert change.old is not None
                again = self._graph.remove(change.old.metadata.uid)
            for uid in again:
                self._controller.queue.add(uid)

        return changed

    async def _sync(self, request: Request) -> Result:
        item = self._graph.items.get(request.key)
        if item is None:
            return Result()
        if item.orphans_dependents:
            await self._orphan(item)
        elif item.waits_for_dependents:
            await self._foreground(item)
        elif item.metadata.deletion_timestamp is None and item.owners:
            states = {owner.uid: await self._state(item, owner) for owner in item.owners}
            await self._apply(item, fate(item, states, self._graph.dependents(request.key)))
        return Result()

    async def _apply(self, item: Item, decided: Fate) -> None:
        if decided.drop:
            await self._patch(item, _owners([one for one in item.owners if one.uid not in decided.drop]))
        if decided.unblock:
            free = [msgspec.structs.replace(one, block_owner_deletion=False) for one in item.owners]
            await self._patch(item, _owners(free))
            return  # the change brings it here again
        if decided.delete is not None:
            await self._requests.delete(
                item.resource,
                self._stores[item.resource],
                item.metadata,
                resource_version=self._version(item),
                propagation=decided.delete,  # type: ignore[arg-type]
            )

    async def _foreground(self, item: Item) -> None:
        blockers = self._graph.blockers(item.metadata.uid)
        if not blockers:
            await self._finalize(item, FOREGROUND)
        for blocker in blockers:
            if not blocker.waits_for_dependents:
                self._controller.queue.add(blocker.metadata.uid)

    async def _orphan(self, item: Item) -> None:
        uid = item.metadata.uid
        for child in self._graph.dependents(uid):
            await self._patch(child, _owners([owner for owner in child.owners if owner.uid != uid]))
        await self._finalize(item, ORPHAN)

    async def _finalize(self, item: Item, finalizer: str) -> None:
        left = [one for one in item.metadata.finalizers if one != finalizer]
        await self._patch(item, {"finalizers": left or None})

    async def _patch(self, item: Item, metadata: dict[str, Any]) -> None:
        body = {"metadata": {"uid": item.metadata.uid, "resourceVersion": self._version(item), **metadata}}
        store = self._stores[item.resource]
        await self._requests.patch(item.resource, store, item.metadata, body, PatchType.MERGE)

    def _version(self, item: Item) -> str | None:
        return self._stores[item.resource].resource_version(item.metadata.key)

    async def _state(self, item: Item, owner: Owner) -> State:
        known = self._graph.items.get(owner.uid)
        if known is not None:
            return State.WAITING if known.waits_for_dependents else State.SOLID
        if owner.uid in self._absent:
            return State.ABSENT
        resource = self._resources.get((owner.api_version.rpartition("/")[0], owner.kind))
        if resource is None:
            return State.SOLID
        namespace = item.metadata.namespace if resource.namespaced else None
        if resource.namespaced and not namespace:
            return State.SOLID  # no valid reference: left alone, as the real collector does
        live = await self._live(resource, owner.name, namespace)
        if live is None or live.uid != owner.uid:
            self._absent[owner.uid] = None
            if len(self._absent) > _REMEMBERED_ABSENT:
                del self._absent[next(iter(self._absent))]
            return State.ABSENT
        return State.WAITING if Item(resource, live).waits_for_dependents else State.SOLID

    async def _live(self, resource: Resource, name: str, namespace: str | None) -> Meta | None:
        try:
            raw = await self._requests.client.get(resource, name, namespace=namespace)
        except NotFound:
            return None
        return msgspec.json.decode(raw, type=Anything).metadata


def _owners(owners: list[Owner]) -> dict[str, Any]:
    """The whole list, as a merge patch replaces it."""
    bodies = []
    for owner in owners:
        body: dict[str, Any] = {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
        }
        if owner.controller:
            body["controller"] = True
        if owner.block_owner_deletion is not None:
            body["blockOwnerDeletion"] = owner.block_owner_deletion
        bodies.append(body)
    return {"ownerReferences": bodies or None}
