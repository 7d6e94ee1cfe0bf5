"""The settings file of the lab's rooms, and an environment in which no setting of the caller's leads them elsewhere."""

import os
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

FREE = ("AUTOPATCH_LLM_", "AUTOPATCH_RUNSC")
"""Beginnings of variables that the lab leaves alone: which model is asked is the caller's choice."""


def environment(**more: str) -> dict[str, str]:
    """Ours without AUTOPATCH_* (but for `FREE`), and `more`."""
    kept = {k: v for k, v in os.environ.items() if not k.upper().startswith("AUTOPATCH_") or k.upper().startswith(FREE)}
    return {**kept, **more}


def write(path: Path, common: dict[str, Any], rooms: dict[str, dict[str, Any]]) -> Path:
    """A file for AUTOPATCH_CONFIG: common settings at the top, a section for each room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    with path.open("w") as file:
        YAML(typ="safe").dump({**common, **rooms}, file)
    return path
