"""Reports of a bench: a table for people, one line of JSON for programs.

With `--json`, standard output has exactly one JSON object, and the table goes to standard error.
Reports use the median: in a mean, one interruption by the operating system outweighs a hundred
undisturbed steps.
"""

import argparse
import json
from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

DEFAULT_MODEL = "smollm2"
DEFAULT_DTYPE = "float32"


def positive_int(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1; got {text!r}.")
    return value


def listed(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Make an argparse type for a list, separated by commas; `read` parses each element."""
    return lambda text: [read(part.strip()) for part in text.split(",")]


def request_rate(text: str) -> float:
    """Parse requests per second, over 0, as an argparse type; `inf` sends all at once."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(
            f"must be more than 0 requests per second, or inf for all at once; got {text!r}."
        )
    return value


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one line of JSON on standard output, and messages on standard error",
    )


def add_model_arguments(parser: argparse.ArgumentParser, *, dtype: bool = True) -> None:
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help=f"alias, directory, .gguf file or Hugging Face id (default: {DEFAULT_MODEL})",
    )
    if dtype:
        # No `auto`: the result must state the dtype.
        parser.add_argument(
            "--dtype",
            default=DEFAULT_DTYPE,
            choices=("float32", "bfloat16", "float16"),
            help=f"type of the computation and KV cache (default: {DEFAULT_DTYPE})",
        )
    parser.add_argument(
        "--num-threads", type=positive_int, default=2, help="CPU threads (default: %(default)s)"
    )


def progress_bar() -> Progress:
    """Return a progress bar on standard error that redraws only when the caller asks for it."""
    console = Console(stderr=True, highlight=False)
    return Progress(console=console, auto_refresh=False, transient=True)


def report_console(as_json: bool) -> Console:
    """Return the console for the report: standard error if JSON goes to standard output."""
    return Console(highlight=False, stderr=as_json)


def print_report(
    title: str,
    columns: Seq[str],
    rows: Seq[Seq[str]],
    notes: Seq[str],
    result: dict[str, object],
    as_json: bool,
) -> None:
    """Print the table (first column left, others right) and one line per note.

    With `as_json`, the table and the notes go to standard error, and JSON goes to standard output.
    """
    table = Table()
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console = report_console(as_json)
    console.print(title, markup=False, soft_wrap=True)
    console.print(table)
    if weights := _weights_of_default_model(result):
        result = result | {"weights": weights}
        notes = [*notes, f"{DEFAULT_MODEL} is {weights} here."]
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)
    if as_json:
        # Print without rich, which would wrap the line at the terminal's width.
        print(json.dumps(result), flush=True)


def _weights_of_default_model(result: dict[str, object]) -> str | None:
    """Say which files `smollm2` stands for on this machine; None for results without it."""
    if result.get("model") != DEFAULT_MODEL:
        return None
    from minivllm.runtime.store.model_store import ModelStore
    from minivllm.runtime.store.provenance import provenance_of

    here = ModelStore().smollm2_if_here()
    return None if here is None else str(provenance_of(here))
