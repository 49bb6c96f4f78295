"""The garbage collector after the first sync."""

import gc
import subprocess
import sys

from controller_runtime.memory import THRESHOLDS


def test_settling_freezes_what_lives_and_makes_collections_rare() -> None:
    """In a process of its own, since it is for the life of one."""
    code = (
        "import gc; from controller_runtime.memory import settle_garbage_collector as settle; kept = [[] for _ in range(1000)]\n"
        "settle(); print(gc.get_threshold(), gc.get_freeze_count() > 1000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == f"{THRESHOLDS} True"
    assert gc.get_threshold() != THRESHOLDS
