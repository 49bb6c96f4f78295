"""How a list-and-watch goes, as a pure function: `step(state, input) -> (state, effects)`.

No clock, no network, no randomness: the reflector does what the effects say and tells what happened. So each rule of
resuming, relisting and backing off can be tested by enumeration.

    Empty ──── asks for a streaming list ──▶ Streaming ──(end mark)──▶ Watching ──(cut, timeout)──▶ Watching
      │                                          │                        │
      ├──── or, where refused, for pages ──▶ Listing ──(last page)──▶ Watching
      └───────────◀── cut, page failed ──────────┴──────◀── expired ──────┘
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec


class Fault(StrEnum):
    """Why a request or a stream failed, by what has to be done about it; the values are metric labels."""

    EXPIRED = "expired"
    """410 in either form: the version is too old. List again (traps 2, 3)."""
    AHEAD = "too_large_resource_version"
    """This server has not caught up with our version: ask without one (trap 12)."""
    BUSY = "busy"
    """429, or no connection: the same again, later; a list would only make it worse (trap 13)."""
    UNSUPPORTED = "streaming_unsupported"
    """The server does not do streaming lists."""
    ABSENT = "absent"
    """404 or 403: no such resource, or no permission. Wait for somebody to install or allow it (trap 48)."""
    STALLED = "stalled"
    """Nothing came for longer than the server may be silent (trap 14)."""
    CUT = "cut"
    """The stream broke, or ended as soon as it was open (trap 15)."""
    OTHER = "error"
    """Anything else: a 5xx, an ERROR event, a broken connection."""


RELIST_AFTER_FAULTS = 3
"""So many unexplained faults in a row at one version, and the picture is fetched anew."""
PAGES_AFTER_FAULTS = 3
"""So many broken streaming lists in a row, and the list is fetched in pages."""


# --- states -----------------------------------------------------------------------------------------------------------


class Empty(msgspec.Struct, frozen=True):
    """Nothing is under way; next comes a list that is not older than `version` ("" asks for the newest there is).

    Next: `Streaming` or `Listing`.
    """

    version: str = ""
    streaming: bool = True
    """Whether the server does streaming lists, as far as is known."""
    paged: bool = True
    """False after a continue token expired: then in one piece."""
    faults: int = 0
    """Streaming lists that failed in a row."""


class Streaming(msgspec.Struct, frozen=True):
    """A streaming list is under way: objects come in no order, and count only when the end mark came (traps 9, 10).

    Next: `Watching` at the mark's version, on the same stream; `Empty` when it is cut; `Listing` when it is refused
    or stalls.
    """

    asked: str
    faults: int = 0


class Listing(msgspec.Struct, frozen=True):
    """Pages are coming; they count only when all are there (trap 8).

    Next: `Watching` after the last page; `Empty` when one fails.
    """

    asked: str
    streaming: bool
    paged: bool = True


class Watching(msgspec.Struct, frozen=True):
    """The picture is whole; changes are followed from `version` on.

    Next: `Watching` after each event, bookmark, cut or timeout; `Empty` when the version is too old or faults pile up.
    """

    version: str
    streaming: bool
    faults: int = 0


State: TypeAlias = Empty | Streaming | Listing | Watching


# --- inputs -----------------------------------------------------------------------------------------------------------


class Start(msgspec.Struct, frozen=True):
    """The reflector was started, or a pause is over."""


class Item(msgspec.Struct, frozen=True):
    """An object event (ADDED, MODIFIED, DELETED) at this version."""

    version: str


class Bookmark(msgspec.Struct, frozen=True):
    """A BOOKMARK event; `end_of_list` if it marks the end of a streaming list."""

    version: str
    end_of_list: bool = False


class Page(msgspec.Struct, frozen=True):
    """A page of a list; `continue_` is empty on the last one."""

    version: str
    continue_: str = ""


class Ended(msgspec.Struct, frozen=True):
    """The stream ended in good order, after a decent time."""


class Failed(msgspec.Struct, frozen=True):
    """A request, or the stream, failed."""

    fault: Fault


Input: TypeAlias = Start | Item | Bookmark | Page | Ended | Failed


# --- effects ----------------------------------------------------------------------------------------------------------


class Begin(msgspec.Struct, frozen=True):
    """Start a new, separate picture."""


class Stage(msgspec.Struct, frozen=True):
    """Put the event's object, or the page's, into the new picture."""


class Discard(msgspec.Struct, frozen=True):
    """Throw the new picture away."""


class Commit(msgspec.Struct, frozen=True):
    """Put the new picture in the place of the old one, in one step, as of `version`."""

    version: str


class Apply(msgspec.Struct, frozen=True):
    """Take the event's object into the picture."""


class Pause(msgspec.Struct, frozen=True):
    """Wait before going on: for `fault`'s backoff."""

    fault: Fault


