"""`check --watch`: checks again whenever the student's file is saved, and takes keys meanwhile.

The easy thing to get wrong is the terminal: keys are read one by one, without echo, and whatever
ends the watching must put it back as it was. A key that is pressed during a check, or between two
looks, must not be lost: nothing is flushed, and no more than one key is read at a time.
"""

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
    """Run once, and again at each save or `r`, until `q` or Ctrl-C. `actions`: what the other keys
    do; one that returns true ends the watching."""
    seen = None
    while True:
        with _single_keys():
            if (now := _saved_at(file)) != seen:
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


def _saved_at(file: Path) -> int:
    """When it was last written; 0 while an editor has it away."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _key() -> str:
    if not sys.stdin.isatty():
        time.sleep(SECONDS_BETWEEN_LOOKS)
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], SECONDS_BETWEEN_LOOKS)
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else ""


@contextmanager
def _single_keys() -> Iterator[None]:
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
