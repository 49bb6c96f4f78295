"""Which process wrote what, from the API server's audit log.

Replicas share their user and their user agent, but each has a token of its own here, and the API server notes a token's ID with every
request. Without bodies: the journal says what a write changed.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"


class _User(msgspec.Struct):
    username: str = ""
    extra: dict[str, list[str]] = {}


class _Object(msgspec.Struct):
    resource: str = ""
    subresource: str = ""
    name: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Entry(msgspec.Struct, rename="camel"):
    verb: str
    user: _User
    request_received_timestamp: str
    object_ref: _Object | None = None
    response_status: _Status | None = None


class Request(msgspec.Struct, frozen=True):
    """One answered request; `received` is Unix time by the API server's clock, `credential` the ID of the token it came with."""

    verb: str
    resource: str
    name: str
    code: int
    received: float
    credential: str

    @property
    def is_write(self) -> bool:
        """Whether it asked for a change."""
        return self.verb in WRITES


def requests_of(log: Path, user: str) -> list[Request]:
    """All requests of a user so far, in the order they were logged."""
    decoder, needle = msgspec.json.Decoder(_Entry), user.encode()
    found: list[Request] = []
    with log.open("rb") as lines:
        for line in lines:
            if needle not in line or not line.endswith(b"\n"):
                continue
            entry = decoder.decode(line)
            if entry.user.username != user:
                continue
            where = entry.object_ref or _Object()
            found.append(
                Request(
                    verb=entry.verb,
                    resource="/".join(filter(None, (where.resource, where.subresource))),
                    name=where.name,
                    code=entry.response_status.code if entry.response_status else 0,
                    received=datetime.fromisoformat(entry.request_received_timestamp).astimezone(UTC).timestamp(),
                    credential=next(iter(entry.user.extra.get(CREDENTIAL, [])), ""),
                )
            )
    return found
