"""`stop_after`: ends a reader's code that does not end by itself.

A browser has no signals, so Python's own monitoring (3.12) looks at the clock whenever the reader's
file starts a function or jumps back in a loop; the traceback shows the line. Code of other files
runs at full speed. For a loop there, the page ends the whole worker a little later.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

TOOL = 4  # a tool id that Python reserves for nobody


class PlayTimeUpError(BaseException):
    """The reader's code has used up its time. `except Exception` must not catch it."""


@contextmanager
def stop_after(
    seconds: float, file: str, error: type[BaseException] = PlayTimeUpError
) -> Iterator[None]:
    """Raise `error` inside of `file` once `seconds` are over. Before Python 3.12: never."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        yield
        return
    deadline = time.monotonic() + seconds

    def look(code: CodeType, *_: int) -> Any:
        if code.co_filename != file:
            return monitoring.DISABLE
        if time.monotonic() > deadline:
            raise error
        return None

    start, jump = monitoring.events.PY_START, monitoring.events.JUMP
    monitoring.use_tool_id(TOOL, "minivllm playground")
    monitoring.register_callback(TOOL, start, look)
    monitoring.register_callback(TOOL, jump, look)
    monitoring.set_events(TOOL, start | jump)
    try:
        yield
    finally:
        monitoring.set_events(TOOL, 0)
        monitoring.free_tool_id(TOOL)
        monitoring.restart_events()
