"""A pick: a node's place in a batch, kept on the node in `pick_<cr>` (ROL-13).

The JSON keys are `rollout`, `batch`, `compartment`, `order`, `time`, with `completed: true` once the node is
complete, and `outcome` ("erroring" or
"blocked") while the member is definite without being complete, so that a later pass knows that it waits to go on (ROL-10a).
"""

from typing import Final, TypeGuard

import msgspec

DEFAULT_COMPARTMENT = "__default__"


class Pick(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node's place in a batch. `time` is RFC 3339, UTC."""

    rollout: int
    batch: int
    compartment: str
    order: int
    time: str
    completed: bool = False
    outcome: str = ""

    @property
    def over(self) -> bool:
        """The pick's work is done: its outcome is there for the evaluation of its batch."""
        return self.completed


_LIMIT: Final = 2**31
"""Numbers of ours never get there; one that has was not written by us."""
_decoder = msgspec.json.Decoder(Pick)


def parse(text: str | None) -> Pick | None:
    """The pick in the annotation's text; text that is not one, or holds impossible numbers, reads as none (LIF-1):
    the node is taken in anew (ROL-13)."""
    if text is None:
        return None
    try:
        pick = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    possible = all(is_possible(number) for number in (pick.rollout, pick.batch, pick.order))
    return pick if possible and min(pick.rollout, pick.batch) >= 1 else None


def is_possible(number: object) -> TypeGuard[int]:
    """Whether a rollout, batch or order number can be one of ours, on a node as in status (LIF-1, ROL-13)."""
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _LIMIT


def after(number: int) -> int:
    """The next number, and never one that would read as none: a rollout edited to the limit must not stand still (ROL-12)."""
    return min(number + 1, _LIMIT - 1)


def dump(pick: Pick) -> str:
    """The annotation's text."""
    return msgspec.json.encode(pick).decode()
