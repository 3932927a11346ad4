"""`Progress`: a callable that reports loading and downloading, one sentence per call.

The default prints to standard error, because standard output is for the result of a command
(`minivllm model path`, `--json`).
"""

import sys
from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with one short sentence, without a newline."""


def print_progress(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def silent(sentence: str) -> None:
    """Print nothing."""


def format_bytes(num_bytes: int) -> str:
    """Format a size in decimal units, as for disks and downloads: 540000000 -> "540 MB"."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB"):
        if value < 999.5:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
