"""Spans and metrics. Rooms in one process each have a tracer provider of their own, so that a trace shows who did what."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

Attribute = str | int | float | bool | list[str]

_tracer: ContextVar[Tracer | None] = ContextVar("tracer", default=None)
_incident: ContextVar[str] = ContextVar("incident", default="")


def provider(room: str, endpoint: str) -> TracerProvider:
    """A provider whose spans carry service.name autopatch-<room>; without an endpoint nothing leaves and nothing is tried."""
    made = TracerProvider(resource=Resource.create({"service.name": f"autopatch-{room}"}))
    if endpoint:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=5)
        made.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=500))
    return made


@contextmanager
def scope(tracer: Tracer, incident_id: str = "", headers: Mapping[str, str] | None = None) -> Iterator[None]:
    """Spans opened inside belong to this tracer and incident, and continue the trace that `headers` carry."""
    first, second = _tracer.set(tracer), _incident.set(incident_id)
    token = otel_context.attach(extract(dict(headers))) if headers is not None else None
    try:
        yield
    finally:
        if token is not None:
            otel_context.detach(token)
        _incident.reset(second)
        _tracer.reset(first)


@contextmanager
def span(
    name: str, /, *, kind: SpanKind = SpanKind.INTERNAL, start: datetime | None = None, end: datetime | None = None,
    **attributes: Attribute | None,
) -> Iterator[Span]:
    """A span of the current room with incident.id on it. Underscores in names of `attributes` become dots: plan.hash.

    `start` and `end` are for waits that are over already (a person's decision). An exception marks the span failed.
    """
    tracer = _tracer.get() or trace.get_tracer("autopatch")
    with tracer.start_as_current_span(
        name, kind=kind, start_time=_nanoseconds(start), end_on_exit=False, record_exception=False, set_status_on_exception=False
    ) as opened:
        if _incident.get():
            opened.set_attribute("incident.id", _incident.get())
        annotate(opened, **attributes)
        try:
            yield opened
        except BaseException as error:
            opened.set_attribute("error.type", type(error).__name__)
            opened.set_status(Status(StatusCode.ERROR, str(error)[:200]))
            raise
        finally:
            opened.end(_nanoseconds(end))


def annotate(opened: Span, /, **attributes: Attribute | None) -> None:
    """Attributes on a span; None is left out."""
    for key, value in attributes.items():
        if value is not None:
            opened.set_attribute(key.replace("_", "."), value)


def incident() -> str:
    """The incident that the current spans belong to; '' when none."""
    return _incident.get()


def carrier() -> dict[str, str]:
    """Headers that continue the current trace elsewhere."""
    headers: dict[str, str] = {}
    inject(headers)
    return headers


def trace_id(headers: Mapping[str, str]) -> str:
    """The trace that headers belong to, as 32 hex digits; '' when none."""
    found: Any = trace.get_current_span(extract(dict(headers))).get_span_context()
    return format(found.trace_id, "032x") if found.is_valid else ""


def _nanoseconds(at: datetime | None) -> int | None:
    return int(at.timestamp() * 1e9) if at else None
