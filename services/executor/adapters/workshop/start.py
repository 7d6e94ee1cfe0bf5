"""The workshop over the settings."""

from autopatch.chassis.chassis import Blobs
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.limits import MIB, Limits
from services.executor.adapters.images.prepare import Images
from services.executor.adapters.workshop.responder import Workshop
from services.executor.adapters.workshop.spares import WarmSandbox
from services.executor.settings import Settings

REPORTS = 32 * MIB
"""Bytes that the reports of one request may have."""


def workshop_for(settings: Settings, engine: Engine, blobs: Blobs) -> Workshop:
    """In the sandboxes of that engine."""
    limits = Limits(cpus=settings.sandbox_cpus, output=REPORTS)
    sandbox = DockerSandbox(engine, limits, slots=settings.sandbox_slots, runtime=settings.sandbox_runtime)
    images = Images(engine, sandbox, settings.python_image, settings.node_image)
    return Workshop(WarmSandbox(sandbox, settings.sandbox_spares), blobs, images)
