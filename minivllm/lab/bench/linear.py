"""`minivllm bench linear`: times a decoder's linear layers with each backend.

    minivllm bench linear --num-threads 2 --rows 1,4,16,512 --json
    minivllm bench linear --num-threads 2 --rows 1,16 --formats all

A pass computes the linear layers of all decoder layers. Each layer has its own random weights,
because those of a single layer would stay in the processor's cache. The backends take turns within
a round, and ratios are medians over rounds. The same run measures how fast the machine can read the
weights (`machine_speed.py`).
"""

import argparse
import statistics

from minivllm.clock import MonotonicClock
from minivllm.errors import BenchError
from minivllm.lab.common.environment import describe_environment, set_num_threads
from minivllm.lab.common.report import (
    add_json_argument,
    add_model_arguments,
    positive_int,
    positive_ints,
    print_report,
    progress_bar,
)
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.model.weight_map import weight_shards
from minivllm.runtime.store.model_store import resolve_model

DEFAULT_ROWS = (1, 2, 4, 8, 16, 32, 64, 512)
DEFAULT_ROUNDS = 7
MAX_ROWS = 1 << 16
"""More tokens than any step has."""

Shape = tuple[int, int]


def decoder_shapes(model: str) -> tuple[list[Shape], int]:
    """Return the shapes of one decoder layer's linear layers, and the number of decoder layers.

    A shape is (out_features, in_features). Layers are fused as in our decoder.
    """
    config = read_model_config(resolve_model(model, weights=False))
    shapes: dict[str, Shape] = {}
    for shard in weight_shards(config).values():
        if shard.parameter.startswith("layers.0.") and len(shard.shape) == 2:
            out_features = shard.shape[0] + shapes.get(shard.parameter, (0, 0))[0]
            shapes[shard.parameter] = (out_features, shard.shape[1])
    return list(shapes.values()), config.num_hidden_layers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument(
        "--rows",
        type=positive_ints,
        default=DEFAULT_ROWS,
        metavar="N,...",
        help=f"numbers of tokens in a step (default: {','.join(map(str, DEFAULT_ROWS))})",
    )
    parser.add_argument(
        "--formats",
        metavar="NAME,...",
        help="measure the cpu backend with weights in these stored formats instead of all backends;"
        " all, or names such as q4_1,bfloat16",
    )
    parser.add_argument(
        "--rounds",
        type=positive_int,
        default=DEFAULT_ROUNDS,
        help="number of rounds over all backends (default: %(default)s)",
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    import torch

    from minivllm.lab.bench.linear_backends import LinearBench
    from minivllm.lab.common.machine_speed import measure_machine_speed

    if max(args.rows) > MAX_ROWS:
        raise BenchError(
            f"--rows are tokens of one step, at most {MAX_ROWS:,}; got {max(args.rows):,}."
        )
    set_num_threads(args.num_threads)
    if args.formats is not None:
        return _run_formats(args)
    clock, dtype = MonotonicClock(), getattr(torch, args.dtype)
    shapes, num_layers = decoder_shapes(args.model)
    bench = LinearBench(shapes, num_layers, dtype, clock)
    speed = measure_machine_speed(dtype, torch.device("cpu"), clock)
    read_s = speed.seconds_to_read(bench.weight_bytes)
    results = []
    with progress_bar() as progress:
        for num_rows in progress.track(args.rows, description="linear layers"):
            times = bench.measure(num_rows, args.rounds)
            flop = 2 * num_rows * bench.weight_bytes / dtype.itemsize
            results.append({"rows": num_rows, "flop": flop, "seconds": times})
    result = {
        "bench": "linear",
        "model": args.model,
        "dtype": args.dtype,
        "threads": args.num_threads,
        "weight_bytes": bench.weight_bytes,
        "read_weights_s": read_s,
        "gemm_gflop_per_s": speed.gemm_gflop_per_s,
        "left_out": bench.left_out,
        "results": results,
        **describe_environment("torch"),
    }
    columns = ["rows", *bench.ways, "onednn / cpu", "reading", "arithmetic"]
    rows = [_row(entry, read_s, speed.gemm_gflop_per_s) for entry in results]
    title = (
        f"Milliseconds of all linear layers of {args.model}'s decoder, {args.dtype},"
        f" {args.num_threads} threads"
    )
    notes = [
        (
            f"reading: the weights once, at {speed.read_gb_per_s:.1f} GB/s; arithmetic: at"
            f" {speed.gemm_gflop_per_s:.0f} GFLOP/s."
        ),
        *(f"Left out: {why}" for why in bench.left_out.values()),
    ]
    print_report(title, columns, rows, notes, result, args.json)
    return 0


def _row(entry: dict, read_s: float, gflop_per_s: float) -> list[str]:
    times: dict[str, list[float]] = entry["seconds"]
    ratio = "-"
    if "cpu" in times and "onednn" in times:
        ratios = [b / a for a, b in zip(times["cpu"], times["onednn"], strict=True)]
        ratio = f"{statistics.median(ratios):.2f}"
    seconds = [
        *(statistics.median(values) for values in times.values()),
        read_s,
        entry["flop"] / gflop_per_s / 1e9,
    ]
    cells = [f"{1e3 * value:.3g}" if value < 1e-3 else f"{1e3 * value:.1f}" for value in seconds]
    return [str(entry["rows"]), *cells[:-2], ratio, *cells[-2:]]


def _run_formats(args: argparse.Namespace) -> int:
    from minivllm.lab.bench.linear_formats import FormatBench, chosen_formats

    shapes, num_layers = decoder_shapes(args.model)
    bench = FormatBench(chosen_formats(args.formats), shapes, num_layers, MonotonicClock())
    results = []
    with progress_bar() as progress:
        for num_rows in progress.track(args.rows, description="linear layers"):
            seconds = bench.measure(num_rows, args.rounds)
            results.append({"rows": num_rows, "seconds": seconds})
    result = {
        "bench": "linear",
        "model": args.model,
        "threads": args.num_threads,
        "stored_bytes": bench.num_bytes,
        "num_weights": bench.num_weights,
        "results": results,
        **describe_environment("torch"),
    }
    title = f"All linear layers of {args.model}'s decoder by format, {args.num_threads} threads"
    columns = ["rows", "format", "ms", "GB/s of stored bytes", "speed / float32"]
    notes = ["The kernel decodes weights to float32 while it multiplies. Ratios are per weight."]
    print_report(title, columns, bench.rows_of_table(results), notes, result, args.json)
    return 0
