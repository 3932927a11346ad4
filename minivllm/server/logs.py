"""Structured logs: one line of JSON per log record, with the id of the HTTP request.

    {"t": "2026-11-21T15:04:05.123Z", "level": "info", "message": "request", "request_id": "...",
    "status": 200, ...}

The JSON is ASCII only, with control characters escaped. So a client's text cannot forge log lines
or move the cursor.
"""

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Id of the current HTTP request; the middleware sets it."""


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON; `extra={"fields": {...}}` adds fields to the line."""

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


def set_up_logging(level: str) -> None:
    """Send the logs of the server and of uvicorn to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    # The server logs requests and startup itself, so uvicorn's info messages are dropped.
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
