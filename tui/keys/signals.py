"""`leave_on_signals`: on SIGTERM or SIGHUP the dashboard exits as if the user had pressed q.

`kill` and the end of a session send SIGTERM, a closed terminal sends SIGHUP. By default both end
the process at once and leave the terminal in the alternate screen, without a cursor.

When the terminal is gone, Textual's writer thread ends at its first failing write. The next paint
then waits forever for that thread's queue, and a waiting event loop handles no signals. The
handlers installed here can interrupt that wait. If the process still runs `GRACE` seconds later, it
is ended by force. Only the main thread can install handlers, so an app in a test's thread has none.
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
"""If a signal ends a program, shells report 128 plus the signal's number as its exit code."""


def leave_on_signals(app: App[str]) -> None:
    """Install the handlers. The app then returns the shell's code for the signal."""
    loop = asyncio.get_running_loop()

    def leave(number: int, frame: object) -> None:
        code = _OF_A_SIGNAL + number
        last = threading.Timer(GRACE, os._exit, (code,))
        last.daemon = True  # an app that exits in time must not wait for this timer
        last.start()
        with contextlib.suppress(RuntimeError):  # the loop has ended; the process will end soon
            loop.call_soon_threadsafe(partial(app.exit, return_code=code))

    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None:
            with contextlib.suppress(ValueError):
                signal.signal(number, leave)
