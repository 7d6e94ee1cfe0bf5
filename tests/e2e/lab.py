"""A lab for a test: real NATS, Prometheus, Alertmanager, Jaeger, Docker, Qdrant, and the rooms as `autopatch up` runs them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autopatch.chassis.llm.pull import QWEN
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import load
from autopatch.cli.client import Gateway
from autopatch.cli.lab.hosted import Hosted, left
from autopatch.cli.lab.lab import Places
from autopatch.cli.watching import Watcher

PASSWORD = "demo-Gq7xW2-not-for-logs"
"""Of the demo service, in its configuration file: nowhere else may it show up."""


def model_is_there() -> bool:
    """Was the local model pulled?"""
    settings: LlmSettings = load(LlmSettings)
    return (settings.model_dir / QWEN.file).is_file()


@dataclass
class Running:
    """What a test holds."""

    hosted: Hosted
    places: Places
    watcher: Watcher
    said: list[str] = field(default_factory=list)

    def cli(self, *words: str, code: int = 0) -> Any:
        """A command of the command line, as a person would give it; its JSON."""
        environment = {**os.environ, "AUTOPATCH_URL": self.places.gateway, "AUTOPATCH_TOKEN": self.places.token}
        command = [sys.executable, "-m", "autopatch", *words, "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, f"{words}: exit code {done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}"
        return json.loads(done.stdout)


@contextmanager
def lab(folder: Path, *, autonomy: str = "auto", model: str = "off") -> Iterator[Running]:
    """Everything up; afterwards everything gone, which is checked."""
    said: list[str] = []
    hosted = Hosted(autonomy=autonomy, model=model, base=folder)
    try:
        places = hosted.start(lambda *step: said.append(str(step)))
        watcher = Watcher(places, Gateway(places.gateway, places.token), said.append, hosted.check)
        yield Running(hosted, places, watcher, said)
    finally:
        hosted.stop()
        assert left(hosted.places) == []
