"""An informer at work on a model server, and what its store tells, in words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from controller_runtime.cache import Change, Informer
from tests.unit.runtime.model_server import (
    WIDGETS,
    LoopClock,
    ModelServer,
    Widget,
)


class Seen:
    """The changes a store told, as words: `+a` came, `~a` changed, `-a` left."""

    def __init__(self, informer: Informer[Widget]) -> None:
        self.words: list[str] = []
        self.changes: list[Change[Widget]] = []
        informer.store.subscribe(self._note)

    def _note(self, change: Change[Widget]) -> None:
        self.changes.append(change)
        item = change.new or change.old
        assert item is not None
        sign = "+" if change.old is None else "-" if change.new is None else "~"
        self.words.append(f"{sign}{item.metadata.name}")


@asynccontextmanager
async def watching(
    server: ModelServer, *, streaming: bool = True, synced: bool = True
) -> AsyncIterator[Informer[Widget]]:
    informer = Informer(server, WIDGETS, Widget, clock=LoopClock(), streaming=streaming)
    task = asyncio.create_task(informer.run())
    try:
        if synced:
            async with asyncio.timeout(600):
                await informer.wait_synced()
        yield informer
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def same(informer: Informer[Widget], server: ModelServer) -> bool:
    return {key: item.color for key, item in zip(informer.store.keys(), informer.store.values(), strict=True)} == {
        key: item.get("color", "") for key, item in server.objects.items()
    }


async def settle() -> None:
    await asyncio.sleep(0.01)
