"""One suite, two backends: the embedded API server with our controllers in virtual time, and a real control plane with its own."""

import contextlib
import functools
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

import pytest

from controller_runtime.clock import SystemClock
from controller_runtime.testing.api_server import ApiServer, EmbeddedClient
from controller_runtime.testing.control_plane import ControlPlane, GoMissingError, check_buildable
from controller_runtime.transport import Client, load_config
from nodewright.simulator.controllers import Controllers
from tests.contract.controllers.place import NAMESPACE, Place, running
from tests.unit.simulator.fake_api import LoopClock

Backend = Literal["embedded"]
Scene = Callable[[], AbstractAsyncContextManager[Place]]


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.looptime),
        pytest.param("control_plane", marks=pytest.mark.control_plane),
    ]
)
def backend(request: pytest.FixtureRequest) -> Backend | ControlPlane:
    """`embedded`, or the running control plane."""
    if request.param == "embedded":
        return "embedded"
    try:
        check_buildable()
    except GoMissingError as error:
        if os.environ.get("CI"):
            pytest.fail(f"{error} (where CI is set a skip is a failure)", pytrace=False)
        pytest.skip(str(error))
    found = request.getfixturevalue("control_plane")
    assert isinstance(found, ControlPlane)
    return found


@pytest.fixture
def scene(backend: Backend | ControlPlane) -> Scene:
    """Opens a place on the backend. Not a place itself: virtual time begins with the test, not with its fixtures."""
    return functools.partial(_on_control_plane, backend) if isinstance(backend, ControlPlane) else _embedded


def played(test: Callable[[Place], Awaitable[None]]) -> Callable[[Scene], Awaitable[None]]:
    """Give a test its place."""

    async def play(scene: Scene) -> None:
        async with scene() as place:
            await test(place)

    play.__name__, play.__doc__, play.__module__ = test.__name__, test.__doc__, test.__module__
    return play


@contextlib.asynccontextmanager
async def _on_control_plane(plane: ControlPlane) -> AsyncIterator[Place]:
    async with Client(await load_config(plane.admin_kubeconfig), user_agent="contract") as client:
        place = Place(client, SystemClock(), "control_plane")
        await client.create(NAMESPACE, {"metadata": {"name": place.namespace}})
        try:
            async with place.watched():
                yield place
        finally:
            await place.clean()


@contextlib.asynccontextmanager
async def _embedded() -> AsyncIterator[Place]:
    clock = LoopClock()
    server = ApiServer(clock=clock, rng=random.Random(1))
    client = EmbeddedClient(server, user_agent="contract")
    place = Place(client, clock, "embedded")
    await client.create(NAMESPACE, {"metadata": {"name": place.namespace}})
    controllers = Controllers(EmbeddedClient(server, user_agent="controllers"), clock=clock)
    async with running(controllers.run(), controllers.wait_ready()), place.watched():
        yield place
