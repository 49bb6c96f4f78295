"""Bugs to plant, by name: each is a mutation of the product for the time of a run. The tests prove that each is found."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

Plant = Callable[[], AbstractContextManager[object]]
PLANTS: dict[str, Plant] = {}


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """With that bug; "" is none."""
    if not name:
        yield
        return
    with PLANTS[name]():
        yield
