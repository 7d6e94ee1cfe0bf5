"""Tests of every folder: an engine for those that need one; those that ask the real local model only where it was pulled."""

import signal
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis.llm.pull import QWEN
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.telemetry import scope
from autopatch.cli.lab.docker import Engine
from autopatch.contract.errors import Unavailable


def pytest_configure() -> None:
    """A shell lets what it runs in the background ignore Ctrl-C, and so would everything that is started here."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`autopatch model pull` gets it; no test downloads a gigabyte."""
    if item.get_closest_marker("model") and not (LlmSettings().model_dir / QWEN.file).is_file():
        pytest.skip("the local model is not there: run `autopatch model pull`")


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    """Address of an engine that answers: the one that is there, else a private one, which ends with its last user."""
    engine = Engine()
    try:
        engine.start()
    except Unavailable as error:
        pytest.skip(f"no Docker engine: {error}")
    yield engine.host
    engine.stop()


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What is traced during a test, as incident i1."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with scope(provider.get_tracer("test"), "i1"):
        yield exporter
