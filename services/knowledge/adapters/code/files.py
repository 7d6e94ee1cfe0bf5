"""Which files of a repository are worth finding. Pure."""

import re

from autopatch.contract.errors import ContractError
from autopatch.repair.localise import says_generated
from autopatch.repair.tree import text_of

LARGEST = 256 * 1024
"""Bytes. Larger files are data."""
FOLDERS = frozenset({
    ".git", ".next", ".tox", ".venv", "__pycache__", "bower_components", "build", "dist", "node_modules", "site-packages",
    "third_party", "vendor", "venv",
})
LOCKS = frozenset({"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "go.sum", "bun.lockb"})
SUFFIXES = (".lock", ".map", ".min.css", ".min.js", ".min.mjs", ".snap", ".svg")
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1f\x7f]")
_LONG_LINE = 2_000  # characters: minified, when lines are long on average too
_LONG_ON_AVERAGE = 500


def left_out(path: str, data: bytes) -> str:
    """Why this file is not indexed, in a word or two; '' when it is."""
    *folders, name = path.split("/")
    if not FOLDERS.isdisjoint(folders):
        return "vendored"
    if name.lower() in LOCKS or name.lower().endswith(SUFFIXES):
        return "generated"
    if len(data) > LARGEST:
        return "huge"
    try:
        text, codec = text_of(data)
    except ContractError:
        return "binary"
    if codec == "latin-1" and _CONTROL.search(text):  # any bytes can be read so
        return "binary"
    return "generated" if _generated(text) else ""


def _generated(text: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and len(text) / len(lines) > _LONG_ON_AVERAGE and max(map(len, lines)) > _LONG_LINE:
        return True
    return says_generated(text)
