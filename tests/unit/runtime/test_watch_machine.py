"""The list-and-watch machine, by enumeration."""

import itertools

import pytest

from controller_runtime.watch.machine import (
    PAGES_AFTER_FAULTS,
    RELIST_AFTER_FAULTS,
    Apply,
    Begin,
    Bookmark,
    Commit,
    Discard,
    Effects,
    Empty,
    Ended,
    Failed,
    Fault,
    FetchPage,
    Input,
    Item,
    Listing,
    OpenStream,
    Page,
    Pause,
    Stage,
    Start,
    State,
    Streaming,
    Watching,
    step,
)

STATES: list[State] = [
    Empty(),
    Empty("7", streaming=False),
    Empty("7", faults=PAGES_AFTER_FAULTS),
    Streaming(""),
    Streaming("7", faults=2),
    Listing("", streaming=True),
    Listing("7", streaming=False, paged=False),
    Watching("7", streaming=True),
    Watching("7", streaming=False, faults=2),
]
INPUTS: list[Input] = [
    Start(),
    Item("9"),
    Item(""),
    Bookmark("9"),
    Bookmark("9", end_of_list=True),
    Page("9", "more"),
    Page("9"),
    Ended(),
    *(Failed(fault) for fault in Fault),
]


def requests(effects: Effects) -> list[FetchPage | OpenStream]:
    return [effect for effect in effects if isinstance(effect, FetchPage | OpenStream)]


@pytest.mark.parametrize(("state", "happened"), list(itertools.product(STATES, INPUTS)))
def test_every_state_knows_every_input(state: State, happened: Input) -> None:
    """At most one request follows, as the last effect, and no failure is followed by a request without a pause or
    another way.
    """
    after, effects = step(state, happened)
    asked = requests(effects)
    assert len(asked) <= 1
    assert not asked or effects[-1] is asked[0]
    if isinstance(happened, Failed) and asked and not isinstance(state, Empty):
        another_way = isinstance(state, Streaming) and isinstance(asked[0], FetchPage)
        assert another_way or any(isinstance(effect, Pause) for effect in effects)
    if (
        isinstance(state, Streaming | Listing)
        and isinstance(after, Empty | Streaming | Listing)
        and isinstance(happened, Failed)
    ):
        assert Discard() in effects  # traps 8, 9: half a list is no list


def test_a_streaming_list_counts_from_its_end_mark_on() -> None:
    """Traps 9, 10."""
    state, effects = step(Empty(), Start())
    assert (state, effects) == (Streaming(""), (Begin(), OpenStream("", initial=True)))
    state, effects = step(state, Item("99"))
    assert (state, effects) == (Streaming(""), (Stage(),))
    state, effects = step(state, Bookmark("50"))
    assert (state, effects) == (Streaming(""), ())
    state, effects = step(state, Bookmark("60", end_of_list=True))
    assert (state, effects) == (Watching("60", streaming=True), (Commit("60"),))


def test_a_streaming_list_that_is_cut_starts_over_at_the_version_first_asked_for() -> None:
    """Traps 9, 10: never at the version of an object it sent."""
    state, _ = step(Streaming("7"), Item("99"))
    state, effects = step(state, Failed(Fault.CUT))
    assert state == Streaming("7", faults=1)
    assert effects == (Discard(), Pause(Fault.CUT), Begin(), OpenStream("7", initial=True))


def test_a_server_that_refuses_streaming_lists_is_asked_for_pages_from_then_on() -> None:
    state, effects = step(Streaming(""), Failed(Fault.UNSUPPORTED))
    assert effects[-1] == FetchPage("")
    state, _ = step(state, Page("9"))
    state, effects = step(state, Failed(Fault.EXPIRED))
    assert effects[-1] == FetchPage("9")


def test_streaming_lists_that_keep_breaking_give_way_to_pages() -> None:
    state: State = Streaming("")
    for _ in range(PAGES_AFTER_FAULTS):
        state, effects = step(state, Failed(Fault.OTHER))
    assert effects[-1] == FetchPage("")


def test_after_expiry_the_list_is_asked_at_the_last_version_and_then_at_none() -> None:
    """Traps 3, 11."""
    state, effects = step(Watching("7", streaming=True), Failed(Fault.EXPIRED))
    assert effects[-1] == OpenStream("7", initial=True)
    state, effects = step(state, Failed(Fault.EXPIRED))
    assert effects[-1] == OpenStream("", initial=True)


def test_a_version_that_is_too_large_for_the_server_is_dropped() -> None:
    """Trap 12."""
    for state in (Watching("7", streaming=True), Streaming("7"), Listing("7", streaming=False)):
        _, effects = step(state, Failed(Fault.AHEAD))
        assert requests(effects)[0].version == ""


def test_a_busy_server_is_asked_the_same_again() -> None:
    """Trap 13: however often."""
    state: State = Watching("7", streaming=True)
    for _ in range(50):
        state, effects = step(state, Failed(Fault.BUSY))
        assert effects == (Pause(Fault.BUSY), OpenStream("7"))


def test_unexplained_faults_end_in_a_relist() -> None:
    state: State = Watching("7", streaming=True)
    for _ in range(RELIST_AFTER_FAULTS - 1):
        state, effects = step(state, Failed(Fault.OTHER))
        assert effects[-1] == OpenStream("7")
    _, effects = step(state, Failed(Fault.OTHER))
    assert effects == (Pause(Fault.OTHER), Begin(), OpenStream("7", initial=True))


def test_an_event_between_faults_makes_up_for_them() -> None:
    state, _ = step(Watching("7", streaming=True, faults=2), Bookmark("8"))
    _, effects = step(state, Failed(Fault.OTHER))
    assert effects[-1] == OpenStream("8")


def test_events_and_bookmarks_move_the_version() -> None:
    """Trap 4."""
    assert step(Watching("7", streaming=True), Item("8")) == (Watching("8", streaming=True), (Apply(),))
    assert step(Watching("8", streaming=True), Bookmark("9")) == (Watching("9", streaming=True), ())
    assert step(Watching("9", streaming=True), Ended()) == (Watching("9", streaming=True), (OpenStream("9"),))


def test_an_expired_continue_token_starts_over_and_then_asks_for_one_piece() -> None:
    """Trap 8."""
    state, effects = step(Listing("", streaming=False), Page("9", "more"))
    assert effects == (Stage(), FetchPage("", "more"))
    state, effects = step(state, Failed(Fault.EXPIRED))
    assert effects == (Discard(), Pause(Fault.EXPIRED), Begin(), FetchPage("", paged=False))
    state, effects = step(state, Page("9"))
    assert effects == (Stage(), Commit("9"), OpenStream("9"))
