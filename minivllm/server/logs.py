"""Structured logs: a line of JSON for each thing that happened, with the id of the request that it
belongs to.

    {"t": "2026-11-21T15:04:05.123Z", "level": "info", "message": "request", "request_id": "...",
    "status": 200, ...}

The easy thing to get wrong is what clients write into our terminal. JSON in ASCII escapes every
control character, so a path or a name from outside can neither forge a line nor move the cursor.
"""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TextIO

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Of the HTTP request that is being served; set by the middleware."""


class JsonFormatter(logging.Formatter):
    """`extra={"fields": {...}}` puts more into the line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            "t": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if (request_id := REQUEST_ID.get()) is not None:
            line["request_id"] = request_id
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logging(level: str, stream: TextIO | None = None) -> None:
    """Send what the server and uvicorn have to say to `stream`, by default standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    # What uvicorn tells on its way we tell ourselves, in words of our own.
    uvicorn_level = level if level in ("debug", "critical", "error") else "warning"
    for name, least in (
        ("minivllm.server", level),
        ("minivllm.engine.engine", level),
        ("uvicorn", uvicorn_level),
    ):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(least.upper())
        logger.propagate = False
