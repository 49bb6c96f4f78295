"""What goes in and comes out of the embedded API server: requests, answers, users, and faults to order.

Relies on nothing. The HTTP front, the in-process client and the tests' fault hooks all speak in these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as plain JSON values. Objects in the store are shared: read them, never change them."""


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()


ADMINISTRATOR = User("kubernetes-admin", groups=("system:masters", "system:authenticated"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request. `path` is percent-decoded by segment; `query` has the last value of each name."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = ""
    user: User = ADMINISTRATOR
    user_agent: str = ""

    @property
    def is_watch(self) -> bool:
        """Whether the answer is a stream of events."""
        return self.method == "GET" and self.query.get("watch", "") in ("true", "1")


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """One answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with one request; what is not set goes well.

    Of a hook before the request, `delay` passes before the server acts; of a hook after it, before the answer leaves.
    """

    delay: float = 0.0
    """Seconds."""
    answer: ApiResponse | None = None
    """Answered instead: from the hook before, the server never acts; from the hook after, it has acted."""
    lost: bool = False
    """The connection breaks without an answer; of the hook before, the server has not acted; of the one after, it has."""


class AnswerLostError(Exception):
    """A fault took the answer; the front breaks the connection."""


BeforeHook = Callable[[ApiRequest], Fault | None]
AfterHook = Callable[[ApiRequest, ApiResponse], Fault | None]
