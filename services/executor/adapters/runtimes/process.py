"""A local process with a process id file. A process is told apart from a later one with the same id by its start time."""

import asyncio
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from autopatch.contract.errors import OperatorError, StaleTarget
from autopatch.contract.plan import Precondition
from autopatch.contract.target import ProcessRuntime
from services.executor.adapters.delivery.checks import demand, reload_by, wait_well
from services.executor.adapters.delivery.runtime import RuntimeState
from services.executor.adapters.runtimes.log_lines import in_window
from services.executor.ports import Failed

_TAIL = 4 * 1024 * 1024
_TICKS = os.sysconf("SC_CLK_TCK")
_LAUNCH = """
ticks() { read -r all < "/proc/$$/stat"; set -- ${all##*) }; echo "${20}"; }
printf '%s %s %s %s\\n' "$$" "$(ticks)" "$2" "$3" > "$1.new" && mv "$1.new" "$1" || exit 125
shift 3
exec "$@"
"""
"""The process writes its own file before it becomes the target's command, so that no start goes unnoticed if we die meanwhile."""


@dataclass(frozen=True)
class Known:
    """What the process id file says: id, start in clock ticks since boot (0: not recorded), release, and since when that runs."""

    pid: int
    ticks: int = 0
    release: str = ""
    since: int = 0

    @property
    def line(self) -> str:
        """As the file holds it."""
        return f"{self.pid} {self.ticks} {self.release} {self.since}\n"

    @property
    def instance(self) -> str:
        """How plans name this process."""
        return f"{self.pid}:{self.ticks}"


class ProcessOfTarget:
    """One process that AutoPatch starts in a process group of its own, with no environment but PATH, HOME and LANG."""

    def __init__(
        self, spec: ProcessRuntime, configs: Mapping[str, str], *, health: str, path: str, grace_s: float, patience_s: float
    ) -> None:
        """`configs`: name -> path, for {config:NAME}. `grace_s`: seconds from SIGTERM to SIGKILL, `patience_s`: until well."""
        self._spec = spec
        self._configs = configs
        self._health = health
        self._path = path
        self._grace_s = grace_s
        self._patience_s = patience_s
        self._pidfile = Path(spec.pidfile)

    async def inspect(self) -> RuntimeState:
        """From the process id file and /proc."""
        known = self._known()
        ticks = start_ticks(known.pid) if known else 0
        if known is None or not ticks or known.ticks not in (0, ticks):
            return RuntimeState(False, known.release if known else "", known.instance if known else "")
        now, uptime = time.time(), float(Path("/proc/uptime").read_text().split()[0])
        started = datetime.fromtimestamp(now - (uptime - ticks / _TICKS), UTC)
        released = datetime.fromtimestamp(known.since, UTC) if known.since else None
        return RuntimeState(True, known.release, f"{known.pid}:{ticks}", started, released)

    async def reload(self, precondition: Precondition) -> str:
        """By address or signal."""
        state = await self.inspect()
        demand(precondition, state)
        if not state.running:
            raise Failed("reload: the process does not run")

        async def send(name: str) -> None:
            _signal(state.instance, signal.Signals[name], group=False)

        return await reload_by(self._spec, send)

    async def restart(self, precondition: Precondition) -> str:
        """Stops what runs, if it runs, and starts the same release."""
        state = await self.inspect()
        demand(precondition, state)
        return await self._swap(state, state.release or self._spec.releases[-1])

    async def run_release(self, release: str, precondition: Precondition) -> str:
        """Stops what runs, if it runs, and starts that release."""
        state = await self.inspect()
        demand(precondition, state)
        return await self._swap(state, release)

    async def logs(self, start: datetime, end: datetime, limit: int) -> Sequence[str]:
        """From the end of the target's log file. Lines without a time have that of the line before."""
        if not self._spec.log:
            raise OperatorError("the target has no log", tip="add runtime.log to the target file")
        try:
            with open(self._spec.log, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError as error:
            raise OperatorError(f"{self._spec.log}: cannot be read: {error.strerror}") from error
        return tuple(deque(in_window(lines, start, end), maxlen=limit))

    async def _swap(self, state: RuntimeState, release: str) -> str:
        before = self._known()
        if state.running and before:
            if not before.ticks:
                self._pidfile.write_text(replace(before, ticks=start_ticks(before.pid)).line)
            await self._stop(state.instance)
            before = self._known()
        since = before.since if before and before.release == release else int(time.time())
        await asyncio.to_thread(self._start, release, since)
        begun = time.monotonic()
        while self._known() == before:
            if time.monotonic() - begun > 5:
                raise Failed("the process did not start")
            await asyncio.sleep(0.02)
        well = await wait_well(self.inspect, self._health, self._patience_s)
        return f"release {release} runs as {well.instance}"

    async def _stop(self, instance: str) -> None:
        pid = int(instance.split(":")[0])
        leads = os.getpgid(pid) == pid
        _signal(instance, signal.SIGTERM, group=leads)
        if not await _gone(instance, self._grace_s):
            with suppress(StaleTarget):
                _signal(instance, signal.SIGKILL, group=leads)
        if leads:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        if not await _gone(instance, 10):
            raise Failed(f"process {pid} does not end")

    def _start(self, release: str, since: int) -> None:
        command = [self._filled(part, release) for part in self._spec.command]
        log = self._spec.log or os.devnull
        try:
            with open(log, "ab") as output:
                subprocess.run(
                    ["setsid", "--fork", "sh", "-c", _LAUNCH, "sh", str(self._pidfile), release, str(since), *command],
                    cwd=self._spec.workdir, env={"PATH": self._path, "HOME": self._spec.workdir, "LANG": "C.UTF-8"},
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=True, timeout=10,
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise Failed(f"{command[0]}: cannot be started: {error}") from error

    def _filled(self, part: str, release: str) -> str:
        part = part.replace("{release}", release)
        for name, path in self._configs.items():
            part = part.replace(f"{{config:{name}}}", path)
        return part

    def _known(self) -> Known | None:
        try:
            words = self._pidfile.read_text().split()
            if not words:
                return None
            pid, ticks, release, since = [*words[:4], *("0", "", "0")[len(words) - 1 :]]
            return Known(int(pid), int(ticks), release, int(since))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise OperatorError(f"{self._pidfile}: is not a process id file: {error}") from error


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 when it does not live (zombies don't)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


async def _gone(instance: str, patience_s: float) -> bool:
    pid, ticks = map(int, instance.split(":"))
    deadline = time.monotonic() + patience_s
    while start_ticks(pid) == ticks:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


def _signal(instance: str, number: int, *, group: bool) -> None:
    """Raises StaleTarget when that very process is gone; a handle on it keeps its id from being used again meanwhile."""
    pid, ticks = map(int, instance.split(":"))
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        raise StaleTarget(f"process {pid} is gone") from None
    try:
        if start_ticks(pid) != ticks:
            raise StaleTarget(f"process {pid} is another one by now")
        if group:
            os.killpg(pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        raise StaleTarget(f"process {pid} is gone") from None
    finally:
        os.close(handle)