class FetchPage(msgspec.Struct, frozen=True):
    """Request a page: the first one not older than `version`, others by `continue_`."""

    version: str
    continue_: str = ""
    paged: bool = True


class OpenStream(msgspec.Struct, frozen=True):
    """Open a watch at `version`; with `initial` it sends what there is first, and marks the end."""

    version: str
    initial: bool = False


Effect: TypeAlias = Begin | Stage | Discard | Commit | Apply | Pause | FetchPage | OpenStream
Effects: TypeAlias = tuple[Effect, ...]

_STAGE: Effects = (Stage(),)
_APPLY: Effects = (Apply(),)
_NONE: Effects = ()


def step(state: State, happened: Input) -> tuple[State, Effects]:
    """The next state, and what to do, in order. Total: what makes no sense in a state changes nothing."""
    match state:
        case Watching():
            return _watching(state, happened)
        case Streaming():
            return _streaming(state, happened)
        case Listing():
            return _listing(state, happened)
        case Empty():
            return _list(state, _NONE) if isinstance(happened, Start) else (state, _NONE)


def _list(wish: Empty, before: Effects) -> tuple[State, Effects]:
    """Ask for a list, after doing `before`."""
    if wish.streaming and wish.faults < PAGES_AFTER_FAULTS:
        return Streaming(wish.version, wish.faults), (*before, Begin(), OpenStream(wish.version, initial=True))
    state = Listing(wish.version, streaming=wish.streaming, paged=wish.paged)
    return state, (*before, Begin(), FetchPage(wish.version, paged=wish.paged))


def _streaming(state: Streaming, happened: Input) -> tuple[State, Effects]:
    match happened:
        case Item():
            return state, _STAGE
        case Bookmark(version=version, end_of_list=True):
            return Watching(version, streaming=True), (Commit(version),)
        case Failed(fault=Fault.UNSUPPORTED):
            return _list(Empty(state.asked, streaming=False), (Discard(),))
        case Failed(fault=Fault.STALLED):
            # A server that ignores the wish looks like this; the next list may be streamed again.
            listing = Listing(state.asked, streaming=True)
            return listing, (Discard(), Begin(), FetchPage(state.asked))
        case Failed(fault=fault):
            faults = state.faults + (fault in (Fault.OTHER, Fault.CUT))
            return _list(Empty(_version_after(fault, state.asked), faults=faults), (Discard(), Pause(fault)))
        case Ended():
            return _list(Empty(state.asked, faults=state.faults + 1), (Discard(), Pause(Fault.CUT)))
        case _:
            return state, _NONE


def _listing(state: Listing, happened: Input) -> tuple[State, Effects]:
    match happened:
        case Page(version=version, continue_=""):
            return Watching(version, streaming=state.streaming), (Stage(), Commit(version), OpenStream(version))
        case Page(continue_=token):
            return state, (Stage(), FetchPage(state.asked, token, paged=state.paged))
        case Failed(fault=Fault.EXPIRED) if state.paged and not state.asked:
            # Without a version only a continue token can be too old: the list takes longer than tokens live.
            return _list(Empty("", streaming=state.streaming, paged=False), (Discard(), Pause(Fault.EXPIRED)))
        case Failed(fault=fault):
            wish = Empty(_version_after(fault, state.asked), streaming=state.streaming, paged=state.paged)
            return _list(wish, (Discard(), Pause(fault)))
        case _:
            return state, _NONE


def _watching(state: Watching, happened: Input) -> tuple[State, Effects]:
    match happened:
        case Item(version=version):
            return Watching(version or state.version, state.streaming), _APPLY
        case Bookmark(version=version):
            return Watching(version or state.version, state.streaming), _NONE
        case Ended():
            return Watching(state.version, state.streaming), (OpenStream(state.version),)
        case Failed(fault=Fault.EXPIRED):
            return _list(Empty(state.version, state.streaming), (Pause(Fault.EXPIRED),))
        case Failed(fault=Fault.AHEAD):
            return _list(Empty("", state.streaming), (Pause(Fault.AHEAD),))
        case Failed(fault=Fault.ABSENT):
            return _list(Empty("", state.streaming), (Pause(Fault.ABSENT),))
        case Failed(fault=fault):
            faults = state.faults + (fault is Fault.OTHER)
            if faults >= RELIST_AFTER_FAULTS:
                return _list(Empty(state.version, state.streaming), (Pause(fault),))
            return Watching(state.version, state.streaming, faults), (Pause(fault), OpenStream(state.version))
        case _:
            return state, _NONE


def _version_after(fault: Fault, asked: str) -> str:
    """The version the next list asks for: none once this one was too old or too new."""
    return "" if fault in (Fault.EXPIRED, Fault.AHEAD, Fault.ABSENT) else asked
