"""Measures how much busy processes slow down our engine and `transformers`.

    python tools/load/busy_machine.py --model smollm2 --busy 4 --rounds 5
    python tools/load/busy_machine.py --model tiny-random --engine minivllm:2 --engine minivllm:1

Each engine runs in its own process; `minivllm:1` is an engine with one thread. In each round every
engine has one turn while the busy processes are stopped, and one turn while they run. The slow-down
is the loaded time divided by the quiet time: the median over the rounds.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from minivllm.lab.bench.throughput.peers import MinivllmEngine, TransformersPeer
from minivllm.lab.bench.throughput.workloads import WorkloadSpec, count_output_tokens, make_requests
from minivllm.lab.common.environment import describe_environment
from minivllm.lab.common.report import positive_int, print_report
from minivllm.runtime.store.model_store import resolve_for_transformers

LONGEST_S = 600
"""A busy process ends after this many seconds, even if this process has died."""
BUSY = f"import time\nend = time.monotonic() + {LONGEST_S}\nwhile time.monotonic() < end: pass"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2", help="default: %(default)s")
    parser.add_argument(
        "--engine",
        action="append",
        help="minivllm or transformers, and the number of threads (default: both with 2)",
    )
    parser.add_argument(
        "--busy",
        type=positive_int,
        default=4,
        help="number of busy processes (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=positive_int, default=5, help="default: %(default)s")
    parser.add_argument("--requests", type=positive_int, default=16, help="default: %(default)s")
    parser.add_argument(
        "--prompt-len", type=positive_int, default=8, help="tokens (default: %(default)s)"
    )
    parser.add_argument(
        "--output-len", type=positive_int, default=8, help="tokens (default: %(default)s)"
    )
    parser.add_argument(
        "--json", action="store_true", help="end standard output with one line of JSON"
    )
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        _answer(args)
    else:
        _report(args, *_measure(args, args.engine or ["minivllm:2", "transformers:2"]))


def _spec(args: argparse.Namespace) -> WorkloadSpec:
    return WorkloadSpec(
        "busy-machine", args.requests, (args.prompt_len,) * 2, (args.output_len,) * 2
    )


def _measure(
    args: argparse.Namespace, names: list[str]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    quiet: dict[str, list[float]] = {name: [] for name in names}
    loaded: dict[str, list[float]] = {name: [] for name in names}
    children = [_start(name) for name in names]
    try:
        for child in children:
            child.stdout.readline()  # wait until the child is ready
        with _busy_processes(args.busy) as load:
            for number in range(args.rounds):
                for name, child in zip(names, children, strict=True):
                    load(signal.SIGSTOP)
                    quiet[name].append(_turn(child, 2 * number + 1))
                    load(signal.SIGCONT)
                    loaded[name].append(_turn(child, 2 * number + 2))
    finally:
        for child in children:
            child.kill()
            child.wait()
    return quiet, loaded


@contextmanager
def _busy_processes(number: int) -> Iterator:
    """Start busy processes; yield a function that sends a signal to all of them."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(number)]

    def send(which: int) -> None:
        for process in processes:
            process.send_signal(which)
        time.sleep(0.2)

    try:
        yield send
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _start(name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, *sys.argv[1:], "--serve", name],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _turn(child: subprocess.Popen[str], round_number: int) -> float:
    child.stdin.write(f"{round_number}\n")
    child.stdin.flush()
    if not (line := child.stdout.readline()):
        sys.exit("An engine's process has ended; its output is above.")
    return json.loads(line)


def _answer(args: argparse.Namespace) -> None:
    """Run in the child: read round numbers from standard input, and write each round's seconds."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch

    kind, _, num_threads = args.serve.partition(":")
    torch.set_num_threads(int(num_threads or 2))
    checkpoint = resolve_for_transformers(args.model)
    engine = (
        TransformersPeer(checkpoint, "float32", "cpu")
        if kind == "transformers"
        else MinivllmEngine(args.model, "float32", "cpu")
    )
    vocab_size = json.loads((checkpoint / "config.json").read_text())["vocab_size"]
    engine.generate(make_requests(_spec(args), 0, 0, vocab_size))
    answers.write("ready\n")
    for line in sys.stdin:
        requests = make_requests(_spec(args), 0, int(line), vocab_size)
        began = time.perf_counter()
        engine.generate(requests)
        answers.write(f"{time.perf_counter() - began}\n")


def _report(
    args: argparse.Namespace, quiet: dict[str, list[float]], loaded: dict[str, list[float]]
) -> None:
    num_tokens = count_output_tokens(make_requests(_spec(args), 0, 0, 256))
    rows, engines = [], {}
    for name in quiet:
        ratios = [slow / fast for slow, fast in zip(loaded[name], quiet[name], strict=True)]
        speeds = [num_tokens / statistics.median(times[name]) for times in (quiet, loaded)]
        engines[name] = {
            "quiet_s": quiet[name],
            "loaded_s": loaded[name],
            "slow_down": statistics.median(ratios),
        }
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        rows.append(
            (name, *(f"{speed:.1f}" for speed in speeds), f"{statistics.median(ratios):.2f}", shown)
        )
    environment = describe_environment("torch", "transformers")
    machine = environment["machine"]
    title = (
        f"{args.model} float32, {args.requests} requests of {args.prompt_len} + {args.output_len}"
        f" tokens, {args.busy} busy processes, {args.rounds} rounds; {machine['cpu']},"
        f" {machine['cores']} cores"
    )
    result = {"tool": "busy_machine", **vars(args), "engines": engines, **environment}
    columns = ("engine:threads", "quiet, tokens/s", "loaded, tokens/s", "slow-down", "each round")
    print_report(title, columns, rows, [], result, args.json)


if __name__ == "__main__":
    main()
