"""`leave_on_signals`: a dashboard that is told to end by its surroundings ends as if by key.

SIGTERM is what `kill` and a closing session send, SIGHUP what a terminal sends that is going away. By default both end
the process on the spot, and the terminal keeps the other screen, no cursor and the mouse. ctrl+c is a key here and
comes another way.

The easy thing to get wrong is a terminal that is really gone. Textual's thread that writes ends by the first write that
fails; whoever paints next waits for ever until it empties its queue, and an event loop that waits hears no signal. So the
signals are caught by Python itself, which interrupts that wait, and who has not left after `GRACE` seconds is ended.
A signal may be caught only in the main thread: an app in a thread of a test simply does without.
"""

import asyncio
import contextlib
import os
import signal
import threading
from functools import partial

from textual.app import App

GRACE = 5.0
"""Seconds to leave in good order: long enough for an engine to finish its step and close its recording."""
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
