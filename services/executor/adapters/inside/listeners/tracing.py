"""Which lines of the repository one test executes."""

from __future__ import annotations

import sys
import threading
from typing import Any


class Tracer:
    """Line by line, by sys.settrace; frames of other files cost one call each."""

    def __init__(self, root: str) -> None:
        self._root = root + "/"
        self._lines: dict[str, set[int]] = {}

    def start(self) -> None:
        """From here on, in threads that begin later too."""
        self._lines = {}
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def stop(self) -> None:
        """No further."""
        sys.settrace(None)
        threading.settrace(None)

    def lines(self) -> dict[str, list[int]]:
        """Since the last start, by path relative to the repository."""
        return {path[len(self._root) :]: sorted(lines) for path, lines in sorted(self._lines.items())}

    def _enter(self, frame: Any, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        if not path.startswith(self._root):
            return None
        lines = self._lines.setdefault(path, set())

        def line(frame: Any, event: str, _: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return line

        return line
