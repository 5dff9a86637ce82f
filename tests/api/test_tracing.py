"""OpenTelemetry: spans with the caller's trace as parent over HTTP and MCP, metrics by route, a client that
passes its trace on, and nothing of it where nobody asked for it."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from opentelemetry import metrics, trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memory_service.api import tracing
from memory_service.api.tracing import telemetry_config
from memory_service.app import create_app
from memory_service.client import watch
from memory_service.client.delivery.http import trace_headers
from memory_service.settings import load_settings
from tests.conftest import Servers, free_port
from tests.processes import Command

TRACE, SPAN, OTHER_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
QUESTION = "/recommend?task=image&size=medium&gpu=a100&minutes=37"


def parent(span: str) -> str:
    return f"00-{TRACE}-{span}-01"


@pytest.fixture(scope="module")
def exported() -> Iterator[tuple[InMemorySpanExporter, InMemoryMetricReader]]:
    """Where the spans and metrics of this process go; a process can set that once."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider, meters = TracerProvider(), MeterProvider([reader])
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(meters)
    yield exporter, reader
    provider.shutdown()
    meters.shutdown()


@pytest.fixture(scope="module")
def client(exported: object, seeded_url: str) -> Iterator[TestClient]:
    app = create_app(load_settings(database_url=seeded_url, seed_on_start=False, otel=True))
    with TestClient(app) as client:
        assert app.state.service.preparation.wait(300).ready
        yield client


@pytest.fixture
def spans(exported: tuple[InMemorySpanExporter, InMemoryMetricReader]) -> InMemorySpanExporter:
    exported[0].clear()
    return exported[0]


def of_this_trace(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    every = [span for span in spans.get_finished_spans() if f"{span.context.trace_id:032x}" == TRACE]
    return {span.name: span for span in every}


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


@pytest.mark.parametrize("time", ["first", "again"])  # by the route, then by the cache before it
def test_a_request_with_a_traceparent_is_a_span_under_it(
    client: TestClient, spans: InMemorySpanExporter, time: str
) -> None:
    assert client.get(QUESTION, headers={"traceparent": parent(SPAN)}).status_code == 200
    span = of_this_trace(spans)["GET /recommend"]
    assert parent_of(span) == SPAN, time
    assert span.attributes is not None
    assert span.attributes["http.route"] == "/recommend"


def test_events_that_are_stored_without_routing_have_their_route(
    client: TestClient, spans: InMemorySpanExporter
) -> None:
    run = client.post("/runs", json={"task": "image", "gpu": "t4", "model": "resnet18"}).json()["run_id"]
    events = {"events": [{"seq": 0, "kind": "note", "at": "2026-11-28T10:00:00Z", "text": "x"}]}
    headers = {"traceparent": parent(SPAN)}
    assert client.post(f"/runs/{run}/events", json=events, headers=headers).status_code == 200
    assert parent_of(of_this_trace(spans)["POST /runs/{run_id}/events"]) == SPAN


def test_what_asks_every_few_seconds_is_not_traced(client: TestClient, spans: InMemorySpanExporter) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert client.get(path, headers={"traceparent": parent(SPAN)}).status_code == 200
    assert not of_this_trace(spans)


def test_requests_are_measured_by_route(
    client: TestClient, exported: tuple[InMemorySpanExporter, InMemoryMetricReader]
) -> None:
    client.get(QUESTION)
    client.get(QUESTION)
    read: Any = exported[1].get_metrics_data()
    (durations,) = (
        metric
        for resource in read.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "http.server.request.duration"
    )
    routes = {point.attributes.get("http.route") for point in durations.data.data_points}
    assert "/recommend" in routes
    assert None not in routes


def call(tool: str, meta: dict[str, Any] | None) -> dict[str, Any]:
    params = {"name": tool, "arguments": {"model": "resnet18", "gpu": "t4"}}
    if meta is not None:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


MCP_HEADERS = {"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"}


def test_a_call_by_mcp_is_a_span_under_the_traceparent_of_its_meta(
    client: TestClient, spans: InMemorySpanExporter
) -> None:
    headers = MCP_HEADERS | {"traceparent": parent(OTHER_SPAN)}
    answer = client.post("/mcp", json=call("fit", {"traceparent": parent(SPAN)}), headers=headers).json()
    assert answer["result"].get("isError") is not True, answer
    found = of_this_trace(spans)
    assert parent_of(found["tools/call fit"]) == SPAN
    assert parent_of(found["POST /mcp"]) == OTHER_SPAN


@pytest.mark.parametrize("meta", [None, {"traceparent": "nonsense"}, {"traceparent": 7}])
def test_without_one_in_its_meta_it_is_a_span_under_the_request(
    client: TestClient, spans: InMemorySpanExporter, meta: dict[str, Any] | None
) -> None:
    headers = MCP_HEADERS | {"traceparent": parent(SPAN)}
    answer = client.post("/mcp", json=call("fit", meta), headers=headers)
    assert answer.status_code == 200, answer.text
    found = of_this_trace(spans)
    if "tools/call fit" in found:
        request = found["POST /mcp"].context
        assert request is not None
        assert parent_of(found["tools/call fit"]) == f"{request.span_id:016x}"
    else:
        assert meta == {"traceparent": 7}, "the protocol refuses it"


def test_a_nonsense_header_is_no_parent(client: TestClient, spans: InMemorySpanExporter) -> None:
    for given in ("nonsense", "00-0-0-01", "ff" * 400):
        assert client.get(QUESTION, headers={"traceparent": given}).status_code == 200
    assert all(span.parent is None for span in spans.get_finished_spans())


def test_off_it_makes_no_span_even_where_a_provider_is_set(
    exported: object, spans: InMemorySpanExporter, seeded_url: str
) -> None:
    app = create_app(load_settings(database_url=seeded_url, seed_on_start=False))
    with TestClient(app) as client:
        client.get(QUESTION, headers={"traceparent": parent(SPAN)})
    assert not spans.get_finished_spans()


def test_nothing_but_the_interface_is_imported_by_a_server_that_is_off(tmp_path: Path) -> None:
    text = (
        "import sys; from memory_service.app import create_app; from memory_service.settings import *;"
        f"create_app(load_settings(database_url='sqlite:///{tmp_path}/x.sqlite3'));"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_endpoint_switches_it_on_and_the_setting_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "named by the operator")
    assert telemetry_config(None)["tracing"] is False
    assert telemetry_config(True)["tracing"] is True
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    assert telemetry_config(None)["tracing"] is True
    assert telemetry_config(False)["tracing"] is False


def test_without_the_extra_it_stays_off_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracing, "find_spec", lambda _: None)
    with caplog.at_level(logging.WARNING):
        assert telemetry_config(True)["tracing"] is False
    assert "memory-service[otel]" in caplog.text


