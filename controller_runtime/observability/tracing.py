"""Traces by the standard variables (OBS-4): nothing is imported, started or paid for unless an endpoint is set.

`OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` turn tracing on, `OTEL_SDK_DISABLED=true` or
`OTEL_TRACES_EXPORTER=none` off. Protocol is OTLP over HTTP; sampling (`OTEL_TRACES_SAMPLER`), resource attributes,
headers, timeouts and batch sizes are read by the SDK itself. `RequestSpans` makes a client span of each API request
inside a sampled span.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Protocol

from opentelemetry import trace

from controller_runtime.transport import Resource

_logger = logging.getLogger(__name__)
_FLUSH_MILLISECONDS = 3000


class Tracing(Protocol):
    """Where tracers come from, and how the last spans leave."""

    @property
    def is_on(self) -> bool:
        """Whether spans go anywhere."""

    def tracer(self, name: str) -> trace.Tracer:
        """A tracer; a silent one when tracing is off."""

    def shut_down(self) -> None:
        """Export what is left, for at most three seconds; blocks. Call it when the loop has nothing else to do."""


def set_up_tracing(
    *, service_name: str, service_version: str, service_instance: str, environ: Mapping[str, str] | None = None
) -> Tracing:
    """Tracing as the environment wants it. The names are defaults: `OTEL_SERVICE_NAME` and resource attributes win."""
    variables = os.environ if environ is None else environ
    if not _is_wanted(variables):
        return _Off()
    return _sdk(
        {"service.name": service_name, "service.version": service_version, "service.instance.id": service_instance}
    )


def _is_wanted(variables: Mapping[str, str]) -> bool:
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if variables.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return bool(
        variables.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
        or variables.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    )


class _Off:
    """Implements `Tracing` with nothing."""

    is_on = False

    def tracer(self, name: str) -> trace.Tracer:
        """A silent tracer."""
        return trace.NoOpTracer()

    def shut_down(self) -> None:
        """Nothing is left."""


def _sdk(defaults: Mapping[str, str]) -> Tracing:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector
    from opentelemetry.sdk.resources import Resource as ServiceResource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = ServiceResource.create(dict(defaults)).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

    class _On:
        is_on = True

        def tracer(self, name: str) -> trace.Tracer:
            return provider.get_tracer(name)

        def shut_down(self) -> None:
            if not provider.force_flush(_FLUSH_MILLISECONDS):
                _logger.info("some spans were not exported in time")
            provider.shutdown()

    return _On()


class RequestSpans:
    """A client's observer: one CLIENT span for each request made inside a sampled span; implements `RequestObserver`.

    Also when that span has ended meanwhile: what a pass set going may outlive it, and belongs to its trace all the same.
    A conflict or a missing object is an attribute, not an error: only a server's failure or no answer is.
    """

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def started(self, method: str, resource: Resource | None, name: str | None, subresource: str | None) -> object:
        """A request begins; answers the span, or None outside a sampled one."""
        if not trace.get_current_span().get_span_context().trace_flags.sampled:
            return None
        attributes: dict[str, str] = {"http.request.method": method}
        template = ""
        if resource is not None:
            template = _template(resource, name, subresource)
            attributes["url.template"] = template
            attributes["k8s.api.group"] = resource.group
            attributes["k8s.api.resource"] = resource.plural
            if subresource:
                attributes["k8s.api.subresource"] = subresource
            if name and resource.kind in ("Node", "Job", "Pod"):
                attributes[f"k8s.{resource.kind.lower()}.name"] = name
        return self._tracer.start_span(
            f"{method} {template}".strip(), kind=trace.SpanKind.CLIENT, attributes=attributes
        )

    def finished(self, handle: object, outcome: int | BaseException, attempts: int) -> None:
        """A request ended with a status or an exception."""
        if not isinstance(handle, trace.Span):
            return
        status = outcome if isinstance(outcome, int) else getattr(outcome, "status", None)
        if isinstance(status, int):
            handle.set_attribute("http.response.status_code", status)
        if attempts > 1:
            handle.set_attribute("http.request.resend_count", attempts - 1)
        if isinstance(outcome, BaseException):
            handle.set_attribute("error.type", type(outcome).__name__)
            if not isinstance(status, int) or status >= 500:
                handle.set_status(trace.StatusCode.ERROR, str(outcome))
        handle.end()


def _template(resource: Resource, name: str | None, subresource: str | None) -> str:
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    tail = ("/{name}" if name else "") + (f"/{subresource}" if subresource else "")
    return f"{root}{namespace}/{resource.plural}{tail}"
