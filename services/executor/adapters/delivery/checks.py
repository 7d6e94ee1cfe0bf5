"""What both runtimes share: the precondition, reload by HTTP, and waiting until a target is well."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable

import httpx2

from autopatch.contract.errors import OperatorError, Refused, StaleTarget
from autopatch.contract.plan import Precondition
from autopatch.contract.target import DockerRuntime, ProcessRuntime
from services.executor.adapters.delivery.runtime import RuntimeState
from services.executor.ports import Failed

_STEADY_S = 1.0


def demand(precondition: Precondition, state: RuntimeState) -> None:
    """Raises StaleTarget when the release or instance is not the one that the plan was made for."""
    for what, wanted, found in (
        ("release", precondition.release, state.release), ("instance", precondition.instance, state.instance),
    ):
        if wanted is not None and wanted != found:
            raise StaleTarget(f"{what} is {found or 'unknown'}, the plan was made for {wanted}")


async def reload_by(spec: DockerRuntime | ProcessRuntime, send: Callable[[str], Awaitable[None]]) -> str:
    """By address or signal, whichever the target names. Raises Failed, Refused when it names neither, OperatorError."""
    if spec.reload_url:
        return await _post(spec.reload_url)
    if not spec.reload_signal:
        raise Refused("the target names no way to reload", tip="add runtime.reload_url or runtime.reload_signal to its file")
    if spec.reload_signal not in signal.Signals.__members__:
        raise OperatorError(f"runtime.reload_signal: {spec.reload_signal!r} is no signal", tip="such as SIGHUP")
    await send(spec.reload_signal)
    return f"sent {spec.reload_signal}"


async def _post(url: str) -> str:
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=15) as client:
            answer = await client.post(url)
    except httpx2.HTTPError as error:
        raise Failed(f"reload: {url} does not answer: {type(error).__name__}") from error
    if not answer.is_success:
        raise Failed(f"reload: {url} answered {answer.status_code}")
    return f"reloaded by {url}"


async def wait_well(inspect: Callable[[], Awaitable[RuntimeState]], health: str, patience_s: float) -> RuntimeState:
    """The state once the health address answers 2xx or, without one, the target has run for a second. Raises Failed."""
    begun = steady = time.monotonic()
    async with httpx2.AsyncClient(trust_env=False, timeout=3) as client:
        while True:
            state = await inspect()
            why = "it does not run" if not state.running else await _unwell(client, health)
            now = time.monotonic()
            steady = steady if not why else now
            if not why and (health or now - steady >= _STEADY_S):
                return state
            if why and now - begun > patience_s:
                raise Failed(f"not well after {patience_s:g} s: {why}")
            await asyncio.sleep(0.1)


async def _unwell(client: httpx2.AsyncClient, health: str) -> str:
    if not health:
        return ""
    try:
        answer = await client.get(health)
    except httpx2.HTTPError as error:
        return f"{health} does not answer: {type(error).__name__}"
    return "" if answer.is_success else f"{health} answers {answer.status_code}"
