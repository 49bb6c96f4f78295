"""When to look at which pod again: one heap and one timer of the loop for all pods of all nodes.

An idle simulation of a thousand nodes holds no task and no timer per node or pod.
"""

import asyncio
import heapq
import math
from collections.abc import Callable


class Timers:
    """Calls `fire(key)` when a key's time has come. A key has one time; setting it again replaces it."""

    def __init__(self, fire: Callable[[str], None]) -> None:
        self._fire = fire
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._handle: asyncio.TimerHandle | None = None
        self._next = math.inf

    def set(self, key: str, when: float) -> None:
        """Fire `key` at loop time `when`; infinity is never."""
        if self._due.get(key, math.inf) == when:
            return
        if when == math.inf:
            self._due.pop(key, None)
            return
        self._due[key] = when
        heapq.heappush(self._heap, (when, key))
        if when < self._next:
            self._arm(when)

    def drop(self, key: str) -> None:
        """Forget the key's time."""
        self._due.pop(key, None)

    def close(self) -> None:
        """Fire nothing any more."""
        self._due.clear()
        self._heap.clear()
        self._arm(math.inf)

    def _arm(self, when: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._next = when
        if when < math.inf:
            self._handle = asyncio.get_running_loop().call_at(when, self._ring)

    def _ring(self) -> None:
        self._handle, self._next = None, math.inf
        now = asyncio.get_running_loop().time()
        due: list[str] = []
        while self._heap and self._heap[0][0] <= now:
            when, key = heapq.heappop(self._heap)
            if self._due.get(key) == when:
                del self._due[key]
                due.append(key)
        try:
            for key in due:
                self._fire(key)
        finally:
            while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
                heapq.heappop(self._heap)
            if self._heap and self._heap[0][0] < self._next:
                self._arm(self._heap[0][0])
