"""How loading and downloading say what they are doing: one sentence at a time, to a callable.

The default writes to standard error. The last line of standard output belongs to the command
(`minivllm model path`, `--json`).
"""

import sys
from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with one short sentence, no newline."""


def print_progress(sentence: str) -> None:
    """The default `Progress`: a line on standard error."""
    print(sentence, file=sys.stderr, flush=True)


def silent(sentence: str) -> None:
    """A `Progress` that says nothing."""


def format_bytes(num_bytes: int) -> str:
    """540000000 -> "540 MB" (decimal units, as disks and downloads are sold)."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB"):
        if value < 999.5:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
