"""OpenTelemetry traces, if the standard OTEL_* variables configure them.

A request is a span within its caller's trace (`traceparent`). Requests decided together share one `batch`, which
belongs to the first one's trace and links to the others'. Within it are `decide` and `append`, repeated if another
process was first. A worker's `recompute` contains the reading, the replay and the publishing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanContext, Tracer

from app import __version__
from app.platform.telemetry.context import shown

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_UNTRACED = frozenset(
    {"/", "/healthcheck", "/readiness", "/metrics", "/metrics/clouds", "/metrics/clusters", "/metrics/peers"}
)
"""Paths that machines request every few seconds."""
_NOTHING: AbstractContextManager[None] = nullcontext()

Value = str | bool | int | float


class TracingImpossible(Exception):
    """Traces are configured in a way that this process does not support."""


class Traces:
    """The spans of this process. It makes none until tracing is started."""

    def __init__(self) -> None:
        self._tracer: Tracer | None = None

    def open(self, tracer: Tracer | None) -> None:
        """Begin to make spans; None ends it."""
        self._tracer = tracer

    def span(
        self, name: str, origins: Sequence[SpanContext | None] = (), **attributes: Value
    ) -> AbstractContextManager[Any]:
        """Return a span within the current one, or within the first sampled of some origins, linked to the others."""
        if self._tracer is None:
            return _NOTHING
        return self._span(self._tracer, name, [origin for origin in origins if origin is not None], attributes)

    def request(self, scope: Mapping[str, Any]) -> AbstractContextManager[Any]:
        """Return the span of a request, which gets its name at the end, when the operation is known."""
        if self._tracer is None or scope["path"] in _UNTRACED:
            return _NOTHING
        return _request(self._tracer, scope)

    def origin(self) -> SpanContext | None:
        """Return the current span's context, for another span to belong or link to."""
        if self._tracer is None:
            return None
        context = trace.get_current_span().get_span_context()
        return context if context.is_valid else None

    def add(self, **attributes: Value) -> None:
        """Add facts to the current span that were not known when it began."""
        if self._tracer is not None:
            trace.get_current_span().set_attributes(_named(attributes))

    def failed(self, error: BaseException) -> None:
        """Mark the current span as failed although it raises nothing."""
        if self._tracer is not None:
            span = trace.get_current_span()
            span.record_exception(error)
            span.set_status(trace.StatusCode.ERROR, type(error).__name__)

    @contextmanager
    def _span(
        self, tracer: Tracer, name: str, origins: Sequence[SpanContext], attributes: Mapping[str, Value]
    ) -> Iterator[None]:
        kept = [origin for origin in origins if origin.trace_flags.sampled]
        first = next(iter(kept or origins), None)
        parent = None if first is None else trace.set_span_in_context(trace.NonRecordingSpan(first))
        links = [trace.Link(origin) for origin in kept[1:]]
        with tracer.start_as_current_span(name, parent, attributes=_named(attributes), links=links):
            yield


TRACES = Traces()


@contextmanager
def tracing(process: str) -> Iterator[None]:
    """Send spans while the block runs, if the environment asks for it. Raise TracingImpossible if it cannot be done."""
    if not _is_wanted():
        yield
        return
    provider = _provider(process)
    TRACES.open(provider.get_tracer("tenure", __version__))
    try:
        yield
    finally:
        TRACES.open(None)
        provider.shutdown()


def _is_wanted() -> bool:
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "")
    if off or exporter == "none":
        return False
    if exporter not in ("", "otlp"):
        raise TracingImpossible(
            f"OTEL_TRACES_EXPORTER is {exporter!r}: traces are sent as `otlp`, or not at all (`none`)"
        )
    return exporter == "otlp" or any(os.environ.get(name) for name in _ENDPOINTS)


def _provider(process: str) -> Any:  # noqa: ANN401 - of a library that may not be there
    """The library reads all else (endpoint, headers, sampling, batching, resource) from the environment."""
    _check_library()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - of the extra `tracing`
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above

    own = Resource.create({"service.name": "tenure", "service.version": __version__, "tenure.process": process})
    provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _check_library() -> None:
    protocols = [os.environ[name] for name in _PROTOCOLS if os.environ.get(name)]
    if protocols and protocols[0] != "http/protobuf":
        raise TracingImpossible(
            f"traces are sent as http/protobuf, not as {protocols[0]!r} (OTEL_EXPORTER_OTLP_PROTOCOL)"
        )
    for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        if not _is_installed(name):
            raise TracingImpossible(
                "the environment asks for traces, but their library is not here: install tenure[tracing]"
            )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@contextmanager
def _request(tracer: Tracer, scope: Mapping[str, Any]) -> Iterator[None]:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    kind, method = trace.SpanKind.SERVER, scope["method"]
    with tracer.start_as_current_span(method, propagate.extract(headers), kind=kind) as span:
        state = scope["state"]
        state["trace_id"] = f"{span.get_span_context().trace_id:032x}"
        yield
        route = getattr(scope.get("route"), "path", None)
        facts = {
            "http.request.method": method,
            "url.path": shown(scope["path"]),
            "http.route": route,
            "http.response.status_code": state.get("status"),
            **_named(_known(state, scope)),
        }
        span.set_attributes({name: value for name, value in facts.items() if value is not None})
        if route is not None:
            span.update_name(f"{method} {route}")


def _known(state: Mapping[str, Any], scope: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    yield "request_id", state["request_id"]
    yield "operation", state.get("operation")
    cloud = scope.get("path_params", {}).get("cloud")
    yield "cloud", cloud and shown(cloud)
    caller = state.get("caller")
    yield "caller", caller and caller.name


def _named(attributes: Mapping[str, Value] | Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {f"tenure.{name}": value for name, value in dict(attributes).items()}
