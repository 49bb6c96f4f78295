"""How a contract test gets its place on a backend: inside the test, since virtual time begins with the test and not with its fixtures."""

import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from controller_runtime.clock import SystemClock
from controller_runtime.testing.api_server import ApiServer, EmbeddedClient
from controller_runtime.testing.control_plane import ControlPlane
from controller_runtime.transport import Client, load_config
from nodewright.simulator.controllers import Controllers
from tests.contract.controllers.place import NAMESPACE, Place, running
from tests.unit.simulator.fake_api import LoopClock

Scene = Callable[[], AbstractAsyncContextManager[Place]]


def played(test: Callable[[Place], Awaitable[None]]) -> Callable[[Scene], Awaitable[None]]:
    """Give a test its place."""

    async def play(scene: Scene) -> None:
        async with scene() as place:
            await test(place)

    play.__name__, play.__doc__, play.__module__ = test.__name__, test.__doc__, test.__module__
    return play


@contextlib.asynccontextmanager
async def on_control_plane(plane: ControlPlane) -> AsyncIterator[Place]:
    """A real control plane with its own controllers."""
    async with Client(await load_config(plane.admin_kubeconfig), user_agent="contract") as client:
        place = Place(client, SystemClock(), "control_plane")
        await client.create(NAMESPACE, {"metadata": {"name": place.namespace}})
        try:
            async with place.watched():
                yield place
        finally:
            await place.clean()


@contextlib.asynccontextmanager
async def embedded() -> AsyncIterator[Place]:
    """An embedded API server with our controllers."""
    clock = LoopClock()
    server = ApiServer(clock=clock, rng=random.Random(1))
    client = EmbeddedClient(server, user_agent="contract")
    place = Place(client, clock, "embedded")
    await client.create(NAMESPACE, {"metadata": {"name": place.namespace}})
    controllers = Controllers(EmbeddedClient(server, user_agent="controllers"), clock=clock)
    async with running(controllers.run(), controllers.wait_ready()), place.watched():
        yield place
