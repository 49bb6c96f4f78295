"""Traces: off by default and free of charge; spans of passes and requests when on."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from contextvars import copy_context

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from controller_runtime.controller import Controller, Request, Result
from controller_runtime.observability.tracing import RequestSpans, set_up_tracing
from controller_runtime.transport import Conflict, Resource, TransportError

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)
ON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


class Spans(SpanExporter):
    """Keeps spans."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self))
        self.tracer = provider.get_tracer("test")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.ended.extend(spans)
        return SpanExportResult.SUCCESS


def set_up(environ: dict[str, str]) -> bool:
    tracing = set_up_tracing(service_name="a", service_version="1", service_instance="i", environ=environ)
    tracing.shut_down()
    return tracing.is_on


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        {**ON, "OTEL_SDK_DISABLED": "TRUE"},
        {**ON, "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_tracing_is_off_unless_an_endpoint_is_set_and_nothing_forbids_it(environ: dict[str, str]) -> None:
    """OBS-4."""
    assert not set_up(environ)


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_an_endpoint_turns_tracing_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """OBS-4."""
    monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert set_up({name: "http://127.0.0.1:1"})


def test_off_imports_neither_sdk_nor_exporter_nor_cryptography() -> None:
    """OBS-4: costs nothing when off."""
    program = """
import sys
from controller_runtime.observability.tracing import set_up_tracing
import controller_runtime.controller, controller_runtime.manager, controller_runtime.events
import controller_runtime.observability.http, controller_runtime.observability.metrics, controller_runtime.observability.tls
tracing = set_up_tracing(service_name="a", service_version="1", service_instance="i", environ={})
with tracing.tracer("x").start_as_current_span("y"):
    pass
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter", "cryptography"))])
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


async def passes(spans: Spans, *keys: str, fail: Exception | None = None) -> None:
    async def reconcile(request: Request) -> Result:
        trace.get_current_span().set_attribute("nodewright.name", request.key)
        with spans.tracer.start_as_current_span("plan"):
            pass
        if fail is not None:
            raise fail
        return Result()

    subject = Controller(
        "rollout", reconcile, span_name="reconcile Thing", tracer=spans.tracer, expected_errors=(KeyError,)
    )
    for key in keys:
        subject.queue.add(key, trigger="node")
    with spans.tracer.start_as_current_span("startup"):
        task = asyncio.create_task(subject.run())
    await asyncio.sleep(0.004 if fail else 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.looptime
async def test_each_pass_is_a_root_span_whoever_started_the_controller() -> None:
    """OBS-4."""
    spans = Spans()
    await passes(spans, "a", "b")
    roots = [span for span in spans.ended if span.name == "reconcile Thing"]
    plans = [span for span in spans.ended if span.name == "plan"]
    assert [span.parent for span in roots] == [None, None]
    assert len({span.context.trace_id for span in roots if span.context}) == 2
    assert [span.parent.span_id for span in plans if span.parent] == [
        span.context.span_id for span in roots if span.context
    ]
    attributes = dict(roots[0].attributes or {})
    assert attributes["nodewright.name"] == "a"
    assert attributes["controller.trigger"] == ("node",)
    assert attributes["controller.result"] == "done"
    assert attributes["controller.reconcile.attempt"] == 1


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("no"), trace.StatusCode.ERROR), (KeyError("part of life"), trace.StatusCode.UNSET)],
)
async def test_a_failed_pass_carries_its_error_and_only_an_unexpected_one_is_an_error(
    error: Exception, status: trace.StatusCode
) -> None:
    """OBS-4."""
    spans = Spans()
    await passes(spans, "a", fail=error)
    root = next(span for span in spans.ended if span.name == "reconcile Thing")
    assert root.status.status_code is status
    assert [event.name for event in root.events] == ["exception"]


def test_a_request_inside_a_pass_is_a_client_span_with_a_template_for_a_name() -> None:
    """OBS-4."""
    spans = Spans()
    observer = RequestSpans(spans.tracer)
    with spans.tracer.start_as_current_span("pass"):
        observer.finished(observer.started("PATCH", NODES, "node-1", "status"), 200, 2)
        observer.finished(observer.started("POST", JOBS, None, None), Conflict(status=409), 1)
        observer.finished(observer.started("GET", JOBS, "job", None), TransportError("cut", sent=None), 1)
    patch, post, get, parent = spans.ended
    assert [span.parent and span.parent.span_id for span in (patch, post, get)] == [
        parent.context and parent.context.span_id
    ] * 3
    assert patch.kind is trace.SpanKind.CLIENT
    assert patch.name == "PATCH /api/v1/nodes/{name}/status"
    assert dict(patch.attributes or {}) == {
        "http.request.method": "PATCH",
        "url.template": "/api/v1/nodes/{name}/status",
        "k8s.api.group": "",
        "k8s.api.resource": "nodes",
        "k8s.api.subresource": "status",
        "k8s.node.name": "node-1",
        "http.response.status_code": 200,
        "http.request.resend_count": 1,
    }
    assert post.name == "POST /apis/batch/v1/namespaces/{namespace}/jobs"
    assert post.status.status_code is trace.StatusCode.UNSET
    assert (post.attributes or {})["error.type"] == "Conflict"
    assert get.status.status_code is trace.StatusCode.ERROR


def test_a_request_that_outlives_its_pass_is_a_span_of_it_all_the_same() -> None:
    """OBS-4: a status is written when its time has come, mostly after the pass that made it."""
    spans = Spans()
    observer = RequestSpans(spans.tracer)
    with spans.tracer.start_as_current_span("pass"):
        context = copy_context()
    context.run(lambda: observer.finished(observer.started("PATCH", NODES, "n", "status"), 200, 1))
    parent, patch = spans.ended
    assert (patch.parent and patch.parent.span_id) == (parent.context and parent.context.span_id)


def test_a_request_outside_a_pass_makes_no_span() -> None:
    spans = Spans()
    observer = RequestSpans(spans.tracer)
    observer.finished(observer.started("GET", NODES, None, None), 200, 1)
    assert spans.ended == []
