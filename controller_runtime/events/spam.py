"""The spam filter: how many writes one object, type and reason may cause.

A token bucket for each: 25 at once, then one in five minutes. Different reasons and different objects do not take
from each other. Relied on by `recorder`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from controller_runtime.events.event import EventKey

BURST = 25
SECONDS_PER_TOKEN = 300.0
_MAX_BUCKETS = 4096
_WHOLE = 1.0 - 1e-6
"""A token that lacks less than this is whole: a wait computed from a remainder ends a hair before it is."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class SpamFilter:
    """Token buckets by object, type and reason; the least recently used are forgotten (and so full again) beyond 4096."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[object, ...], _Bucket] = OrderedDict()

    def allows(self, key: EventKey, now: float) -> bool:
        """Take a token if there is one; `now` is monotonic."""
        bucket = self._filled(key, now)
        if bucket.tokens < _WHOLE:
            return False
        bucket.tokens = max(0.0, bucket.tokens - 1.0)
        return True

    def seconds_until_allowed(self, key: EventKey, now: float) -> float:
        """0 if there is a token now."""
        missing = 1.0 - self._filled(key, now).tokens
        return missing * SECONDS_PER_TOKEN if missing > 1.0 - _WHOLE else 0.0

    def _filled(self, key: EventKey, now: float) -> _Bucket:
        name = (key.regarding, key.type, key.reason)
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= _MAX_BUCKETS:
                self._buckets.popitem(last=False)
            bucket = self._buckets[name] = _Bucket(BURST, now)
        else:
            self._buckets.move_to_end(name)
            bucket.tokens = min(BURST, bucket.tokens + (now - bucket.filled_at) / SECONDS_PER_TOKEN)
            bucket.filled_at = now
        return bucket
