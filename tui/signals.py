"""`leave_on_signals`: a dashboard that is told to end by its surroundings ends as if by key.

SIGTERM is what `kill` and a closing session send, SIGHUP what a terminal sends that is going away. By default both end
the process on the spot, and the terminal keeps the other screen, no cursor and the mouse. ctrl+c is a key here and
comes another way.

The easy thing to get wrong is where a signal may be caught: only in the main thread, and not at all by the event loop
of Windows. An app in a thread of a test simply does without.
"""

import asyncio
import contextlib
import signal

from textual.app import App

_NAMES = ("SIGTERM", "SIGHUP")
_OF_A_SIGNAL = 128
"""What a shell adds to the number of a signal to say that a program ended by it."""


def leave_on_signals(app: App[str]) -> None:
    """From now on, until the app's event loop ends; the app's return code is then the shell's for that signal."""
    loop = asyncio.get_running_loop()
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, lambda code=_OF_A_SIGNAL + number: app.exit(return_code=code))
