"""How long a kubelet takes for things, why it stops a pod, and which exit codes that leaves. Constants of the pod machine."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from nodewright.simulator.rules import Step

NEVER = math.inf
KILLED, TERMINATED_BY_SIGNAL, LOST = 137, 143, 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Durations in seconds. `speed` divides every delay that is the kubelet's own, not the steps and not a pod's deadline."""

    step_seconds: float = 0.2
    """How long a container runs when no rule says otherwise."""
    step_of: Callable[[Step], float] | None = None
    """The same for each container by itself; wins over `step_seconds`."""
    look_seconds: float = 1.0
    """Until a started container is seen running (PLEG period); one that ends sooner is never reported as running."""
    terminate_seconds: float = 0.1
    """How long a container takes to end after SIGTERM."""
    back_off_seconds: float = 10.0
    back_off_limit_seconds: float = 300.0
    mount_retry_seconds: float = 2.0
    boot_seconds: float = 1.0
    """How long a node is away when it reboots."""
    speed: float = 1.0

    def back_off(self, failures: int) -> float:
        """The delay after the given number of failures: 10 s, 20 s, ... 5 min, divided by `speed`."""
        return min(self.back_off_seconds * 2.0 ** min(failures - 1, 16), self.back_off_limit_seconds) / self.speed


class Cause(StrEnum):
    """Why a kubelet stops a pod."""

    DELETED = "deleted"
    DEADLINE = "deadline"
    EVICTED = "evicted"
    GONE = "gone"


REASONS = {
    Cause.DEADLINE: ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
    Cause.EVICTED: ("Evicted", "The node was low on resource: memory."),
}
