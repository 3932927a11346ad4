"""What all benches share: options, progress, and a report for people and for programs.

With `--json`, standard output has exactly one JSON object, and the table goes to standard error.
Reports use the median: in a mean, one interruption by the operating system outweighs a hundred
undisturbed steps.
"""

import argparse
import json
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from minivllm import __version__
from minivllm.runtime.store.model_store import ModelStore
from minivllm.runtime.store.provenance import provenance_of

DEFAULT_MODEL = "smollm2"
DEFAULT_DTYPE = "float32"
DTYPES = (DEFAULT_DTYPE, "bfloat16", "float16")  # no `auto`: the result must state the dtype
MODEL_HELP = "alias, directory, .gguf file or Hugging Face id"
DTYPE_HELP = "type of the computation and KV cache"
JSON_HELP = "print one line of JSON; all messages go to standard error"


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


def add_model_arguments(
    add: Callable[..., None], *, model: str = DEFAULT_MODEL, dtype: bool = True
) -> None:
    """add: `minivllm.cli.Parser.add`"""
    add("--model MODEL", MODEL_HELP, default=model)
    if dtype:
        add("--dtype", DTYPE_HELP, choices=DTYPES, default=DEFAULT_DTYPE)
    add("--num-threads N", "CPU threads", type=positive_int, default=2)


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
    notes: Seq[str]  # one line each, below the table
    result: dict[str, object]  # the JSON
    status: int = 0  # of the command


def run_bench(measure: Callable[[argparse.Namespace], Report], args: argparse.Namespace) -> int:
    """Measure, and print the report. Its JSON also has all options, versions and the machine."""
    threads = getattr(args, "num_threads", None)
    if threads is not None:  # import torch late: it takes a second
        import_module("torch").set_num_threads(threads)
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
    whole = not console.is_terminal  # a pipe gets whole lines; a terminal, lines of whole words
    console.print(report.title, markup=False, soft_wrap=whole)
    needed = console.measure(table, options=console.options.update(max_width=1000)).minimum
    if whole or needed <= console.width:
        console.width = max(needed, console.width)
        console.print(table)
    else:
        for row in report.rows:
            facts = zip(report.columns, row, strict=True)
            console.print(", ".join(" ".join(fact).strip() for fact in facts), markup=False)
    here = ModelStore().smollm2_if_here() if result.get("model") == DEFAULT_MODEL else None
    if here is not None:  # which files the alias stands for on this machine
        weights = str(provenance_of(here))
        result = result | {"weights": weights}
        notes = [*notes, f"{DEFAULT_MODEL} is {weights} here."]
    for note in notes:
        console.print(note, markup=False, soft_wrap=whole)
    if as_json:
        # Print without rich, which would wrap the line at the terminal's width.
        print(json.dumps(result), flush=True)


def describe_environment(*packages: str) -> dict[str, object]:
    """Return `versions` (python, minivllm, `packages`), `machine` and `preload` for the JSON."""
    return {
        "versions": {
            "python": platform.python_version(),
            "minivllm": __version__,
            **{package: version(package) for package in packages},
        },
        # Allocators and OpenMP libraries can change a speed by a quarter.
        "preload": os.environ.get("LD_PRELOAD"),
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
        },
    }


def cpu_model() -> str:
    """Return the processor's name, or the architecture if the name is not available."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
