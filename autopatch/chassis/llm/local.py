"""The embedded model server: llama.cpp in a process of its own, on loopback, one per user, dead when its parent is.

python -m autopatch.chassis.llm.local --model PATH [--port N]
"""

import argparse
import asyncio
import fcntl
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from pydantic import BaseModel, SecretStr, ValidationError

from autopatch.chassis.llm.endpoint import Endpoint
from autopatch.chassis.llm.pull import QWEN
from autopatch.chassis.llm.settings import LlmSettings, cache_home
from autopatch.contract.errors import Unavailable

TAKEN = 3  # exit code: another server of this model is running
LOOK_S = 0.2
PROBE_S = 5.0
PROMPT_CACHE_MIB = 256
BATCH_TOKENS = 64  # a cancelled request is dropped between two batches: under 1 s each here, and larger ones are read no faster

Waiting = Callable[[float], None]
"""Told once a second how long the server has been loading."""


class Served(BaseModel):
    """What a running server writes down for those who want to ask it; readable by its user only."""

    pid: int
    base_url: str
    model: str
    api_key: str


def _silent(seconds: float) -> None:
    return


@dataclass
class LocalServer:
    """Finds the running server, or starts one. What it started it also stops; what others started it leaves alone."""

    model: Path
    run_dir: Path
    threads: int = 2
    context_tokens: int = 8_192
    start_timeout_s: float = 60.0
    port: int = 0
    waiting: Waiting = _silent
    _child: "subprocess.Popen[bytes] | None" = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of(cls, settings: LlmSettings, *, waiting: Waiting = _silent) -> "LocalServer":
        """As configured."""
        model = settings.model_dir / QWEN.file
        return cls(model, settings.run_dir, settings.threads, settings.context_tokens, settings.start_timeout_s, waiting=waiting)

    async def ready(self) -> Endpoint:
        """Raises Unavailable with the server's last words when it does not come up."""
        async with self._starting:
            served = await running(self.run_dir, self.model)
            if served is None:
                self._start()
                served = await self._until_up()
        return Endpoint(f"{served.base_url}/v1", served.model, SecretStr(served.api_key), loopback=True)

    async def close(self) -> None:
        """End our own server, if there is one."""
        child, self._child = self._child, None
        if child is None or child.poll() is not None:
            return
        child.terminate()
        try:
            await asyncio.to_thread(child.wait, 5)
        except subprocess.TimeoutExpired:
            child.kill()
            await asyncio.to_thread(child.wait)

    def _start(self) -> None:
        if not self.model.is_file():
            raise Unavailable("local model", f"{self.model} is not there", tip="run `autopatch model pull`")
        self.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        command = [
            sys.executable,
            "-m",
            "autopatch.chassis.llm.local",
            "--model",
            str(self.model),
            "--run-dir",
            str(self.run_dir),
        ]
        command += ["--port", str(self.port), "--threads", str(self.threads), "--context", str(self.context_tokens)]
        command += ["--parent", str(os.getpid())]
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    async def _until_up(self) -> Served:
        began = time.monotonic()
        told = 0
        while (passed := time.monotonic() - began) < self.start_timeout_s:
            served = await running(self.run_dir, self.model)
            if served is not None:
                return served
            code = self._child.poll() if self._child else TAKEN
            if code not in (None, TAKEN):
                raise Unavailable(
                    "local model", f"its server ended with code {code}: {self._last_words()}", tip=f"see {self._log}"
                )
            if passed >= told + 1:
                told = int(passed)
                self.waiting(passed)
            await asyncio.sleep(LOOK_S)
        await self.close()
        raise Unavailable(
            "local model", f"not loaded within {self.start_timeout_s:.0f} s", tip="raise AUTOPATCH_LLM_START_TIMEOUT_S"
        )

    @property
    def _log(self) -> Path:
        return self.run_dir / f"{self.model.stem}.log"

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it said nothing"


async def running(run_dir: Path, model: Path) -> Served | None:
    """The server of this model, if it answers with its own key."""
    try:
        served = Served.model_validate_json((run_dir / f"{model.stem}.json").read_bytes())
    except (OSError, ValidationError):
        return None
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=PROBE_S) as client:
            answer = await client.get(f"{served.base_url}/v1/models", headers={"Authorization": f"Bearer {served.api_key}"})
            names = [item["id"] for item in answer.json()["data"]] if answer.status_code == httpx2.codes.OK else []
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return None
    return served if served.model in names else None


def serve(model: Path, run_dir: Path, *, port: int, threads: int, context_tokens: int, parent: int | None) -> int:
    """Serve until the parent is gone, or for ever without one. Returns TAKEN when another server holds the lock."""
    run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (run_dir / f"{model.stem}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another server of this model is running", file=sys.stderr)
            return TAKEN
        return _serve(model, run_dir / f"{model.stem}.json", port, threads, context_tokens, parent)


def _serve(model: Path, state: Path, port: int, threads: int, context_tokens: int, parent: int | None) -> int:
    try:
        import xllamacpp
    except ImportError as error:
        remedy = "pip install 'autopatch[local-model]', and on Debian apt-get install libgomp1"
        print(f"the package xllamacpp cannot be loaded: {error}: {remedy}", file=sys.stderr)
        return 1
    key = secrets.token_urlsafe(24)
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {model.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.api_keys = [key]
    params.ui = False
    params.n_parallel = 1
    params.n_ctx = context_tokens
    params.cpuparams.n_threads = threads
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.verbosity = 1
    try:
        server = xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        print(f"{model} cannot be served: {error}", file=sys.stderr)
        return 1
    _write(state, Served(pid=os.getpid(), base_url=server.listening_address, model=model.stem, api_key=key))
    print(f"serving {model.stem} at {server.listening_address}", flush=True)
    try:
        while parent is None or os.getppid() == parent:
            time.sleep(0.5)
    finally:
        state.unlink(missing_ok=True)
    return 0


def _write(path: Path, served: Served) -> None:
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(served.model_dump(), file)
    os.replace(draft, path)


def main(argv: list[str] | None = None) -> int:
    """The process."""
    parser = argparse.ArgumentParser(prog="python -m autopatch.chassis.llm.local", description="Serve a model on loopback.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument(
        "--run-dir", type=Path, help="where address and key are written down", default=cache_home() / "autopatch" / "run"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=8_192)
    parser.add_argument("--parent", type=int, help="process that this one ends with")
    given = parser.parse_args(argv)
    code = serve(
        given.model, given.run_dir, port=given.port, threads=given.threads, context_tokens=given.context, parent=given.parent
    )
    sys.stdout.flush()
    os._exit(code)  # the server's own threads do not end by themselves


if __name__ == "__main__":
    main()
