"""`check --watch`: checks again when the student's file is saved, and reacts to keys."""

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS_BETWEEN_LOOKS = 0.3
KEYS = "r run, h hint, d diff, l list, n next, x reset, q quit"


def watch(file: Path, run: Callable[[], object], actions: dict[str, Callable[[], object]]) -> None:
    """Call `run` once, and again at each save or `r`, until `q` or an action returns True."""
    seen, key = None, ""
    while key != "q" and not (key in actions and actions[key]()):
        with _single_keys():
            # While an editor replaces the file, it is missing.
            now = file.stat().st_mtime_ns if file.exists() else 0
            if now != seen or key == "r":
                seen = now
                run()
                print(f"\nWatching {file}: {KEYS}.", flush=True)
            inputs = [sys.stdin] if sys.stdin.isatty() else []
            ready, _, _ = select.select(inputs, [], [], SECONDS_BETWEEN_LOOKS)
            key = os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else ""


@contextmanager
def _single_keys() -> Iterator[None]:
    """Read keys one by one and without echo. A key pressed during a check is not lost."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
