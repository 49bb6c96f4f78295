"""Log lines: one JSON object each for programs, or one readable line for a person on call (OBS-5).

Loggers are the standard library's. What a line is about goes into `extra` under the names of `CONTEXT`; everything else in
`extra` follows as it is. Nothing here looks into objects, so no spec, env value or ConfigMap content can get out by
itself; fields whose name says secret are masked all the same. The entry point of every command relies on it.
"""

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import msgspec
from opentelemetry import trace

from nodewright.operator.settings import LogFormat, LogLevel

CONTEXT: Final = ("cr", "node", "package", "stage")
"""Names of what a line can be about, in the order in which they are shown."""

_LEVELS: Final = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_RESERVED: Final = frozenset({"ts", "level", "logger", "msg", "error", "stacktrace"})
_SECRET: Final = re.compile(r"password|passwd|secret|token|authorization|credential|private_?key|(^|_)env($|_)", re.I)
_MASK: Final = "***"


def configure(*, level: LogLevel, format: LogFormat, stream: TextIO | None = None) -> None:  # noqa: A002
    """Send all logging of the process to `stream` (standard error) in this format, in place of any earlier handler."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format is LogFormat.JSON else ConsoleFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    logging.captureWarnings(True)
    # A library's own chatter is of use only to whom asked for everything.
    for name in ("aiohttp.access", "kubernetes_asyncio", "asyncio"):
        logging.getLogger(name).setLevel(_LEVELS[level] if level is LogLevel.DEBUG else logging.WARNING)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, logger, msg, then what the line is about, trace and span, and the error."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; a value that JSON cannot say is given as its text."""
        line: dict[str, Any] = {
            "ts": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
            **_span(),
            **_fields(record),
        }
        error = _error(record)
        if error is not None:
            line["error"], line["stacktrace"] = error
        return _as_json(line)


class ConsoleFormatter(logging.Formatter):
    """Time, level, what it is about, the sentence, further fields; a traceback on the lines below."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line to read."""
        fields = _fields(record)
        about = "/".join(str(fields.pop(name)) for name in CONTEXT if name in fields)
        parts = [_time(record), f"{record.levelname:<7}", f"[{about}]" if about else "", record.getMessage()]
        parts += [f"{name}={value if isinstance(value, str) else _as_json(value)}" for name, value in fields.items()]
        parts.append(f"({record.name})")
        line = " ".join(part for part in parts if part).replace("\r", "\\r").replace("\n", "\\n")
        error = _error(record)
        return line if error is None else f"{line}\n{error[1]}"


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    given = {name: value for name, value in vars(record).items() if name not in _STANDARD and value is not None}
    ordered = {name: given.pop(name) for name in CONTEXT if name in given} | given
    return {
        f"{name}_" if name in _RESERVED else name: _MASK if _SECRET.search(name) else value
        for name, value in ordered.items()
    }


def _span() -> dict[str, str]:
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(context.trace_id),
        "span_id": trace.format_span_id(context.span_id),
    }


def _error(record: logging.LogRecord) -> tuple[str, str] | None:
    """One line and the whole traceback of the exception a record carries."""
    if record.exc_info is None or record.exc_info[1] is None:
        return None
    error = record.exc_info[1]
    return f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)).rstrip()


def _as_json(value: object) -> str:
    # A log call must never fail its caller: json says what msgspec cannot (lone surrogates, huge integers).
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        try:
            return json.dumps(value, default=str)
        except (TypeError, ValueError, RecursionError):
            return json.dumps({"msg": ascii(value)})
