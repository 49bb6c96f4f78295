"""Log lines say when, how bad, what about and what, for programs and for people (OBS-5)."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from nodewright.operator.logs import JsonFormatter, configure
from nodewright.operator.settings import LogFormat, LogLevel

LOGGER = logging.getLogger("nodewright.test")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("aiohttp.access", "kubernetes_asyncio", "asyncio")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, each in levels.items():
        logging.getLogger(name).setLevel(each)
    logging.captureWarnings(capture=False)


@pytest.fixture
def json_lines() -> io.StringIO:
    stream = io.StringIO()
    configure(level=LogLevel.INFO, format=LogFormat.JSON, stream=stream)
    return stream


@pytest.fixture
def console() -> io.StringIO:
    stream = io.StringIO()
    configure(level=LogLevel.DEBUG, format=LogFormat.CONSOLE, stream=stream)
    return stream


def raised(message: str) -> LookupError:
    """An error that has been raised and caught, so that it has a traceback."""
    with pytest.raises(LookupError) as caught:
        raise LookupError(message)
    return caught.value


def line_of(stream: io.StringIO) -> dict[str, Any]:
    (line,) = stream.getvalue().splitlines()
    return dict(json.loads(line))


def test_a_line_is_one_json_object_with_time_level_logger_message_and_what_it_is_about(json_lines: io.StringIO) -> None:
    LOGGER.info("picked %s", "n1", extra={"stage": "apply", "cr": "gpu", "node": "n1", "package": "tuning", "batch": 2})
    line = line_of(json_lines)
    assert line.pop("ts").endswith("Z")
    assert list(line.items()) == [
        ("level", "info"),
        ("logger", "nodewright.test"),
        ("msg", "picked n1"),
        ("cr", "gpu"),
        ("node", "n1"),
        ("package", "tuning"),
        ("stage", "apply"),
        ("batch", 2),
    ]


def test_the_time_is_utc_in_rfc_3339(json_lines: io.StringIO) -> None:
    record = logging.makeLogRecord({"created": 1_700_000_000.125, "levelname": "INFO", "msg": "x"})
    logging.getLogger().handlers[0].emit(record)
    assert line_of(json_lines)["ts"] == "2023-11-14T22:13:20.125Z"


def test_a_message_of_many_lines_stays_one_line(json_lines: io.StringIO) -> None:
    LOGGER.warning("a\nb")
    assert line_of(json_lines)["msg"] == "a\nb"


def test_an_exception_is_a_field(json_lines: io.StringIO) -> None:
    LOGGER.error("the pass failed", exc_info=raised("no\nway"))
    line = line_of(json_lines)
    assert (line["level"], line["error"]) == ("error", "LookupError: no\nway")
    assert line["stacktrace"].startswith("Traceback")


def test_a_line_within_a_span_names_it(json_lines: io.StringIO) -> None:
    """OBS-4."""
    with TracerProvider(shutdown_on_exit=False).get_tracer("test").start_as_current_span("pass") as span:
        LOGGER.info("x")
        context = span.get_span_context()
    line = line_of(json_lines)
    assert line["trace_id"] == trace.format_trace_id(context.trace_id)
    assert line["span_id"] == trace.format_span_id(context.span_id)


def test_a_line_outside_of_any_span_names_none(json_lines: io.StringIO) -> None:
    """OBS-4."""
    LOGGER.info("x")
    assert not {"trace_id", "span_id"} & set(line_of(json_lines))


def test_fields_that_are_secrets_by_name_are_masked(json_lines: io.StringIO) -> None:
    """OBS-5."""
    LOGGER.info("x", extra={"bearer_token": "t", "Authorization": "b", "env": {"A": "v"}, "environment": "test"})
    line = line_of(json_lines)
    assert (line["bearer_token"], line["Authorization"], line["env"], line["environment"]) == (
        "***",
        "***",
        "***",
        "test",
    )


def test_a_field_never_takes_the_place_of_a_standard_one(json_lines: io.StringIO) -> None:
    LOGGER.info("x", extra={"level": "mine", "error": None})
    line = line_of(json_lines)
    assert (line["level"], line["level_"]) == ("info", "mine")
    assert "error" not in line


def test_values_that_json_cannot_say_do_not_fail_the_caller() -> None:
    """Formatted without a logger: pytest would carry a lone surrogate on to what cannot."""
    endless: list[object] = []
    endless.append(endless)

    def line(message: str, **fields: object) -> dict[str, Any]:
        record = LOGGER.makeRecord(LOGGER.name, logging.INFO, "", 0, message, (), None, extra=fields)
        parsed: dict[str, Any] = json.loads(JsonFormatter().format(record))
        return parsed

    assert line("\ud800", cr=object, big=2**100)["cr"] == "<class 'object'>"
    assert "endless" in line("x", endless=endless)["msg"]


def test_only_lines_of_the_level_or_worse_are_logged(json_lines: io.StringIO) -> None:
    """CON-26."""
    LOGGER.debug("x")
    assert json_lines.getvalue() == ""


def test_chatter_of_libraries_needs_the_level_debug(json_lines: io.StringIO) -> None:
    logging.getLogger("aiohttp.access").info("GET /healthz")
    assert json_lines.getvalue() == ""


def test_a_console_line_reads_from_what_it_is_about_to_what_happened(console: io.StringIO) -> None:
    LOGGER.warning(
        "stage failed", extra={"cr": "gpu", "node": "n1", "package": "tuning", "stage": "apply", "attempt": 2}
    )
    (line,) = console.getvalue().splitlines()
    assert line.partition(" ")[2] == "WARNING [gpu/n1/tuning/apply] stage failed attempt=2 (nodewright.test)"


def test_a_console_line_of_many_lines_stays_one_line_but_for_its_traceback(console: io.StringIO) -> None:
    LOGGER.error("a\nb", exc_info=raised("x"))
    first, *rest = console.getvalue().splitlines()
    assert "a\\nb" in first
    assert rest[0].startswith("Traceback")
    assert rest[-1] == "LookupError: x"
