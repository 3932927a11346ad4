"""Terminal output that the commands share: notes, results, and text from a model.

Results go to standard output, and messages to standard error. With `--json`, the result is one line
of JSON. On a terminal, control characters in a model's text are replaced, because they could change
the screen.
"""

import json
import os
import re
import shutil
import sys
import termios
import textwrap
from typing import TextIO

from minivllm.errors import TerminalError

# All control characters except tab and line feed.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def terminal_attached() -> bool:
    """Whether a user can see the screen and press keys, in a terminal or with `textual serve`."""
    in_browser = "WebDriver" in os.environ.get("TEXTUAL_DRIVER", "")
    return in_browser or (sys.stdin.isatty() and sys.stdout.isatty())


def has_utf8() -> bool:
    """Whether the locale's encoding can represent everything that is drawn."""
    return "utf" in (sys.stdout.encoding or "utf").lower()


def require_terminal(instead: str) -> None:
    """Raise `TerminalError` if there is no terminal. instead: what works without a terminal"""
    if not terminal_attached():
        raise TerminalError(f"The dashboard needs a terminal, and there is none here; {instead}.")


def forget_typed_keys() -> None:
    """Discard keys that were typed but not read, so that the next reader does not get them."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def note(text: str = "") -> None:
    print(text, file=sys.stderr, flush=True)


def show(text: str, stream: TextIO | None = None) -> None:
    """Write and flush `text`; on a terminal, replace control characters."""
    stream = stream or sys.stdout
    stream.write(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text) if stream.isatty() else text)
    stream.flush()


def fill(text: str, indent: int | None = None, stream: TextIO | None = None) -> str:
    """Wrap a line between its words for a terminal. A pipe gets one line.

    indent: of further rows; by default, the first word stays alone if it has a gap behind it
    """
    if not (stream or sys.stdout).isatty():
        return text
    width = max(shutil.get_terminal_size().columns, 20)
    below = " " * (re.match(" *([^ ]+  +)?", text).end() if indent is None else indent)
    whole = {"break_long_words": False, "break_on_hyphens": False}  # names of files and options
    return textwrap.fill(text, width, subsequent_indent=below, **whole)


def print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)
