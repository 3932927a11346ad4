"""What the commands share in talking to a person: notes, results, and text that comes from a model.

Results go to standard output and everything else to standard error, so that output can be piped.
With `--json` the result is one line of JSON, alone on standard output: what a person reads goes to
standard error. The easy thing to get wrong is trust: a model or a prompt may hold escape sequences,
and a terminal would obey them.
"""

import json
import os
import re
import sys
from typing import TextIO

from minivllm.errors import TerminalError

# All control characters but tab and line feed.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def terminal_attached() -> bool:
    """Whether a person can see what we draw and answer by key: in a terminal, or in a browser
    through `textual serve`.
    """
    in_browser = "WebDriver" in os.environ.get("TEXTUAL_DRIVER", "")
    return in_browser or (sys.stdin.isatty() and sys.stdout.isatty())


def require_terminal(instead: str) -> None:
    """Raise `TerminalError` where there is nobody to look at a dashboard. `instead`: what works
    without.
    """
    if not terminal_attached():
        raise TerminalError(f"The dashboard needs a terminal, and there is none here; {instead}.")


def note(text: str = "") -> None:
    """A line for the person, not part of the result."""
    print(text, file=sys.stderr, flush=True)


def show(text: str, stream: TextIO | None = None) -> None:
    """Write `text` as it is, at once; on a terminal without the control characters that it would
    obey.
    """
    stream = stream or sys.stdout
    stream.write(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text) if stream.isatty() else text)
    stream.flush()


def print_json(value: object) -> None:
    """One line of JSON: with `--json` all of standard output."""
    print(json.dumps(value, ensure_ascii=False), flush=True)
