"""`minivllm bench throughput`: output tokens per second, alone or against peers in the same run.

    minivllm bench throughput --workload ragged --model smollm2 --vs transformers --json
    minivllm bench throughput --workload all --vs vllm --peer-python ~/vllm/bin/python
    minivllm bench throughput --workload nano-vllm --json      # on a GPU, with dummy weights

All engines load the same weights and get the same token ids. They take turns, and the first round
is not counted. Speeds and ratios are medians over the rounds (`rounds.py`). vLLM and llama.cpp run
in their own Python (`peers.py`). llama.cpp cannot read safetensors, so it gets the weights
in a temporary GGUF file, or the GGUF file that we read too.

The tokens of every round are compared, because a speed says little if the outputs differ. The JSON
lists preloaded allocators and OpenMP libraries, which can change a speed by a quarter.
"""

import argparse
import statistics
from dataclasses import replace
from typing import Any

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, NANO_VLLM, WORKLOADS, quick
from minivllm.lab.common.report import (
    DEFAULT_DTYPE,
    DEFAULT_MODEL,
    add_model_arguments,
    positive_int,
    print_report,
)
from minivllm.runtime.store.toys import QWEN3_DUMMY

PEERS = ("transformers", "vllm", "llama.cpp")
ALL = "all"
MAX_CPU_REQUESTS = 8
"""Of the workload nano-vllm: all 256 would take hours on a CPU."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workload",
        required=True,
        choices=(*WORKLOADS, ALL),
        help=(
            f"the requests to measure; {NANO_VLLM} is for a GPU, with its own defaults (--model"
            f" {QWEN3_DUMMY}, --dtype bfloat16, --rounds 1), and not in {ALL}"
        ),
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed for prompts and lengths (default: %(default)s)"
    )
    add_model_arguments(parser)
    _add_peer_arguments(parser)
    parser.add_argument(
        "--rounds", type=positive_int, help="measured runs of each engine (default: 5)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="divide all lengths by four, as make bench-check does"
    )
    parser.add_argument("--num-requests", type=positive_int, help="fewer or more requests")
    parser.add_argument("--enforce-eager", action="store_true", help="on a GPU: no CUDA graphs")
    # None means "not given"; the default then depends on the workload.
    parser.set_defaults(model=None, dtype=None)


def _add_peer_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vs",
        choices=PEERS,
        action="append",
        help="also measure this peer, in turns; may be given several times",
    )
    parser.add_argument(
        "--peer-python",
        action="append",
        metavar="PATH",
        help=(
            "the Python of an environment with vLLM or llama-cpp-python; once, or once for each"
            " --vs that needs one"
        ),
    )
    parser.add_argument(
        "--formats",
        metavar="FORMAT,...",
        help=(
            "also measure our engine with the weights written as float32, bfloat16, float16, q8_0,"
            " q4_0 or q4_1, or quantized to int8 while loading"
        ),
    )
    parser.add_argument(
        "--peer-gguf",
        choices=("same",),
        help=(
            "same: --vs llama.cpp reads the model's own GGUF file, with its usual float16 KV cache"
            " (default: a file in --dtype)"
        ),
    )
    parser.add_argument(
        "--peer-batch-size",
        type=positive_int,
        default=MAX_NUM_SEQS,
        help="sequences in a static batch of --vs transformers (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    import torch

    from minivllm.lab.bench.throughput.measured import measure

    device = "cuda" if torch.cuda.is_available() else "cpu"
    is_nano = args.workload == NANO_VLLM
    if is_nano and device == "cpu" and not 1 <= (args.num_requests or 0) <= MAX_CPU_REQUESTS:
        raise BenchError(
            f"The workload {NANO_VLLM} needs a GPU, and torch finds none: run a few of its requests"
            f" with --num-requests (1 to {MAX_CPU_REQUESTS}), or use another workload."
        )
    args.model = args.model or (QWEN3_DUMMY if is_nano else DEFAULT_MODEL)
    args.dtype = args.dtype or ("bfloat16" if is_nano else DEFAULT_DTYPE)
    args.rounds = args.rounds or (1 if is_nano else 5)
    if args.model == QWEN3_DUMMY and (args.formats or set(args.vs or ()) - {"transformers"}):
        raise BenchError(
            f"{QWEN3_DUMMY} has no weights that a process could read: compare with --vs"
            " transformers, or with another --model, such as Qwen/Qwen3-0.6B."
        )
    if args.peer_gguf and args.vs != ["llama.cpp"]:
        raise BenchError("--peer-gguf is for --vs llama.cpp alone: name no other peer.")
    names = [name for name in WORKLOADS if name != NANO_VLLM]
    specs = [WORKLOADS[name] for name in (names if args.workload == ALL else [args.workload])]
    if args.num_requests:
        specs = [replace(spec, num_requests=args.num_requests) for spec in specs]
    if args.quick:
        specs = [quick(spec) for spec in specs]
    results = measure(specs, args, device)
    _report(results, args)
    return 0


def _report(results: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Print a row for each engine and workload."""
    first = results[0]
    rows, notes = [], []
    for result in results:
        for engine in (result | {"name": "minivllm"}, *result["peers"]):
            runs = [f"{f(engine['runs']):.2f}" for f in (statistics.median, min, max)]
            speed, ratio = f"{engine['tokens_per_s']:.1f}", ""
            if engine in result["peers"]:
                ratio = f"{engine['ratio']:.2f}"
                notes.append(_note(result["workload"], engine))
            rows.append((result["workload"], engine["name"], speed, ratio, *runs))
    title = (
        f"{first['model']} {first['dtype']} on {first['device']}, {first['threads']} threads,"
        f" {first['rounds']} rounds; a ratio is minivllm's speed divided by the peer's, the median"
        " of the rounds' ratios"
    )
    columns = ("workload", "engine", "tokens/s", "ratio", "seconds", "fastest", "slowest")
    report = {"bench": "throughput", "workloads": results} if args.workload == ALL else first
    print_report(title, columns, rows, notes, report, args.json)


def _note(workload: str, peer: dict[str, Any]) -> str:
    ratios = ", ".join(f"{ratio:.2f}" for ratio in peer["ratios"])
    speed = f"{workload}: {peer['ratio']:.2f} times the speed of {peer['name']} (of {ratios})."
    if peer["identical_sequences"] is None:
        return f"{speed} With dummy weights, tokens are not compared."
    return f"{speed} {peer['identical_sequences']:.1%} of the sequences are identical."
