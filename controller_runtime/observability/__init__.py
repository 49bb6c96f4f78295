"""Metrics, traces and probes of the runtime.

The submodules are imported by whoever needs them (`metrics`, `tracing`, `health`, `http`), never from here: the
Prometheus client, the OpenTelemetry SDK and the web server cost memory that a part which only reports must not pay.
"""
