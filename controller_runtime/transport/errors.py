"""What can go wrong with a request, as types: the server said no (`ApiError` and its subclasses), or no answer came
(`TransportError`).

The subclass follows the `reason` of the server's `Status`, or the HTTP status when there is none. Callers match on
types, people read the message: method, path, status and the server's own words.
"""

from typing import ClassVar

import msgspec


class Cause(msgspec.Struct, frozen=True, rename={"type": "reason"}):
    """One cause of a refusal: `type` is a word for machines (`FieldValueInvalid`, `DisruptionBudget`), `field` a
    path.
    """

    type: str = ""
    message: str = ""
    field: str = ""


class ErrorDetails(msgspec.Struct, frozen=True, rename={"retry_after_seconds": "retryAfterSeconds"}):
    """`Status.details`: which object was refused, and why."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0

    def has_cause(self, kind: str) -> bool:
        """Whether one of the causes is of this type."""
        return any(cause.type == kind for cause in self.causes)


class Status(msgspec.Struct, frozen=True):
    """`v1.Status`, the body of every refusal and the object of an ERROR watch event."""

    kind: str = ""
    status: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: ErrorDetails | None = None


_STATUS = msgspec.json.Decoder(Status)
_NO_DETAILS = ErrorDetails()


def decode_status(body: bytes | msgspec.Raw) -> Status:
    """Read a `Status`; a body that is none (a proxy's page, an empty one) becomes one with its beginning as the
    message.
    """
    try:
        return _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Status(message=bytes(body[:512]).decode("utf-8", "replace").strip())


class ApiError(Exception):
    """The API server answered with a refusal.

    `status` is the HTTP status, `reason` the server's word for it, `retry_after` the seconds it asks to wait, `body`
    the answer as it came, `details` the refused object and the causes.
    """

    reasons: ClassVar[tuple[str, ...]] = ()
    codes: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        *,
        status: int,
        reason: str = "",
        message: str = "",
        details: ErrorDetails | None = None,
        retry_after: float | None = None,
        request: str = "",
        body: bytes = b"",
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or _NO_DETAILS
        self.retry_after = retry_after
        self.request = request
        self.body = body
        super().__init__(f"{request}: {status} {reason}: {message}" if request else f"{status} {reason}: {message}")


class BadRequest(ApiError):  # noqa: N818 - the names are the API server's reasons
    """400: the request makes no sense to the server."""

    reasons = ("BadRequest",)
    codes = (400,)


class Unauthorized(ApiError):  # noqa: N818
    """401: the server does not know who is asking."""

    reasons = ("Unauthorized",)
    codes = (401,)


class Forbidden(ApiError):  # noqa: N818
    """403: who is asking may not, or an admission check refused."""

    reasons = ("Forbidden",)
    codes = (403,)


class NotFound(ApiError):  # noqa: N818
    """404: no such object, or no such resource."""

    reasons = ("NotFound",)
    codes = (404,)


class Conflict(ApiError):  # noqa: N818
    """409: the object changed since it was read, or a precondition failed.

    Read it live before trying again (trap 35).
    """

    reasons = ("Conflict",)
    codes = (409,)


class AlreadyExists(ApiError):  # noqa: N818
    """409: an object of that name is there."""

    reasons = ("AlreadyExists",)


class Gone(ApiError):  # noqa: N818
    """410: the resource version asked for is too old."""

    reasons = ("Expired", "Gone")
    codes = (410,)


class Invalid(ApiError):  # noqa: N818
    """422: the object is not valid, or a JSON patch's test failed."""

    reasons = ("Invalid",)
    codes = (422,)


class TooManyRequests(ApiError):  # noqa: N818
    """429: later; for an eviction, a disruption budget says not yet (`details.has_cause("DisruptionBudget")`)."""

    reasons = ("TooManyRequests",)
    codes = (429,)


class ServerTimeout(ApiError):  # noqa: N818
    """504, or 500 with that reason: the server gave up; it may have acted."""

    reasons = ("ServerTimeout", "Timeout")
    codes = (504,)


class InternalError(ApiError):
    """5xx: the server failed; it may have acted."""

    reasons = ("InternalError", "ServiceUnavailable")
    codes = (500, 502, 503)


_CLASSES = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    Conflict,
    AlreadyExists,
    Gone,
    Invalid,
    TooManyRequests,
    ServerTimeout,
    InternalError,
)
_BY_REASON: dict[str, type[ApiError]] = {reason: kind for kind in _CLASSES for reason in kind.reasons}
_BY_CODE: dict[int, type[ApiError]] = {code: kind for kind in _CLASSES for code in kind.codes}


def api_error(
    status: Status, *, code: int, request: str = "", body: bytes = b"", retry_after: float | None = None
) -> ApiError:
    """The exception for a refusal: by the server's reason first, by the HTTP status else."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(code) or (InternalError if code >= 500 else ApiError)
    details = status.details or _NO_DETAILS
    if retry_after is None and details.retry_after_seconds > 0:
        retry_after = float(details.retry_after_seconds)
    return kind(
        status=code,
        reason=status.reason,
        message=status.message,
        details=details,
        retry_after=retry_after,
        request=request,
        body=body,
    )


class TransportError(Exception):
    """No answer came: refused, cut, timed out.

    `sent` says whether the server may have acted: False if the request never left, None if nobody knows.
    """

    def __init__(self, message: str, *, sent: bool | None) -> None:
        super().__init__(message)
        self.sent = sent


class ConfigError(Exception):
    """The cluster's address or credentials cannot be found or read. Of a running client, a `TransportError` says so."""
