"""What all benches share: options, progress, and a report for people and for programs.

With `--json`, standard output has exactly one JSON object, and the table goes to standard error.
Reports use the median: in a mean, one interruption by the operating system outweighs a hundred
undisturbed steps.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from minivllm.lab.common.environment import describe_environment, set_num_threads
from minivllm.runtime.store.model_store import ModelStore
from minivllm.runtime.store.provenance import provenance_of

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

    def read_all(text: str) -> list[Any]:
        return [read(part.strip()) for part in text.split(",")]

    read_all.__name__ = f"list of {read.__name__}"  # argparse names it in its message
    return read_all


def add_number(parser: argparse.ArgumentParser, option: str, default: int, meaning: str) -> None:
    """Add an option for a whole number, at least 1, such as `--steps` or `--rounds N`."""
    flag, _, metavar = option.partition(" ")
    about = f"{meaning} (default: {default:,})"
    kind = {"type": positive_int, "metavar": metavar or None}
    parser.add_argument(flag, default=default, help=about, **kind)


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    about = "print one line of JSON; all messages go to standard error"
    parser.add_argument("--json", action="store_true", help=about)


def add_model_arguments(
    parser: argparse.ArgumentParser, *, dtype: bool = True, model: str = DEFAULT_MODEL
) -> None:
    names = f"alias, directory, .gguf file or Hugging Face id (default: {model})"
    parser.add_argument("--model", default=model, help=names)
    if dtype:
        # No `auto`: the result must state the dtype.
        names = ("float32", "bfloat16", "float16")
        about = f"type of the computation and KV cache (default: {DEFAULT_DTYPE})"
        parser.add_argument("--dtype", default=DEFAULT_DTYPE, choices=names, help=about)
    add_number(parser, "--num-threads", 2, "CPU threads")


def progress_bar(*, auto_refresh: bool = False) -> Progress:
    """Return a progress bar on standard error. By default, only the caller redraws it."""
    console = Console(stderr=True, highlight=False)
    disable = not console.is_terminal
    return Progress(console=console, auto_refresh=auto_refresh, transient=True, disable=disable)


def tracked(items: Iterable[Any], description: str) -> Iterator[Any]:
    """Yield the items while a progress bar counts them."""
    with progress_bar() as progress:
        for item in progress.track(list(items), description=description):
            progress.refresh()
            yield item


class Report(NamedTuple):
    title: str
    columns: Seq[str]
    rows: Seq[Seq[str]]
    notes: Seq[str]
    """One line each, below the table."""
    result: dict[str, object]
    """The JSON."""
    status: int = 0
    """Exit status of the command."""


def run_bench(measure: Callable[[argparse.Namespace], Report], args: argparse.Namespace) -> int:
    """Measure, and print the report. Its JSON also has all options, versions and the machine."""
    threads = getattr(args, "num_threads", None)
    if threads is not None:
        set_num_threads(threads)
    report = measure(args)
    given = {name: value for name, value in vars(args).items() if not callable(value)}
    machine = describe_environment("torch", "transformers")
    result = {**given, "threads": threads, **report.result, **machine}
    print_report(report._replace(result=result), args.json)
    return report.status


def print_report(report: Report, as_json: bool) -> None:
    """Print the table (first column left, others right) and the notes; with `as_json`, print
    these on standard error, and JSON on standard output.
    """
    result, notes = report.result, report.notes
    table = Table()
    for number, column in enumerate(report.columns):
        table.add_column(column, justify="right" if number else "left")
    for row in report.rows:
        table.add_row(*row)
    console = Console(highlight=False, stderr=as_json)
    console.print(report.title, markup=False, soft_wrap=True)
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
    here = ModelStore().smollm2_if_here()
    return None if here is None else str(provenance_of(here))
