"""What the tests of the embedded server share: virtual time, a kind, short requests."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

import msgspec

from controller_runtime.cache import ObjectMeta
from controller_runtime.testing.api_server import ApiServer
from controller_runtime.transport import Resource

MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)


class ConfigMap(msgspec.Struct, frozen=True, rename="camel"):
    """What the tests' caches read of a config map."""

    metadata: ObjectMeta
    data: dict[str, str] = {}


class LoopClock:
    """The event loop's time, which looptime makes virtual."""

    def monotonic(self) -> float:
        return _passed()

    def boottime(self) -> float:
        return _passed()

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_800_000_000 + _passed(), UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _passed() -> float:
    return asyncio.get_running_loop().time()


def server(**options: Any) -> ApiServer:
    """A server of virtual time and a fixed seed."""
    return ApiServer(clock=LoopClock(), rng=random.Random(1), **options)
