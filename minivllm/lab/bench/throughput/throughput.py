"""`minivllm bench throughput`: output tokens per second, alone or against peers in the same run.

    minivllm bench throughput --workload ragged --model smollm2 --vs transformers --json
    minivllm bench throughput --workload all --vs vllm --peer-python ~/vllm/bin/python

All engines load the same weights and get the same token ids. They take turns, and the first round
is not counted. Speeds and ratios are medians over the rounds (`rounds.py`). vLLM and llama.cpp run
in their own Python (`peer_process.py`). `nano_vllm.py` has the workload `nano-vllm`.

The tokens of every round are compared, because a speed says little if the outputs differ. The JSON
lists preloaded allocators and OpenMP libraries, which can change a speed by a quarter.
"""

import argparse
import statistics
from typing import Any, get_args

from minivllm.config import AttentionBackendName, SpeculativeConfig
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.measured_workload import PEERS, WorkloadSettings, measure
from minivllm.lab.bench.throughput.workloads import NANO_VLLM, WORKLOADS, quick
from minivllm.lab.common.report import (
    DEFAULT_DTYPE,
    DEFAULT_MODEL,
    add_json_argument,
    add_model_arguments,
    positive_int,
    print_report,
)

ALL = "all"
DEFAULT_ROUNDS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = (*WORKLOADS, ALL, NANO_VLLM.name)
    parser.add_argument("--workload", required=True, choices=names, help="the requests to measure")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed for prompts and lengths (default: %(default)s)"
    )
    add_model_arguments(parser)
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
        "--rounds",
        type=positive_int,
        help=f"measured runs of each engine (default: {DEFAULT_ROUNDS})",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="divide all lengths by four, as make bench-check does",
    )
    parser.add_argument(
        "--speculative-config",
        metavar="JSON",
        help="let minivllm draft; the peers do not (`bench speculation --vs vllm` lets both)",
    )
    _add_published_arguments(parser)
    add_json_argument(parser)
    # None means "not given"; the default then depends on the workload.
    parser.set_defaults(model=None, dtype=None)


def _add_published_arguments(parser: argparse.ArgumentParser) -> None:
    published = parser.add_argument_group(
        f"the workload {NANO_VLLM.name}",
        "It has its own defaults (--model qwen3-0.6b-dummy, --dtype bfloat16, --rounds 1, on a"
        " GPU), its own peers, and options:",
    )
    published.add_argument(
        "--num-requests", type=positive_int, help="fewer requests than its 256; needed on a CPU"
    )
    published.add_argument(
        "--peer-seconds",
        type=positive_int,
        help="time after which a peer gets no more batches of requests (default: 60)",
    )
    published.add_argument(
        "--attention-backend",
        choices=get_args(AttentionBackendName),
        help="attention backend of minivllm (default: triton on a GPU)",
    )


def run(args: argparse.Namespace) -> int:
    if args.workload == NANO_VLLM.name:
        names = ("peer_python", "peer_gguf", "formats", "quick", "speculative_config")
        if given := [f"--{name.replace('_', '-')}" for name in names if getattr(args, name)]:
            raise BenchError(
                f"The workload {NANO_VLLM.name} has its own peers and size: leave out"
                f" {', '.join(given)}."
            )
        # `nano_vllm` imports torch, which `minivllm bench --help` must not.
        from minivllm.lab.bench.throughput import nano_vllm

        return nano_vllm.run(args)
    for option in ("num_requests", "peer_seconds", "attention_backend"):
        if getattr(args, option) is not None:
            raise BenchError(
                f"--{option.replace('_', '-')} belongs to the workload {NANO_VLLM.name}: leave it"
                " out."
            )
    if args.peer_gguf and args.vs != ["llama.cpp"]:
        raise BenchError("--peer-gguf is for --vs llama.cpp alone: name no other peer.")
    from minivllm.lab.bench.throughput.weights_gguf import formats_of

    given = args.speculative_config
    specs = list(WORKLOADS.values()) if args.workload == ALL else [WORKLOADS[args.workload]]
    settings = WorkloadSettings(
        model=args.model or DEFAULT_MODEL,
        dtype=args.dtype or DEFAULT_DTYPE,
        seed=args.seed,
        num_rounds=args.rounds or DEFAULT_ROUNDS,
        num_threads=args.num_threads,
        peers=peers_with_python(args.vs or [], args.peer_python or []),
        speculative_config=None if given is None else SpeculativeConfig.from_json(given),
        formats=formats_of(args.formats) if args.formats else [],
        same_gguf=args.peer_gguf is not None,
    )
    results = measure([quick(spec) for spec in specs] if args.quick else specs, settings)
    if args.workload == ALL:
        _report_all(results, args.json)
    else:
        _report_one(results[0], args.json)
    return 0


