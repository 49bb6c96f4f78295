"""Who may read the metrics: the API server says who a token belongs to, and what that one may do (OBS-3).

Relies on a client without a fence: a standby serves metrics too. Tokens are kept as digests only. Relied on by `http`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Protocol

import msgspec

from controller_runtime.clock import Clock, SystemClock
from controller_runtime.transport import Resource

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
ALLOWED_SECONDS = 60.0
"""How long a yes is remembered, and so works on after it was revoked."""
REFUSED_SECONDS = 10.0
_MAX_REMEMBERED = 256
_MAX_REVIEWS_AT_ONCE = 4


class Verdict(Enum):
    """What the API server says about a token."""

    ALLOWED = auto()
    UNKNOWN = auto()
    """It belongs to nobody."""
    FORBIDDEN = auto()
    """Its owner may not."""


class ReviewClient(Protocol):
    """What is needed of a client."""

    async def create(self, resource: Resource, body: Mapping[str, Any] | bytes) -> bytes:
        """Create an object; reviews are answered and not kept."""


class ApiServerAuthorizer:
    """Asks for each new token once whether its owner may `verb` the non-resource `path`, and remembers the answer briefly."""

    def __init__(
        self, client: ReviewClient, *, path: str = "/metrics", verb: str = "get", clock: Clock | None = None
    ) -> None:
        self._client = client
        self._path = path
        self._verb = verb
        self._clock: Clock = SystemClock() if clock is None else clock
        self._verdicts: OrderedDict[bytes, tuple[Verdict, float]] = OrderedDict()
        self._slots = asyncio.Semaphore(_MAX_REVIEWS_AT_ONCE)

    async def judge(self, token: str) -> Verdict:
        """The verdict on a bearer token. Raises ApiError or TransportError when the API server does not give one."""
        digest = hashlib.sha256(token.encode()).digest()
        known = self._known(digest)
        if known is not None:
            return known
        async with self._slots:
            known = self._known(digest)  # whoever was first has asked for all
            if known is not None:
                return known
            verdict = await self._ask(token)
        seconds = ALLOWED_SECONDS if verdict is Verdict.ALLOWED else REFUSED_SECONDS
        self._verdicts[digest] = (verdict, self._clock.monotonic() + seconds)
        if len(self._verdicts) > _MAX_REMEMBERED:
            self._verdicts.popitem(last=False)
        return verdict

    def _known(self, digest: bytes) -> Verdict | None:
        verdict, until = self._verdicts.get(digest, (None, 0.0))
        if verdict is None or self._clock.monotonic() < until:
            return verdict
        del self._verdicts[digest]
        return None

    async def _ask(self, token: str) -> Verdict:
        review = await self._review(TOKEN_REVIEWS, {"token": token})
        if not review.get("authenticated"):
            return Verdict.UNKNOWN
        user = review.get("user") or {}
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": self._path, "verb": self._verb},
        }
        access = await self._review(ACCESS_REVIEWS, spec)
        return Verdict.ALLOWED if access.get("allowed") and not access.get("denied") else Verdict.FORBIDDEN

    async def _review(self, resource: Resource, spec: dict[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        answer = msgspec.json.decode(await self._client.create(resource, body))
        status: dict[str, Any] = answer.get("status") or {}
        return status
