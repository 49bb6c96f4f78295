"""Refusals in Kubernetes' own words: each function makes the `Status` the real API server answers.

Relies on nothing; everything in this package raises `RefusalError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from controller_runtime.testing.api_server.values import ApiResponse

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with one field: `reason` for machines (`FieldValueInvalid`), `text` the words after the path."""

    field: str
    reason: str
    text: str

    def cause(self) -> dict[str, str]:
        """As an entry of `details.causes`."""
        return {"reason": self.reason, "message": self.text, "field": self.field}


class RefusalError(Exception):
    """The request is refused with this `Status`, or with plain text where the real server has no `Status`."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        text: str | None = None,
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}
        self.text = text
        self.warnings: tuple[str, ...] = ()
        """Said besides, in `Warning` headers."""
        super().__init__(f"{code} {reason}: {message}")

    def status(self) -> dict[str, Any]:
        """The `v1.Status`."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    def response(self) -> ApiResponse:
        """The answer on the wire, with `Retry-After` where the status names seconds."""
        if self.text is not None:
            return ApiResponse(self.code, self.text.encode(), content_type="text/plain; charset=utf-8")
        seconds = (self.details or {}).get("retryAfterSeconds")
        headers = {"Retry-After": str(seconds)} if seconds else {}
        headers |= warning_header(self.warnings)
        return ApiResponse(self.code, msgspec.json.encode(self.status()) + b"\n", headers)


def warning_header(warnings: Sequence[str]) -> dict[str, str]:
    """The header that says these; nothing for none."""
    said = ", ".join('299 - "' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in warnings)
    return {"Warning": said} if said else {}


def qualified(group: str, word: str) -> str:
    """`jobs.batch`, `configmaps`."""
    return f"{word}.{group}" if group else word


def _details(group: str, kind: str, name: str = "", **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in details.items() if value}


def page_not_found() -> RefusalError:
    """No such path: plain text, no `Status`."""
    return RefusalError(404, "", "404 page not found", text="404 page not found\n")


def not_found(group: str, plural: str, name: str) -> RefusalError:
    """No such object."""
    message = f'{qualified(group, plural)} "{name}" not found'
    return RefusalError(404, "NotFound", message, details=_details(group, plural, name))


def no_such_resource() -> RefusalError:
    """No such subresource or resource in a group that is served."""
    return RefusalError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(group: str, plural: str, name: str) -> RefusalError:
    """The name is taken."""
    message = f'{qualified(group, plural)} "{name}" already exists'
    return RefusalError(409, "AlreadyExists", message, details=_details(group, plural, name))


def conflict(group: str, word: str, name: str, why: str) -> RefusalError:
    """A precondition failed; `word` is the plural, or the kind where Kubernetes says the kind."""
    message = f'Operation cannot be fulfilled on {qualified(group, word)} "{name}": {why}'
    return RefusalError(409, "Conflict", message, details=_details(group, word, name))


def invalid(group: str, kind: str, name: str, problems: Sequence[FieldProblem]) -> RefusalError:
    """The object does not validate."""
    texts = list(dict.fromkeys(f"{problem.field}: {problem.text}" for problem in problems))
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{qualified(group, kind)} "{name}" is invalid: {said}'
    causes = [problem.cause() for problem in problems]
    return RefusalError(422, "Invalid", message, details=_details(group, kind, name, causes=causes))


def unprocessable(message: str, *, group: str = "", kind: str = "", name: str = "") -> RefusalError:
    """A patch that cannot be applied: a failed `test`, a missing path."""
    details = _details(group, kind, name)
    return RefusalError(422, "Invalid", message, details=details)


def bad_request(message: str) -> RefusalError:
    """The request makes no sense."""
    return RefusalError(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str, causes: list[dict[str, str]] | None = None) -> RefusalError:
    """An admission check refused."""
    message = f'{qualified(group, plural)} "{name}" is forbidden: {why}'
    return RefusalError(403, "Forbidden", message, details=_details(group, plural, name, causes=causes))


def unauthorized() -> RefusalError:
    """Nobody knows who is asking."""
    return RefusalError(401, "Unauthorized", "Unauthorized")


def media_type_not_handled() -> RefusalError:
    """A patch of a kind no resource takes."""
    return RefusalError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def method_not_allowed() -> RefusalError:
    """The resource has no such verb."""
    message = "the server does not allow this method on the requested resource"
    return RefusalError(405, "MethodNotAllowed", message, details={})


def unsupported_media_type(accepted: Sequence[str]) -> RefusalError:
    """A patch of a kind this resource does not take."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return RefusalError(415, "UnsupportedMediaType", message)


def expired(message: str, *, continue_: str = "") -> RefusalError:
    """The version asked for is forgotten; `continue_` is a token for an inconsistent rest."""
    return RefusalError(410, "Expired", message, metadata={"continue": continue_} if continue_ else None)


def too_large_version(asked: int, current: int) -> RefusalError:
    """The version asked for is not there yet."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return RefusalError(504, "Timeout", message, details=details)


def too_many_requests(
    message: str, *, retry_after: int = 0, causes: list[dict[str, str]] | None = None
) -> RefusalError:
    """Not now."""
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = causes
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return RefusalError(429, "TooManyRequests", message, details=details)


def plain_error(message: str) -> RefusalError:
    """The server failed in a way it has no reason for."""
    return RefusalError(500, "", message)


def internal_error(message: str) -> RefusalError:
    """The server failed."""
    details = {"causes": [{"message": message}]}
    return RefusalError(500, "InternalError", f"Internal error occurred: {message}", details=details)
