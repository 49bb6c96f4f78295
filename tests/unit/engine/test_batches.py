"""The arithmetic of batches as laws and tables (ROL-5, ROL-7 to ROL-9, ROL-11, ROL-12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.engine.batches import (
    BatchState,
    Strategy,
    StrategyKind,
    batch_size,
    ceiling,
    evaluate,
    progress,
    read_batch_state,
)

FIXED, LINEAR, EXPONENTIAL = StrategyKind.FIXED, StrategyKind.LINEAR, StrategyKind.EXPONENTIAL


@pytest.mark.parametrize(
    ("population", "percent", "count", "nodes"),
    [
        (10, None, None, 10),
        (10, 25, None, 2),
        (10, 1, None, 1),
        (10, 0, None, 1),
        (10, 100, None, 10),
        (0, 50, None, 0),
        (10, None, 0, 0),
        (3, None, 7, 7),
    ],
)
def test_a_budget_admits_so_many(population: int, percent: int | None, count: int | None, nodes: int) -> None:
    """ROL-5, ROL-7."""
    assert ceiling(population=population, percent=percent, count=count) == nodes


@pytest.mark.parametrize(
    ("strategy", "last", "failed", "processed", "total", "size"),
    [
        (Strategy(FIXED, initial_batch=3), 0, False, 0, 10, 3),
        (Strategy(FIXED, initial_batch=3), 3, True, 3, 10, 3),
        (Strategy(FIXED, initial_batch=3), 3, False, 9, 10, 1),  # at most what remains
        (Strategy(LINEAR, initial_batch=2), 0, False, 0, 20, 2),
        (Strategy(LINEAR, initial_batch=2, delta=3), 2, False, 2, 20, 5),
        (Strategy(LINEAR, initial_batch=2, delta=3), 5, True, 7, 20, 2),
        (Strategy(LINEAR, initial_batch=2, delta=3), 2, True, 7, 20, 1),  # at least 1
        (Strategy(LINEAR, initial_batch=2, delta=3), 5, True, 10, 20, 8),  # at the safety limit it never shrinks
        (Strategy(EXPONENTIAL, initial_batch=1), 0, False, 0, 20, 1),
        (Strategy(EXPONENTIAL, growth_factor=3), 2, False, 2, 20, 6),
        (Strategy(EXPONENTIAL), 5, True, 7, 20, 2),
        (Strategy(EXPONENTIAL), 1, True, 7, 20, 1),
        (Strategy(EXPONENTIAL), 16, False, 0, 20, 20),  # at most total
        (Strategy(FIXED), 1, False, 10, 10, 1),  # at least 1 though nothing remains
    ],
)
def test_the_size_of_a_batch(
    strategy: Strategy, last: int, failed: bool, processed: int, total: int, size: int
) -> None:
    """ROL-8, ROL-9."""
    assert (
        batch_size(
            strategy, BatchState(last_batch_size=last, last_batch_failed=failed), processed=processed, total=total
        )
        == size
    )


@given(
    st.builds(
        Strategy,
        st.sampled_from(StrategyKind),
        initial_batch=st.integers(1, 50),
        safety_limit=st.integers(1, 100),
        delta=st.integers(1, 20),
        growth_factor=st.integers(2, 5),
    ),
    st.builds(BatchState, last_batch_size=st.integers(0, 500), last_batch_failed=st.booleans()),
    st.integers(0, 300).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))),
)
def test_a_size_is_at_most_what_remains_and_at_least_one(
    strategy: Strategy, state: BatchState, numbers: tuple[int, int]
) -> None:
    """ROL-8, as a law; and a failed batch never makes the next one larger while below the safety limit."""
    processed, total = numbers
    size = batch_size(strategy, state, processed=processed, total=total)
    assert 1 <= size <= max(1, total - processed)
    below = progress(processed=processed, total=total) < strategy.safety_limit
    if state.last_batch_failed and below and state.last_batch_size and strategy.kind is not FIXED:
        assert size <= state.last_batch_size


@pytest.mark.parametrize(
    ("threshold", "succeeded", "failed", "lost"),
    [(100, 3, 0, False), (100, 2, 1, True), (66, 2, 1, False), (67, 2, 1, True), (1, 0, 1, True)],
)
def test_a_batch_fails_below_its_threshold(threshold: int, succeeded: int, failed: int, lost: bool) -> None:
    """ROL-11: score = succeeded * 100 // (succeeded + failed)."""
    after = evaluate(
        Strategy(batch_threshold=threshold),
        BatchState(consecutive_failures=4),
        succeeded=succeeded,
        failed=failed,
        processed=3,
        total=10,
    )
    assert (after.last_batch_failed, after.consecutive_failures, after.evaluated) == (lost, 5 if lost else 0, True)


@pytest.mark.parametrize(
    ("threshold", "before", "processed", "stops"),
    [(1, 0, 3, True), (2, 0, 3, False), (2, 1, 3, True), (1, 0, 5, False), (1, 0, 4, True), (None, 9, 3, False)],
)
def test_a_compartment_stops_only_below_its_safety_limit(
    threshold: int | None, before: int, processed: int, stops: bool
) -> None:
    """ROL-11, B19: with the default of 50 it goes on after half."""
    strategy = Strategy(failure_threshold=threshold)
    after = evaluate(
        strategy,
        BatchState(consecutive_failures=before),
        succeeded=0,
        failed=1,
        processed=processed,
        total=10,
    )
    assert after.should_stop is stops


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.dictionaries(st.sampled_from(tuple(BatchState().to_fields())), x),
    )
)
def test_whatever_is_published_reads_as_a_possible_state(fields: object) -> None:
    """LIF-1, ROL-12: never negative, never above the compartment, never frozen."""
    state = read_batch_state(fields, population=5)
    assert state.current_batch >= 1
    assert 0 <= state.completed_nodes <= 5
    assert 0 <= state.failed_nodes <= 5
    assert min(state.consecutive_failures, state.last_batch_size) >= 0
    assert read_batch_state(state.to_fields(), population=5) == state
