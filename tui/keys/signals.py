"""`leave_on_signals`: on SIGTERM or SIGHUP the dashboard exits as if the user had pressed q.

By default, both signals end the process at once and leave the terminal in the alternate screen,
without a cursor.

When the terminal is gone, Textual's writer thread ends at its first failing write, and the next
paint waits forever for that thread's queue. An event loop that waits there runs no handler of its
own, but the handlers of `signal`, used here, can interrupt it. A process that still runs `GRACE`
seconds later is ended by force.
"""

import asyncio
import contextlib
import os
import signal
import threading
from functools import partial

from textual.app import App

GRACE = 5.0
"""Seconds for a clean exit: an engine must finish its step and close its recording."""
_NAMES = ("SIGTERM", "SIGHUP")
_OF_A_SIGNAL = 128
"""Shells report a program that a signal ended with exit code 128 plus the signal's number."""


def leave_on_signals(app: App[str]) -> None:
    """Install the handlers. Only the main thread can; elsewhere, as in tests, nothing happens."""
    loop = asyncio.get_running_loop()

    def leave(number: int, frame: object) -> None:
        code = _OF_A_SIGNAL + number
        last = threading.Timer(GRACE, os._exit, (code,))
        last.daemon = True  # an app that exits in time must not wait for this timer
        last.start()
        with contextlib.suppress(RuntimeError):  # the loop has ended, so the process soon will
            loop.call_soon_threadsafe(partial(app.exit, return_code=code))

    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None:
            with contextlib.suppress(ValueError):
                signal.signal(number, leave)
