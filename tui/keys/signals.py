"""`leave_on_signals`: a dashboard that gets SIGTERM or SIGHUP ends as if by key.

`kill` and a closing session send SIGTERM, a terminal that goes away sends SIGHUP. By default both
end the process on the spot, and the terminal stays in the alternate screen, without a cursor and
with mouse reporting on. ctrl+c is a key here and comes another way.

When the terminal is gone, Textual's writer thread ends at its first failing write. The next paint
then waits forever for that thread's queue, and an event loop that waits sees no signal. So Python's
own handlers catch the signals, which interrupts that wait, and a process that has not left after
`GRACE` seconds is ended. Only the main thread may set handlers: an app in a test's thread has none.
"""

import asyncio
import contextlib
import os
import signal
import threading
from functools import partial

from textual.app import App

GRACE = 5.0
"""Seconds to leave in good order: long enough for an engine to finish its step and close its
recording.
"""
_NAMES = ("SIGTERM", "SIGHUP")
_OF_A_SIGNAL = 128
"""What a shell adds to the number of a signal to say that a program ended by it."""


def leave_on_signals(app: App[str]) -> None:
    """From now on; the app's return code is then the shell's for that signal."""
    loop = asyncio.get_running_loop()

    def leave(number: int, frame: object) -> None:
        code = _OF_A_SIGNAL + number
        last = threading.Timer(GRACE, os._exit, (code,))
        last.daemon = True  # an app that has left in time does not wait for it
        last.start()
        with contextlib.suppress(RuntimeError):  # the loop has ended: so will the process
            loop.call_soon_threadsafe(partial(app.exit, return_code=code))

    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None:
            with contextlib.suppress(ValueError):
                signal.signal(number, leave)
