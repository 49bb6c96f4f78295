"""Fixtures of the fault tests: each test has a control plane of its own, which it may harm."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from controller_runtime.testing.control_plane import Programs
from tests.faults.world import World, open_world

OpenWorld = Callable[[Sequence[str]], AbstractAsyncContextManager[World]]


@pytest.fixture
def worlds(control_plane_programs: Programs) -> OpenWorld:
    """`async with worlds(node_names) as world`."""
    return lambda nodes: open_world(control_plane_programs, nodes)
