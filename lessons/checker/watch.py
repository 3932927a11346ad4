"""`check --watch`: checks again when the student's file is saved, and reacts to keys."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS_BETWEEN_LOOKS = 0.3
KEYS = "r run, h hint, d diff, l list, n next, x reset, q quit"


def watch(file: Path, run: Callable[[], object], actions: dict[str, Callable[[], object]]) -> None:
    """Call `run` once, and again at each save or `r`, until `q` or Ctrl-C.

    actions: key -> function; if the function returns a true value, watching ends
    """
    seen = None
    while True:
        with _single_keys():
            # While an editor replaces the file, it is missing.
            now = file.stat().st_mtime_ns if file.exists() else 0
            if now != seen:
                seen = now
                run()
                print(f"\nWatching {file}: {KEYS}.", flush=True)
            key = _key()
        if key == "q":
            return
        if key == "r":
            seen = None
        elif key in actions and actions[key]():
            return


def _key() -> str:
    """The next key, if one comes soon. A key pressed during a check is not lost."""
    if not sys.stdin.isatty():
        time.sleep(SECONDS_BETWEEN_LOOKS)
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], SECONDS_BETWEEN_LOOKS)
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else ""


@contextmanager
def _single_keys() -> Iterator[None]:
    """Read keys one by one and without echo."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
