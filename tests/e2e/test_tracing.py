"""Traces of real processes, as a collector receives them (OTLP over HTTP); and nothing at all where nobody asked."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from processes import HEADERS, TOKEN, Process, tenure

from benchmarks.ports import free_port

CLOUD = "/v1/clouds/traced"
CALLERS_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
WITHOUT_THE_EXTRA = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
"""
CALLERS_SPAN = "00f067aa0ba902b7"


@dataclass
class Collector:
    """Receives spans."""

    url: str
    spans: list[tuple[Mapping[str, str], Span]] = field(default_factory=list)

    def named(self, name: str) -> list[Span]:
        return [span for _, span in self.spans if span.name == name]

    def children(self, parent: Span) -> list[Span]:
        return [span for _, span in self.spans if span.parent_span_id == parent.span_id]


def values(attributes: object) -> dict[str, object]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = values(part.resource.attributes)
                found.spans += [(resource, span) for scope in part.scope_spans for span in scope.spans]
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def traced(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Collector:
    """Return the spans of a little work of an API process and a worker."""
    directory = tmp_path_factory.mktemp("traced")
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    environment["TENURE_LOG_FORMAT"] = "json"
    server, worker = (Process(command, directory, environment) for command in ("serve", "worker"))
    worker.environment["TENURE_WORKER_PORT"] = str(worker.port)
    try:
        for process in (server, worker):
            process.start()
        work(server)
        wait_for(lambda: collector.named("recompute"))
    finally:
        assert [process.interrupt() for process in (worker, server)] == [0, 0]
    return collector


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def work(server: Process) -> None:
    """A cloud, thirty starts at once, one of them in its caller's trace; a conflict and a table."""

    def post(path: str, body: object = None, **headers: str) -> int:
        return httpx2.post(f"{server.url}{path}", json=body, headers=HEADERS | headers, timeout=60).status_code

    assert post("/v1/clouds", {"name": "traced", "policy": {"guarantee": "none"}}) == 201
    assert post(f"{CLOUD}/flavors", {"name": "small", "cores": 1}) == 201
    assert post(f"{CLOUD}/flavors", {"name": "small", "cores": 2}) == 409

    def start(number: int) -> int:
        parent = {"traceparent": f"00-{CALLERS_TRACE}-{CALLERS_SPAN}-01"} if number == 7 else {}
        return post(f"{CLOUD}/instances", {"id": f"i-{number}", "market": "on_demand", "flavor": "small"}, **parent)

    with ThreadPoolExecutor(30) as callers:
        assert set(callers.map(start, range(30))) == {201}
    assert post(f"{CLOUD}/tables") == 202
    assert httpx2.get(f"{server.url}/healthcheck").status_code == 200


def test_a_request_is_a_span_of_its_callers_trace(traced: Collector) -> None:
    starts = traced.named(f"POST {CLOUD.replace('traced', '{cloud}')}/instances")
    assert len(starts) == 30
    (called,) = [span for span in starts if span.trace_id.hex() == CALLERS_TRACE]
    assert called.parent_span_id.hex() == CALLERS_SPAN
    assert called.kind == Span.SPAN_KIND_SERVER
    facts = values(called.attributes)
    assert facts.pop("tenure.request_id").startswith("req-")
    assert facts == {
        "http.request.method": "POST",
        "url.path": f"{CLOUD}/instances",
        "http.route": "/v1/clouds/{cloud}/instances",
        "http.response.status_code": 201,
        "tenure.operation": "start_instance",
        "tenure.cloud": "traced",
        "tenure.caller": "admin",
    }
    assert len({span.trace_id for span in starts}) == 30
    assert not [span for _, span in traced.spans if "health" in span.name]


def test_decisions_that_are_taken_together_belong_to_one_trace_and_link_to_the_others(traced: Collector) -> None:
    starts = {span.span_id: span for span in traced.named("POST /v1/clouds/{cloud}/instances")}
    batches = [span for span in traced.named("batch") if span.parent_span_id in starts]
    joined = [span.parent_span_id for span in batches] + [link.span_id for span in batches for link in span.links]
    assert sorted(joined) == sorted(starts)
    assert max(len(span.links) for span in batches) > 0, "nothing was decided together"
    for batch in batches:
        assert values(batch.attributes) == {"tenure.cloud": "traced"}
        decide, append = sorted(traced.children(batch), key=lambda span: span.start_time_unix_nano)
        assert (decide.name, append.name) == ("decide", "append")
        assert values(decide.attributes)["tenure.operations"] == 1 + len(batch.links)
        assert values(append.attributes)["tenure.events"] == 1 + len(batch.links)
        assert {decide.trace_id, append.trace_id} == {batch.trace_id}


def test_a_refused_change_is_no_failure(traced: Collector) -> None:
    spans = traced.named("POST /v1/clouds/{cloud}/flavors")
    assert sorted(values(span.attributes)["http.response.status_code"] for span in spans) == [201, 409]
    assert {span.status.code for span in spans} == {Status.STATUS_CODE_UNSET}


def test_a_recomputation_is_a_span_with_its_steps(traced: Collector) -> None:
    (run,) = traced.named("recompute")
    assert values(run.attributes) == {
        "tenure.run_id": 1, "tenure.cloud_id": 1, "tenure.cause": "requested", "tenure.epoch": 1
    }  # fmt: skip
    steps = sorted(traced.children(run), key=lambda span: span.start_time_unix_nano)
    assert [span.name for span in steps] == ["read", "replay", "publish"]


def test_spans_say_which_process_made_them(traced: Collector) -> None:
    made = {(resource["service.name"], resource["tenure.process"]) for resource, _ in traced.spans}
    assert made == {("tenure", "serve"), ("tenure", "worker")}


def test_no_token_is_in_any_span(traced: Collector) -> None:
    assert TOKEN not in repr(traced.spans)


def test_a_collector_that_is_gone_keeps_nobody_waiting(tmp_path: Path) -> None:
    nowhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}", "OTEL_BSP_SCHEDULE_DELAY": "200"}
    process = Process("serve", tmp_path, nowhere)
    process.start()
    assert httpx2.get(f"{process.url}/v1/clouds", headers=HEADERS, timeout=60).status_code == 200
    began = time.monotonic()
    assert process.interrupt() == 0
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("command", "environment", "says"),
    [
        ("serve", {"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin'"),
        ("serve", {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "sent as http/protobuf"),
        (
            "serve",
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "PYTHONPATH": "HIDDEN"},
            "install tenure[tracing]",
        ),
        ("worker", {"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin'"),
    ],
)
def test_what_cannot_be_done_is_said_at_once(
    command: str, environment: dict[str, str], says: str, tmp_path: Path
) -> None:
    if "PYTHONPATH" in environment:
        (tmp_path / "sitecustomize.py").write_text(WITHOUT_THE_EXTRA)
        environment = environment | {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
    own = {"TENURE_DATA_DIR": str(tmp_path / "data"), "TENURE_PORT": str(free_port())}
    done = tenure(command, environment=own | environment)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("tenure: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
    ],
)
def test_nothing_happens_where_nobody_asks(environment: dict[str, str]) -> None:
    program = (
        "import sys; from app.commands import processes; from app.platform.telemetry.tracing import TRACES, tracing\n"
        "with tracing('serve'), TRACES.span('x', cloud='y'), TRACES.request({'path': '/v1'}):\n"
        "    TRACES.add(events=1); TRACES.failed(ValueError()); assert TRACES.origin() is None\n"
        "assert not [name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))]"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
