"""A pick: a node's place in a batch, kept on the node in `pick_<cr>` (ROL-13).

The JSON keys are `rollout`, `batch`, `compartment`, `order`, `time`, with `completed: true` once the node is
complete, and `outcome` ("erroring" or
"blocked") while the member is definite without being complete, so that a later pass knows that it waits to go on (ROL-10a).
"""

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


_TOO_LARGE = 2**31
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
    numbers = (pick.rollout, pick.batch, pick.order + 1)
    return pick if min(numbers) >= 1 and max(numbers) < _TOO_LARGE else None


def dump(pick: Pick) -> str:
    """The annotation's text."""
    return msgspec.json.encode(pick).decode()
