"""Everything in the product that is random by nature, nailed to a seed for the time of a run.

These are boot IDs, suffixes of event names, jitter, and the garbage collector, which would keep every simulated operator for good.
"""

import contextlib
import itertools
import random
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from unittest import mock


@contextlib.contextmanager
def nailed(seed: int) -> Iterator[None]:
    """Within, a run depends on the seed alone."""
    random.seed(seed)
    rng, numbers = random.Random(seed), itertools.count(seed * 1000)

    def made(*arguments: int) -> random.Random:
        return random.Random(*(arguments or (next(numbers),)))

    def boot_id() -> str:
        return str(uuid.UUID(int=rng.getrandbits(128)))

    seeded = SimpleNamespace(Random=made, random=random.random)
    tokens = SimpleNamespace(token_hex=lambda n: rng.randbytes(n).hex())
    with (
        mock.patch("controller_runtime.cache.informer.random", seeded),
        mock.patch("controller_runtime.watch.reflector.random", seeded),
        mock.patch("controller_runtime.events.event.secrets", tokens),
        mock.patch("nodewright.simulator.kubelets.nodes.new_boot_id", boot_id),
        mock.patch("nodewright.operator.app.settle_garbage_collector"),
    ):
        yield
