"""Logs as JSON lines on standard output."""

import json
import logging
import sys
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, message, service, release and whatever `extra={"fields": …}` adds."""

    def __init__(self, service: str, release: str) -> None:
        super().__init__()
        self._always = {"service": service, "release": release}

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._always,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(service: str, release: str) -> None:
    """Sends every logger's lines to standard output."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines(service, release))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
