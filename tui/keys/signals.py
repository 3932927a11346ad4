"""`leave_on_signals`: on SIGTERM or SIGHUP the dashboard exits as if by key.

`kill` and the end of a session send SIGTERM, a closed terminal sends SIGHUP. By default both end
the process at once and leave the terminal in the alternate screen, without a cursor.

When the terminal is gone, Textual's writer thread ends at its first failing write. The next paint
then waits forever for that thread's queue, and a waiting event loop handles no signals. Python's
own handlers interrupt that wait, and a process that has not left after `GRACE` seconds is ended.
Only the main thread can set handlers, so an app in a test's thread has none.
"""

import asyncio
import contextlib
import os
import signal
import threading
from functools import partial

from textual.app import App

GRACE = 5.0
"""Seconds to exit cleanly: enough for an engine to finish its step and close its recording."""
_NAMES = ("SIGTERM", "SIGHUP")
_OF_A_SIGNAL = 128
"""Shells report a program that a signal ended as 128 plus the signal's number."""


def leave_on_signals(app: App[str]) -> None:
    """Install the handlers. The app then returns the shell's code for the signal."""
    loop = asyncio.get_running_loop()

    def leave(number: int, frame: object) -> None:
        code = _OF_A_SIGNAL + number
        last = threading.Timer(GRACE, os._exit, (code,))
        last.daemon = True  # do not keep an app that has exited in time
        last.start()
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the process soon will
            loop.call_soon_threadsafe(partial(app.exit, return_code=code))

    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None:
            with contextlib.suppress(ValueError):
                signal.signal(number, leave)
