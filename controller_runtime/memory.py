"""How the process treats its memory once the caches are full.

The decoded objects live as long as the process and hold no cycles: walking them again and again is the garbage
collector's greatest cost (the default thresholds made an initial load of 11,000 objects four times slower). The
operator calls this after the first sync.
"""

import gc

THRESHOLDS = (50_000, 20, 50)
"""Allocations before a young collection, young ones before a middle one, middle ones before a full one."""


def settle_garbage_collector() -> None:
    """Collect once, move what lives now out of the collector's sight, and make later collections rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
