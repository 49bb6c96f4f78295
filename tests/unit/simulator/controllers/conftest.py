"""What all tests of controllers need."""

import asyncio

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_loop_left_by_a_plugin() -> None:
    """looptime asks for the event loop before each test; if none was ever set, Python makes one that nobody closes."""
    asyncio.set_event_loop(None)
