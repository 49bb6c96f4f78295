"""Why something does not move: a decision not to act is a value too.

Every node that does not move carries a `Reason`, which status, conditions, events, logs and `explain` all read.
"""

from enum import StrEnum

import msgspec


class Code(StrEnum):
    """The closed set of causes that hold a node, a package or a CR."""

    BATCH_FULL = "BatchFull"  # ROL-10: the batch has no room
    ROLLOUT_STOPPED = "RolloutStopped"  # ROL-11: failureThreshold
    BUDGET_ZERO = "BudgetZero"  # ROL-5: count 0 admits none
    EVALUATION = "Evaluation"  # ROL-11: the batch's outcome is being recorded
    PREDECESSOR = "Predecessor"  # ROL-17
    PAUSED = "Paused"  # ROL-18
    DISABLED = "Disabled"  # ROL-18
    IGNORED = "Ignored"  # ROL-2
    TAINT = "TaintNotTolerable"  # ROL-3
    MALFORMED = "NodeStateMalformed"  # LIF-4
    STAGE_FAILED = "StageFailed"  # JOB-6
    RETRY_BACKOFF = "RetryBackoff"  # JOB-6: a failure that was not the package's
    RUNNING = "Running"
    DEPENDENCY = "Dependency"  # LIF-7
    SERIAL = "Serial"  # LIF-7
    UNSUPPORTED = "Unsupported"
    INVALID_SPEC = "InvalidSpec"
    CONFIG_REFUSED = "ConfigMapRefused"  # CHG-5a
    CONFIG_LEAVING = "ConfigMapTerminating"  # CHG-13: of an earlier CR of that name
    CONFIG_HELD = "ConfigHeld"  # CHG-1
    JOB_NAME_TAKEN = "JobNameTaken"  # JOB-9
    JOB_TERMINATING = "JobTerminating"  # JOB-8
    JOB_REFUSED = "JobNotCreated"  # JOB-15a
    POD_NOT_CREATED = "PodNotCreated"  # JOB-15a
    JOB_NOT_DELETED = "JobNotDeleted"  # JOB-15a
    POD_WAITING = "PodWaiting"  # JOB-15a
    IMAGE_PULL = "ImagePullFailed"  # JOB-14
    NEVER_ACKNOWLEDGED = "NeverAcknowledged"  # JOB-15
    OVERDUE = "StageOverdue"  # JOB-1
    WRITE_FAILED = "WriteFailed"
    POLICY_MISSING = "DeploymentPolicyNotFound"  # ROL-16


class Reason(msgspec.Struct, frozen=True):
    """Why a thing does not move and what releases it; `since` is seconds since the epoch, if known."""

    code: Code
    text: str
    release: str = ""
    since: float | None = None
