"""`minivllm bench startup`: time from starting `python` to a local model's first token, by part.

    minivllm bench startup --model smollm2 --json

Each measurement is a separate process. The parent reads the clock just before it starts the child,
and both use the system's monotonic clock. The table also has the processor time, which depends less
on how busy the machine is. The first process is not counted, because the operating system has not
cached the files yet.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from minivllm.errors import BenchError
from minivllm.lab.common.environment import describe_environment
from minivllm.lab.common.report import (
    add_json_argument,
    add_model_arguments,
    positive_int,
    print_report,
    progress_bar,
)
from minivllm.runtime.store.model_store import resolve_model

DEFAULT_PROCESSES = 5
LIMIT_S = 300.0
PARTS = ("python", "import_minivllm", "import_torch_and_engine", "load_model", "first_token")
_IN_WORDS = {
    "python": "Python itself",
    "import_minivllm": "import minivllm",
    "import_torch_and_engine": "import torch and the engine",
    "load_model": "load the model, allocate the KV cache",
    "first_token": "first token",
    "processor": "processor time in it",
}
_CHILD = """
import time
times = [time.monotonic()]
import minivllm
times.append(time.monotonic())
import minivllm.llm, minivllm.runtime.loader, minivllm.runtime.model_runner, torch
times.append(time.monotonic())
import json, sys
options = json.loads(sys.argv[1])
torch.set_num_threads(options.pop("num_threads"))
llm = minivllm.LLM(**options)
times.append(time.monotonic())
llm.generate({"prompt_token_ids": list(range(8))}, \
minivllm.SamplingParams(temperature=0, max_tokens=1), use_tqdm=False)
times.append(time.monotonic())
print(json.dumps([times, time.process_time()]))
"""


@dataclass(frozen=True, slots=True)
class MeasuredStart:
    """Times of one process from its start to its first token, in seconds."""

    parts: dict[str, float]
    """Part, as in `PARTS` -> seconds."""
    processor: float
    """Processor time of all threads; other programs on the machine hardly change it."""


def measure_process(options: dict[str, object]) -> MeasuredStart:
    began = time.monotonic()
    try:
        child = subprocess.run(
            [sys.executable, "-c", _CHILD, json.dumps(options)],
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise BenchError(
            f"A process had no first token after {LIMIT_S:.0f} s: is this machine busy?"
        ) from None
    if child.returncode != 0:
        raise BenchError(
            f"The measuring process ended with status {child.returncode}; its output is above."
        )
    times, processor = json.loads(child.stdout.splitlines()[-1])
    starts = [began, *times[:-1]]
    return MeasuredStart(
        {part: end - start for part, start, end in zip(PARTS, starts, times, strict=True)},
        processor,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument(
        "--processes",
        type=positive_int,
        default=DEFAULT_PROCESSES,
        help="number of measured processes (default: %(default)s)",
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    # In this process, so that a wrong name is reported and a download is not measured.
    resolve_model(args.model)
    options = {"model": args.model, "dtype": args.dtype, "num_threads": args.num_threads}
    runs = []
    with progress_bar() as progress:
        task = progress.add_task("processes", total=args.processes + 1)
        for number in range(args.processes + 1):
            started = measure_process(options)
            if number:
                runs.append(started)
            progress.update(task, advance=1, refresh=True)
    columns = {part: [started.parts[part] for started in runs] for part in PARTS}
    columns["total"] = [sum(started.parts.values()) for started in runs]
    columns["processor"] = [started.processor for started in runs]
    result = {
        "bench": "startup",
        "model": args.model,
        "dtype": args.dtype,
        "threads": args.num_threads,
        "processes": args.processes,
        "seconds": {name: statistics.median(values) for name, values in columns.items()},
        "runs": [started.parts for started in runs],
        **describe_environment("torch"),
    }
    rows = [
        (_IN_WORDS.get(name, name), *(f"{f(values):.3f}" for f in (statistics.median, min, max)))
        for name, values in columns.items()
    ]
    title = (
        f"{args.model} {args.dtype} on cpu, {args.num_threads} threads, {args.processes} processes;"
        " seconds"
    )
    print_report(title, ("", "median", "fastest", "slowest"), rows, [], result, args.json)
    return 0
