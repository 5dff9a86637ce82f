"""OpenTelemetry spans and metrics of requests: off unless an operator asks for them.

FastAPI makes the spans and metrics of HTTP requests and exports them by OTLP; the MCP SDK makes a span of
each call, whose parent is the `traceparent` in the call's `_meta`. Both read W3C trace context. This module
decides whether they do, and names the routes of answers that are given before routing.
"""

import logging
import os
from importlib.util import find_spec

from fastapi.telemetry import TelemetryConfig
from starlette.routing import BaseRoute
from starlette.types import Scope

ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
NOT_TRACED = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds by machines: their spans would be most of all."""

_log = logging.getLogger(__name__)


def telemetry_config(wanted: bool | None) -> TelemetryConfig:
    """FastAPI's telemetry: `wanted` (MEMORY_OTEL), or where it is None, whether an OTLP endpoint is set.
    Without the extra [otel] it stays off, with a warning."""
    on = any(os.environ.get(name) for name in ENDPOINTS) if wanted is None else wanted
    if on and find_spec("opentelemetry.sdk") is None:
        _log.warning("OpenTelemetry is off: it needs the extra, pip install 'memory-service[otel]'")
        on = False
    if on and "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", "memory-service")
    return {
        "tracing": on,
        "metrics": on,
        "logs": False,
        "operation_spans": False,
        "auto_configure": on,
        "exclude": lambda scope: scope["path"] in NOT_TRACED,
    }


def answered_by(scope: Scope, route: BaseRoute) -> None:
    """Count and trace this request under `route`, which the router was not asked for."""
    scope["route"] = route
    telemetry = scope.get("fastapi.telemetry")
    if telemetry is not None:
        telemetry.route = getattr(route, "path_format", None)
        if telemetry.span is not None:
            telemetry.span.update_name(f"{telemetry.span_method} {telemetry.route}")
