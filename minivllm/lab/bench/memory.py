"""`minivllm bench memory`: the engine's peak memory, compared with its weights and KV cache.

A separate process loads a model on a CPU, runs one workload and ends. With `--formats`, the model
is written in each format first, and each gets its own process. The KV cache is just large
enough for the largest batch. A larger cache would make any engine look economical, because the
system does not allocate memory that is never used.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

from minivllm.config import EngineConfig, Quantization
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.workloads import (
    MAX_NUM_SEQS,
    WORKLOADS,
    WorkloadSpec,
    make_requests,
)
from minivllm.lab.common.environment import describe_environment, peak_rss_bytes, set_num_threads
from minivllm.lab.common.report import add_json_argument, add_model_arguments, print_report
from minivllm.runtime.store.model_store import resolve_model
from minivllm.sampling_params import RequestOutputKind, SamplingParams

BLOCK_SIZE = 16
NUM_ROUNDS = 2
"""In the second round, the pool is full of cached blocks from the first round."""


def num_blocks_for(spec: WorkloadSpec) -> int:
    """Return the blocks for a full batch of the longest requests in `spec` without sharing."""
    longest = spec.shared_prefix_len + spec.prompt_len[1] + spec.output_len[1]
    return min(spec.num_requests, MAX_NUM_SEQS) * -(-longest // BLOCK_SIZE)


def measure_this_process(
    spec: WorkloadSpec,
    *,
    model: str,
    dtype: str,
    num_threads: int,
    quantization: Quantization | None = None,
) -> dict[str, object]:
    """Load the model, run `NUM_ROUNDS` rounds and return this process's peak memory, in bytes."""
    from minivllm.runtime.loader import load_model

    set_num_threads(num_threads)
    before_model = peak_rss_bytes()
    config = EngineConfig(
        model=model,
        dtype=dtype,
        quantization=quantization,
        device="cpu",
        block_size=BLOCK_SIZE,
        num_gpu_blocks_override=num_blocks_for(spec),
        max_num_seqs=MAX_NUM_SEQS,
    )
    loaded = load_model(config)
    after_loading = peak_rss_bytes()
    weights = loaded.weight_bytes
    kv_cache = config.num_gpu_blocks_override * loaded.kv_cache_spec(BLOCK_SIZE).bytes_per_block
    engine = LLMEngine.from_model(config, loaded)
    for round_number in range(NUM_ROUNDS):
        _run_round(engine, spec, round_number)
    peak = peak_rss_bytes()
    return {
        "bench": "memory",
        "workload": spec.name,
        "model": model,
        "weights": loaded.weights,
        "dtype": dtype,
        "threads": num_threads,
        "blocks": config.num_gpu_blocks_override,
        "weights_bytes": weights,
        "kv_cache_bytes": kv_cache,
        "before_model_rss_bytes": before_model,
        "loading_peak_rss_bytes": after_loading,
        "peak_rss_bytes": peak,
        "ratio": peak / (weights + kv_cache),
        "ratio_without_program": (peak - before_model) / (weights + kv_cache),
        **describe_environment("torch"),
    }


def _run_round(engine: LLMEngine, spec: WorkloadSpec, round_number: int) -> None:
    for number, request in enumerate(
        make_requests(spec, 0, round_number, engine.tokenizer.vocab_size)
    ):
        params = SamplingParams(
            temperature=0,
            max_tokens=request.max_tokens,
            ignore_eos=True,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        engine.add_request(
            f"{round_number}-{number}", {"prompt_token_ids": request.prompt_token_ids}, params
        )
    while engine.has_unfinished_requests():
        engine.step()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workload",
        default="ragged",
        choices=tuple(WORKLOADS),
        help="which requests to measure (default: %(default)s)",
    )
    parser.add_argument(
        "--formats",
        metavar="FORMAT,...",
        help=(
            "write the model in each of these formats first: float32, bfloat16, float16, q8_0,"
            " q4_0, q4_1; or int8: quantize it at load (default: measure its own files)"
        ),
    )
    add_model_arguments(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    # In this process, so that a wrong name is reported and a download shows its progress.
    checkpoint = resolve_model(args.model)
    results = []
    if args.formats is None:
        results.append(_measure_in_child(args, args.model))
    else:
        results += _measure_formats(args, checkpoint)
    rows = [
        tuple(
            f"{result[key] / 2**20:,.0f}" if key.endswith("bytes") else f"{result[key]:.2f}"
            for key in _COLUMNS
        )
        for result in results
    ]
    title = (
        f"{args.workload}: {args.model}, computed in {args.dtype} on cpu,"
        f" {results[0]['blocks']} blocks, {args.num_threads} threads; memory in MiB"
    )
    names = [result["weights"].partition(" ")[0] for result in results]
    notes = [
        "The ratios are the peak over the weights plus the KV cache, and the same without the"
        f" {results[0]['before_model_rss_bytes'] / 2**20:.0f} MiB of Python with torch."
    ]
    table = [(name, *row) for name, row in zip(names, rows, strict=True)]
    report = results[0] if len(results) == 1 else {"bench": "memory", "results": results}
    print_report(title, ("weights", *_COLUMNS.values()), table, notes, report, args.json)
    return 0


_COLUMNS = MappingProxyType(
    {
        "weights_bytes": "size",
        "kv_cache_bytes": "KV cache",
        "loading_peak_rss_bytes": "peak while loading",
        "peak_rss_bytes": "peak",
        "ratio": "ratio",
        "ratio_without_program": "without program",
    }
)
"""Key of a result -> the column's title."""


def _measure_formats(args: argparse.Namespace, checkpoint: Path) -> Iterator[dict[str, Any]]:
    from minivllm.lab.bench.throughput.weights_gguf import INT8, formats_of, write_stored_copy

    for format_ in formats_of(args.formats):
        with tempfile.TemporaryDirectory() as scratch:
            write_stored_copy(checkpoint, Path(scratch), format_)
            words = ["--formats", INT8] if format_ == INT8 else []
            yield _measure_in_child(args, scratch, *words)


def _measure_in_child(args: argparse.Namespace, model: str, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", __spec__.name, "--model", model, *words]
    for option in ("workload", "dtype", "num_threads"):
        command += [f"--{option.replace('_', '-')}", str(getattr(args, option))]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if child.returncode != 0:
        raise BenchError(
            f"The measuring process ended with status {child.returncode}; its output is above."
        )
    return json.loads(child.stdout.splitlines()[-1])


def _main() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args()
    spec = WORKLOADS[args.workload]
    result = measure_this_process(
        spec,
        model=args.model,
        dtype=args.dtype,
        num_threads=args.num_threads,
        quantization=args.formats,
    )
    print(json.dumps(result))


if __name__ == "__main__":
    _main()
