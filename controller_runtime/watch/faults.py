"""What a failure means for a list-and-watch: one classification for HTTP answers and for ERROR events (trap 2)."""

from controller_runtime.transport import ApiError, Status, TransportError
from controller_runtime.watch.machine import Fault

_AHEAD = "ResourceVersionTooLarge"


def fault_of_error(error: ApiError | TransportError, *, streaming_list: bool = False) -> Fault:
    """The fault behind an exception of the client."""
    if isinstance(error, TransportError):
        # The server is not there, and a list would find the same.
        return Fault.BUSY
    ahead = error.details.has_cause(_AHEAD) or "Too large resource version" in error.message
    fault = _fault(error.status, error.reason, ahead=ahead)
    if fault is Fault.OTHER and streaming_list and 400 <= error.status < 500 and error.status != 401:
        return Fault.UNSUPPORTED
    return fault


def fault_of_event(status: Status) -> Fault:
    """The fault behind an ERROR event."""
    ahead = status.details is not None and status.details.has_cause(_AHEAD)
    fault = _fault(status.code, status.reason, ahead=ahead or "Too large resource version" in status.message)
    # In a stream that was open, these are no word about the resource as a whole.
    return Fault.OTHER if fault is Fault.ABSENT else fault


def _fault(code: int, reason: str, *, ahead: bool) -> Fault:
    if ahead:
        return Fault.AHEAD
    if code == 410 or reason in ("Expired", "Gone"):
        return Fault.EXPIRED
    if code == 429:
        return Fault.BUSY
    if code in (403, 404):
        return Fault.ABSENT
    return Fault.OTHER
