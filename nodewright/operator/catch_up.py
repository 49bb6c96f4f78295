"""What a new leader does before it plans anything: it reads the NodeWrights live (LIF-2).

Writes prove by their preconditions that a node or Job is what the plan saw, but nothing proves that the spec was: a standby
whose watch lags would go back to the spec of a moment ago. They are few, so one list tells. Relied on by the wiring.
"""

import logging
from typing import Final, Protocol

import anyio
import msgspec

from controller_runtime.transport import ApiError, Resource, TransportError
from nodewright.operator import resources
from nodewright.operator.informers import Stores

_log = logging.getLogger(__name__)
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0


class Lister(Protocol):
    """What is needed of a client."""

    async def list(self, resource: Resource) -> bytes:
        """The collection as it is now, whole."""


class _Meta(msgspec.Struct, frozen=True):
    name: str


class _Head(msgspec.Struct, frozen=True):
    metadata: _Meta


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] = []


_list = msgspec.json.Decoder(_List)
_head = msgspec.json.Decoder(_Head)


async def catch_up(client: Lister, stores: Stores) -> None:
    """Take in every NodeWright as it is now, and that the others are gone; waits for the API server as long as it takes."""
    store, pause = stores.nodewrights, FIRST_PAUSE
    while True:
        before = {each.metadata.name: each for each in store.values()}
        try:
            found = _list.decode(await client.list(resources.NODEWRIGHT)).items
        except (ApiError, TransportError, msgspec.DecodeError) as error:
            _log.warning("the NodeWrights could not be read before leading, tried again in %.1f s: %s", pause, error)
            await anyio.sleep(pause)
            pause = min(2.0 * pause, LONGEST_PAUSE)
            continue
        break
    for raw in found:
        before.pop(_head.decode(raw).metadata.name, None)
        try:
            store.observe(bytes(raw))
        except msgspec.DecodeError as error:
            _log.warning("a NodeWright cannot be read and is left as it was last readable: %s", error)  # trap 50
    for name, gone in before.items():
        store.observe_deleted(name, gone.metadata.uid)
