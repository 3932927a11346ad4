"""Checks of the terminal: size, characters and colours, as the dashboard needs them."""

import os
import shutil
import sys

from minivllm.cli.doctor.finding import Finding, advice, ok
from minivllm.cli.terminal import has_utf8

COLUMNS, ROWS = 120, 36
"""The size that the dashboard is designed for (docs/start/index.md)."""


def check_terminal() -> Finding:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return advice(
            "terminal", "none here, so no dashboard: lesson --plain and demo --headless work"
        )
    size = shutil.get_terminal_size()
    found = f"{size.columns} columns and {size.lines} rows"
    if size.columns < COLUMNS or size.lines < ROWS:
        return advice(
            "terminal",
            f"{found}, but the dashboard is made for {COLUMNS} and {ROWS}: enlarge the window or"
            " shrink the font",
        )
    if not has_utf8():
        return advice(
            "terminal", f"{found}, without UTF-8: the dashboard uses ASCII; set LANG=C.UTF-8"
        )
    return ok("terminal", found)


def check_colours() -> Finding:
    """Count colours as Textual does, from TERM and COLORTERM."""
    term = os.environ.get("TERM", "").lower()
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return ok("colours", "16 million")
    if "NO_COLOR" in os.environ:
        return advice("colours", "off (NO_COLOR is set): unset it, and the dashboard has colours")
    if term.endswith(("256color", "kitty", "direct")):
        return ok("colours", "256")
    return advice(
        "colours",
        f"few or none (TERM is {term or 'not set'}): set TERM=xterm-256color if it shows more",
    )
