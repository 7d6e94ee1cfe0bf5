"""One place that turns settings into a model, or into None."""

from typing import assert_never

from autopatch.chassis.llm.cores import Cores
from autopatch.chassis.llm.port import Llm
from autopatch.chassis.llm.settings import LlmSettings


def build(settings: LlmSettings, *, cores: Cores | None = None) -> Llm | None:
    """None in mode off. A local model takes turns with soaks through `cores`. Starts and connects nothing yet."""
    match settings.mode:
        case "off":
            return None
        case "local":
            from autopatch.chassis.llm.autogen import AutogenBackend
            from autopatch.chassis.llm.decider import Decider
            from autopatch.chassis.llm.local import LocalServer
            from autopatch.chassis.llm.pull import QWEN

            backend = AutogenBackend(LocalServer.of(settings), settings)
            return Decider(backend, settings, mode="local", model=QWEN.name, cores=cores)
        case "remote":
            from autopatch.chassis.llm.autogen import AutogenBackend
            from autopatch.chassis.llm.decider import Decider
            from autopatch.chassis.llm.endpoint import Endpoint, Fixed

            endpoint = Endpoint(settings.base_url.rstrip("/"), settings.model, settings.api_key)
            return Decider(AutogenBackend(Fixed(endpoint), settings), settings, mode="remote", model=settings.model)
        case _:
            assert_never(settings.mode)
