"""The arithmetic of batches (ROL-5, ROL-7 to ROL-9, ROL-11): ceilings, sizes, scores. Pure numbers in, numbers out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from nodewright.model.pick import is_possible


class StrategyKind(StrEnum):
    """How the batch size moves (ROL-8)."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True)
class Strategy:
    """A compartment's strategy with the defaults of ROL-9."""

    kind: StrategyKind = StrategyKind.FIXED
    initial_batch: int = 1
    batch_threshold: int = 100
    failure_threshold: int | None = None
    safety_limit: int = 50
    delta: int = 1
    growth_factor: int = 2


WITHOUT_STRATEGY = Strategy()


@dataclass(frozen=True, slots=True)
class BatchState:
    """`batchState` of a compartment (CON-5). `last_batch_size` is the size the strategy gave to the current batch."""

    current_batch: int = 1
    evaluated: bool = False
    consecutive_failures: int = 0
    completed_nodes: int = 0
    failed_nodes: int = 0
    should_stop: bool = False
    last_batch_size: int = 0
    last_batch_failed: bool = False

    @property
    def at_start(self) -> bool:
        """As it is when a rollout begins (ROL-15)."""
        return self == BatchState()

    def to_fields(self) -> dict[str, Any]:
        """As published."""
        return {
            "currentBatch": self.current_batch,
            "evaluated": self.evaluated,
            "consecutiveFailures": self.consecutive_failures,
            "completedNodes": self.completed_nodes,
            "failedNodes": self.failed_nodes,
            "shouldStop": self.should_stop,
            "lastBatchSize": self.last_batch_size,
            "lastBatchFailed": self.last_batch_failed,
        }


def read_batch_state(fields: object, *, population: int) -> BatchState:
    """What was published, with impossible values corrected (LIF-1, ROL-12): it never is negative and never freezes."""
    if not isinstance(fields, Mapping):
        return BatchState()

    def number(name: str, default: int, low: int, high: int | None) -> int:
        value = fields.get(name, default)
        if not is_possible(value) or value < low:
            return default  # a batch that no pick can name would never end
        return value if high is None else min(value, high)

    return BatchState(
        current_batch=number("currentBatch", 1, 1, None),
        evaluated=fields.get("evaluated") is True,
        consecutive_failures=number("consecutiveFailures", 0, 0, None),
        completed_nodes=number("completedNodes", 0, 0, population),
        failed_nodes=number("failedNodes", 0, 0, population),
        should_stop=fields.get("shouldStop") is True,
        last_batch_size=number("lastBatchSize", 0, 0, None),
        last_batch_failed=fields.get("lastBatchFailed") is True,
    )


def ceiling(*, population: int, percent: int | None, count: int | None) -> int:
    """How many nodes a budget admits (ROL-5, ROL-7): percent rounds down to at least one node, 0 only for none at all; count is as is."""
    if percent is not None:
        return max(1, population * percent // 100) if population else 0
    return population if count is None else count


def progress(*, processed: int, total: int) -> int:
    """Percent of the compartment that is complete or erroring (ROL-8)."""
    return processed * 100 // total if total else 100


def batch_size(strategy: Strategy, state: BatchState, *, processed: int, total: int) -> int:
    """The size the strategy gives to the next batch (ROL-8): at most what remains, at least 1. `state` is that of
    the batch just ended, or the start."""
    last = state.last_batch_size
    if last == 0 or strategy.kind is StrategyKind.FIXED:
        size = strategy.initial_batch
    else:
        shrink = state.last_batch_failed and progress(processed=processed, total=total) < strategy.safety_limit
        if strategy.kind is StrategyKind.LINEAR:
            size = max(1, last - strategy.delta) if shrink else last + strategy.delta
        else:
            size = min(
                max(1, last // strategy.growth_factor) if shrink else last * strategy.growth_factor, max(1, total)
            )
    return max(1, min(size, total - processed))


def evaluate(
    strategy: Strategy, state: BatchState, *, succeeded: int, failed: int, processed: int, total: int
) -> BatchState:
    """The batch state after its batch was evaluated (ROL-11); at least one member succeeded or failed."""
    score = succeeded * 100 // (succeeded + failed)
    lost = score < strategy.batch_threshold
    failures = state.consecutive_failures + 1 if lost else 0
    below = progress(processed=processed, total=total) < strategy.safety_limit
    stop = strategy.failure_threshold is not None and failures >= strategy.failure_threshold and below
    return replace(
        state,
        evaluated=True,
        consecutive_failures=failures,
        should_stop=state.should_stop or stop,
        last_batch_failed=lost,
    )