class _Told(BaseHTTPRequestHandler):
    """A service, or collector, that takes all that it is told, and remembers path, headers and body."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.told.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        answer = b""
        if self.path.startswith("/runs"):
            told = json.loads(body)
            run_id = told.get("run_id") or self.path.split("/")[2]
            taken = {"accepted": len(told.get("events", ())), "duplicates": 0}
            name = "id" if self.path.endswith("/finish") else "run_id"
            answer = json.dumps({name: run_id, **taken}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def told() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Told)
    server.told = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_run_passes_the_trace_on_in_which_it_began(
    exported: object, told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path))
    server = f"http://127.0.0.1:{told.server_port}"
    assert trace_headers() == {}
    with trace.get_tracer("a training script").start_as_current_span("train") as span:
        run = watch(task="image", model="resnet18", server=server)
    run.finish()
    assert told.told
    context = span.get_span_context()
    parents = {headers["traceparent"].rpartition("-")[0] for _, headers, _ in told.told}
    assert parents == {f"00-{context.trace_id:032x}-{context.span_id:016x}"}
    told.told.clear()
    watch(task="image", model="resnet18", server=server).finish()
    assert {headers.get("traceparent") for _, headers, _ in told.told} == {None}


def test_a_client_without_opentelemetry_does_not_import_it() -> None:
    text = (
        "import sys; from memory_service.client.delivery.http import trace_headers; print(trace_headers());"
    )
    text += "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["{}", "[]"]


def test_a_server_sends_its_spans_to_the_endpoint(servers: Servers, told: Any, tmp_path: Path) -> None:
    url, port = servers.new("sqlite", "seeded"), free_port()
    serving = Command(
        "serve", log=tmp_path / "log", MEMORY_DATABASE_URL=url, MEMORY_PORT=str(port),
        MEMORY_SEED_ON_START="false", MEMORY_EMBEDDING_MODEL="/no/such/model",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{told.server_port}",
    )  # fmt: skip
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            if httpx2.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                break
        except httpx2.TransportError:
            assert serving.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.1)
    httpx2.get(f"http://127.0.0.1:{port}/gpus", headers={"traceparent": parent(SPAN)})
    serving.send_signal(signal.SIGTERM)
    serving.wait(60)
    servers.drop(url)
    (body,) = [body for path, _, body in told.told if path == "/v1/traces"]
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    named = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert named["service.name"] == "memory-service"
    (span,) = (span for scope in resource.scope_spans for span in scope.spans)
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == ("GET /gpus", TRACE, SPAN)
    assert any(path == "/v1/metrics" for path, _, _ in told.told)
