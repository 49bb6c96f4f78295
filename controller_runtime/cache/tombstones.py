"""The UIDs known to be gone, for as long as a late answer about one of them could still come."""

from itertools import islice

from controller_runtime.clock import Clock

LIFETIME_SECONDS = 600.0
"""Far longer than any request's deadline."""


class Tombstones:
    """Deleted UIDs with the version of their deletion.

    An object may leave a watch's selector and come back with the same UID: versions after its leaving are welcome.
    Where the version of the end is not known, the UID is dead for good.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._graves: dict[str, tuple[float, int | None]] = {}

    def bury(self, uid: str, version: int | None) -> None:
        """Remember that `uid` ended, at `version` if known."""
        now = self._clock.monotonic()
        # Two at a time keep the cost of each burial constant and the table from growing.
        for old, (until, _) in list(islice(self._graves.items(), 2)):
            if until <= now:
                del self._graves[old]
        known = self._graves.pop(uid, None)
        if known is not None and (known[1] is None or (version is not None and known[1] > version)):
            version = known[1]
        self._graves[uid] = (now + LIFETIME_SECONDS, version)

    def refuses(self, uid: str, version: int) -> bool:
        """Whether an object of this UID and version is news of the dead."""
        grave = self._graves.get(uid)
        if grave is None:
            return False
        until, end = grave
        return self._clock.monotonic() < until and (end is None or version <= end)

    def clear(self) -> None:
        """Forget all."""
        self._graves.clear()

    def __len__(self) -> int:
        return len(self._graves)