def peers_with_python(names: list[str], pythons: list[str]) -> dict[str, str | None]:
    """Map each requested peer to its Python interpreter; None means this process."""
    if len(set(names)) < len(names):
        raise BenchError("--vs names a peer twice: name each once.")
    apart = [name for name in names if name != "transformers"]
    if not apart and pythons:
        raise BenchError(
            "--peer-python is for --vs vllm and --vs llama.cpp: add one of them, or leave it out."
        )
    if apart and not pythons:
        raise BenchError(
            f"--vs {apart[0]} needs --peer-python PATH: the Python of an environment with"
            f" {apart[0]}."
        )
    if apart and len(pythons) not in (1, len(apart)):
        raise BenchError(
            f"--peer-python was given {len(pythons)} times for {', '.join(apart)}: give it once, or"
            " once for each, in order."
        )
    own = dict(zip(apart, pythons * len(apart) if len(pythons) == 1 else pythons, strict=False))
    return {name: own.get(name) for name in names}


def _report_one(result: dict[str, Any], as_json: bool) -> None:
    speeds = [("minivllm", result["tokens_per_s"], result["runs"])]
    speeds += [(peer["name"], peer["tokens_per_s"], peer["runs"]) for peer in result["peers"]]
    rows = [
        (name, f"{speed:.1f}", *(f"{f(runs):.2f}" for f in (statistics.median, min, max)))
        for name, speed, runs in speeds
    ]
    title = (
        f"{result['workload']}: {result['requests']} requests, {result['output_tokens']:,} output"
        f" tokens, {result['model']} {result['dtype']} on {result['device']}, {result['threads']}"
        f" threads, {result['rounds']} rounds"
    )
    notes = [note for peer in result["peers"] for note in _notes(result["workload"], peer)]
    print_report(
        title, ("engine", "tokens/s", "seconds", "fastest", "slowest"), rows, notes, result, as_json
    )


def _report_all(results: list[dict[str, Any]], as_json: bool) -> None:
    first = results[0]
    names = [peer["name"] for peer in first["peers"]]
    columns = [
        "workload",
        "output tokens",
        "minivllm",
        *(column for name in names for column in (name, "ratio")),
    ]
    rows = []
    for result in results:
        speeds = [f"{result['tokens_per_s']:.1f}"]
        for peer in result["peers"]:
            speeds += [f"{peer['tokens_per_s']:.1f}", f"{peer['ratio']:.2f}"]
        rows.append((result["workload"], f"{result['output_tokens']:,}", *speeds))
    title = (
        f"Output tokens per second, {first['model']} {first['dtype']} on {first['device']},"
        f" {first['threads']} threads, {first['rounds']} rounds; a ratio is the median of the"
        " ratios of the rounds."
    )
    notes = [
        note
        for result in results
        for peer in result["peers"]
        for note in _notes(result["workload"], peer)
    ]
    print_report(
        title, columns, rows, notes, {"bench": "throughput", "workloads": results}, as_json
    )


def _notes(workload: str, peer: dict[str, Any]) -> list[str]:
    ratios = ", ".join(f"{ratio:.2f}" for ratio in peer["ratios"])
    speed = (
        f"{workload}: {peer['ratio']:.2f} times the speed of {peer['name']} (median of {ratios})."
    )
    if not peer["differences"]:
        return [f"{speed} Both gave the same tokens."]
    first = peer["differences"][0]
    return [
        f"{speed} {peer['identical_sequences']:.1%} of the sequences are identical; the first"
        f" difference is in round {first['round']}, request {first['request']}, output token"
        f" {first['position']}: {first['token_id']} against {first['peer_token_id']}."
    ]
