"""At most one process acts: a Lease, watched and renewed from a thread of its own, and a fence before each write."""

from controller_runtime.election.elector import LeaderElector
from controller_runtime.election.fence import Fence, NotLeaderError
from controller_runtime.election.lease import Timing

__all__ = ["Fence", "LeaderElector", "NotLeaderError", "Timing"]
