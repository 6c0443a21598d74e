"""Log lines for journald: text or one JSON object a line, control characters escaped."""

from __future__ import annotations

import json
import logging
import sys

from .text import printable


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        lines = record.getMessage().splitlines() or [""]
        text = "; ".join(printable(line, 2000) for line in lines)
        return f"{record.levelname.lower()}: {text}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(
            {
                "at_s": round(record.created, 3),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage(),
            }
        )


def configure(level: str, format: str) -> None:
    """Send the package's log lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if format == "json" else _Plain())
    root = logging.getLogger("slurm_ext")
    root.handlers = [handler]
    root.propagate = False
    root.setLevel(level.upper())
