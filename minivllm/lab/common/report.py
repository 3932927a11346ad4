"""How a bench tells its result: small statistics, a table for people, one JSON line for programs.

With `--json` standard output is one line, a JSON object, and the table goes to standard error,
where progress goes anyway.

Easy to get wrong, twice. The mean: one interruption by the system outweighs a hundred undisturbed
steps, so the middle is always the median here, and the bad end is shown beside it (`p99`, `max`),
never averaged in. And the progress bar itself: one that redraws by itself takes time from what is
being measured.
"""

import argparse
import json
import math
from collections.abc import Sequence as Seq

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

DEFAULT_MODEL = "smollm2"
DEFAULT_DTYPE = "float32"


def positive_int(text: str) -> int:
    """An argparse type: a whole number, 1 or more."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1; got {text!r}.")
    return value


def positive_ints(text: str) -> tuple[int, ...]:
    """An argparse type: whole numbers, 1 or more, separated by commas."""
    return tuple(positive_int(one) for one in text.split(","))


def request_rate(text: str) -> float:
    """An argparse type: requests a second, over 0; `inf` has all come at once."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(
            f"must be over 0 requests a second, or inf for all at once; got {text!r}."
        )
    return value


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one line of JSON on standard output, and what is for people on standard error",
    )


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of every bench that runs a real model."""
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help=f"alias, directory, .gguf file or Hugging Face id (default: {DEFAULT_MODEL})",
    )
    # No `auto`: a number must say what it was measured with.
    dtypes = ("float32", "bfloat16", "float16")
    parser.add_argument(
        "--dtype",
        default=DEFAULT_DTYPE,
        choices=dtypes,
        help=f"of weights and KV cache (default: {DEFAULT_DTYPE})",
    )
    parser.add_argument(
        "--num-threads", type=positive_int, default=2, help="CPU threads (default: %(default)s)"
    )


def progress_bar() -> Progress:
    """A bar on standard error that is redrawn only when it is told to: between measurements."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(
        *columns, console=Console(stderr=True, highlight=False), auto_refresh=False, transient=True
    )


def nearest_rank(values: Seq[float], percent: float) -> float:
    """The percentile without interpolation: the smallest value that at least `percent` % do not
    exceed.
    """
    ordered = sorted(values)
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[max(rank, 1) - 1]


def report_console(as_json: bool) -> Console:
    """Where a report for people goes: beside the JSON if there is some."""
    return Console(highlight=False, stderr=as_json)


def print_report(
    title: str,
    columns: Seq[str],
    rows: Seq[Seq[str]],
    notes: Seq[str],
    result: dict[str, object],
    as_json: bool,
) -> None:
    """Print the table (first column left, the others right) and one line for each note; or those on
    standard error and the JSON.
    """
    table = Table()
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console = report_console(as_json)
    console.print(title, markup=False, soft_wrap=True)
    console.print(table)
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)
    if as_json:
        # Not through rich, which would wrap the line at the terminal's width.
        print(json.dumps(result), flush=True)
