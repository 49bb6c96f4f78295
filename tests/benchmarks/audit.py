"""Counts one user's requests in an API server's audit log: who asks for what is known exactly there, and nowhere else.

A request is counted once, by its id, at the time it was received; `watch` requests log twice.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class _User(msgspec.Struct, gc=False):
    username: str = ""


class _Object(msgspec.Struct, gc=False):
    resource: str = ""
    subresource: str = ""


class _Answer(msgspec.Struct, gc=False):
    code: int = 0


class _Entry(msgspec.Struct, gc=False, rename="camel"):
    audit_id: str = msgspec.field(name="auditID")
    verb: str
    user: _User
    request_received_timestamp: str
    object_ref: _Object | None = None
    response_status: _Answer | None = None


class Request(msgspec.Struct, frozen=True, gc=False):
    """One answered request: verb and `resource/subresource`, HTTP status, and when it was received (seconds since 1970)."""

    verb: str
    resource: str
    code: int
    received: float

    @property
    def is_write(self) -> bool:
        """Whether it asked for a change."""
        return self.verb in WRITES


def requests_of(log: Path, user: str, *, since: float = 0.0) -> list[Request]:
    """The requests of a user that were received after `since` (seconds since 1970), in the order they were logged."""
    decoder = msgspec.json.Decoder(_Entry)
    found: dict[str, Request] = {}
    needle = user.encode()
    with log.open("rb") as lines:
        for line in lines:
            if needle not in line or not line.endswith(b"\n"):
                continue
            entry = decoder.decode(line)
            if entry.user.username != user:
                continue
            where = entry.object_ref
            resource = "(none)" if where is None else "/".join(filter(None, (where.resource, where.subresource)))
            code = entry.response_status.code if entry.response_status is not None else 0
            received = datetime.fromisoformat(entry.request_received_timestamp).astimezone(UTC).timestamp()
            if received < since:
                continue
            found[entry.audit_id] = Request(entry.verb, resource, code, received)
    return list(found.values())


def count(requests: Iterable[Request]) -> Counter[str]:
    """How many by `verb resource`."""
    return Counter(f"{request.verb} {request.resource}" for request in requests)
