"""`minivllm bench memory`: the engine's peak memory, compared with its weights and KV cache.

A separate process loads a model on a CPU, runs one workload and ends. The KV cache is just large
enough for the largest batch. A larger cache would make any engine look economical, because the
system does not allocate memory that is never used.
"""

import argparse
import json
import math
import subprocess
import sys

from minivllm.config import EngineConfig
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
from minivllm.sampling_params import RequestOutputKind, SamplingParams

BLOCK_SIZE = 16
NUM_ROUNDS = 2
"""In the second round, the pool is full of cached blocks from the first round."""


def num_blocks_for(spec: WorkloadSpec) -> int:
    """Return the blocks for a full batch of the longest requests in `spec` without sharing."""
    longest = spec.shared_prefix_len + spec.prompt_len[1] + spec.output_len[1]
    return min(spec.num_requests, MAX_NUM_SEQS) * -(-longest // BLOCK_SIZE)


def measure_this_process(
    spec: WorkloadSpec, *, model: str, dtype: str, num_threads: int
) -> dict[str, object]:
    """Load the model, run `NUM_ROUNDS` rounds and return this process's peak memory, in bytes."""
    from minivllm.runtime.kv_cache import KVCacheSpec
    from minivllm.runtime.loader import load_model
    from minivllm.runtime.model.weight_map import weight_shards

    set_num_threads(num_threads)
    before_model = peak_rss_bytes()
    config = EngineConfig(
        model=model,
        dtype=dtype,
        device="cpu",
        block_size=BLOCK_SIZE,
        num_gpu_blocks_override=num_blocks_for(spec),
        max_num_seqs=MAX_NUM_SEQS,
    )
    loaded = load_model(config)
    after_loading = peak_rss_bytes()
    # Count the checkpoint's weights, because a kernel's layout may change the decoder's tensors.
    num_weights = sum(math.prod(shard.shape) for shard in weight_shards(loaded.config).values())
    weights = num_weights * loaded.dtype.itemsize
    kv_cache = (
        config.num_gpu_blocks_override
        * KVCacheSpec.of(loaded.config, BLOCK_SIZE, loaded.dtype).bytes_per_block
    )
    engine = LLMEngine.from_model(config, loaded)
    for round_number in range(NUM_ROUNDS):
        _run_round(engine, spec, round_number)
    peak = peak_rss_bytes()
    return {
        "bench": "memory",
        "workload": spec.name,
        "model": model,
        "dtype": dtype,
        "threads": num_threads,
        "blocks": config.num_gpu_blocks_override,
        "weights_bytes": weights,
        "kv_cache_bytes": kv_cache,
        "before_model_rss_bytes": before_model,
        "loading_peak_rss_bytes": after_loading,
        "peak_rss_bytes": peak,
        "ratio": peak / (weights + kv_cache),
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
    add_model_arguments(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from minivllm.runtime.store.model_store import resolve_model

    # In this process, so that a wrong name is reported and a download shows its progress.
    resolve_model(args.model)
    command = [sys.executable, "-m", __spec__.name]
    for option in ("workload", "model", "dtype", "num_threads"):
        command += [f"--{option.replace('_', '-')}", str(getattr(args, option))]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if child.returncode != 0:
        raise BenchError(
            f"The measuring process ended with status {child.returncode}; its output is above."
        )
    result = json.loads(child.stdout.splitlines()[-1])
    rows = [
        (name, f"{result[key] / 2**20:,.0f}")
        for name, key in (
            ("weights", "weights_bytes"),
            ("KV cache", "kv_cache_bytes"),
            ("program, before the model", "before_model_rss_bytes"),
            ("peak while loading", "loading_peak_rss_bytes"),
            ("peak", "peak_rss_bytes"),
        )
    ]
    title = (
        f"{args.workload}: {args.model} {args.dtype} on cpu, {result['blocks']} blocks,"
        f" {args.num_threads} threads"
    )
    notes = [f"The peak is {result['ratio']:.2f} times the weights plus the KV cache."]
    print_report(title, ("", "MiB"), rows, notes, result, args.json)
    return 0


def _main() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args()
    spec = WORKLOADS[args.workload]
    result = measure_this_process(
        spec, model=args.model, dtype=args.dtype, num_threads=args.num_threads
    )
    print(json.dumps(result))


if __name__ == "__main__":
    _main()
