"""`minivllm bench throughput`: output tokens per second, alone or against peers in the same run.

    minivllm bench throughput --workload all --vs vllm --peer-python ~/vllm/bin/python

All engines load the same weights, get the same token ids and take turns (`rounds.py`). The first
round is not counted. The tokens of every round are compared, because a speed says little if the
outputs differ. llama.cpp cannot read safetensors, so it gets the weights in a temporary GGUF file,
or the GGUF file that we read too.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from minivllm import runtime
from minivllm.errors import BenchError
from minivllm.lab import bench
from minivllm.lab.bench.throughput import rounds, workloads
from minivllm.lab.common import report
from minivllm.runtime.store.model_store import QWEN3_DUMMY, resolve_for_transformers, resolve_model

NANO_VLLM = workloads.NANO_VLLM
PEERS = ("transformers", "vllm", "llama.cpp")
ALL = "all"
MAX_CPU_REQUESTS = 8  # of the workload nano-vllm: all 256 would take hours on a CPU


def add_arguments(add: Callable[..., None]) -> None:
    which = (
        f"the requests to measure; {NANO_VLLM} is for a GPU, with its own defaults (--model"
        f" {QWEN3_DUMMY}, --dtype bfloat16, --rounds 1), and not in {ALL}"
    )
    add("--workload", which, required=True, choices=(*workloads.WORKLOADS, ALL))
    add("--seed SEED", "seed for prompts and lengths", type=int, default=0)
    # None means "not given"; the default then depends on the workload.
    add("--model MODEL", f"{report.MODEL_HELP} (default: {report.DEFAULT_MODEL})")
    add("--dtype", f"{report.DTYPE_HELP} (default: {report.DEFAULT_DTYPE})", choices=report.DTYPES)
    add("--rounds N", "measured runs of each engine (default: 5)", type=report.positive_int)
    add("--num-threads N", "CPU threads", type=report.positive_int, default=2)
    peer = "also measure this peer, in turns; may be given several times"
    add("--vs", peer, choices=PEERS, action="append", default=[])
    python = (
        "the Python of an environment with vLLM or llama-cpp-python; once, or once for each --vs"
        " that needs one"
    )
    add("--peer-python PATH", python, action="append", default=[])
    formats = (
        "also measure our engine with the weights written as float32, bfloat16, float16, q8_0,"
        " q4_0 or q4_1, or quantized to int8 while loading"
    )
    add("--formats FORMAT,...", formats)
    gguf = (
        "same: --vs llama.cpp reads the model's own GGUF file, with its usual float16 KV cache"
        " (default: a file in --dtype)"
    )
    add("--peer-gguf", gguf, choices=("same",))
    size = "sequences in a static batch of --vs transformers"
    add("--peer-batch-size N", size, type=report.positive_int, default=workloads.MAX_NUM_SEQS)
    add("--quick", "divide all lengths by four, as make bench-check does")
    add("--num-requests N", "fewer or more requests", type=report.positive_int)
    add("--enforce-eager", "on a GPU: no CUDA graphs")


def measure(args: argparse.Namespace) -> report.Report:
    device = runtime.choose_device("auto").type
    specs = _workloads(args, device)
    pythons = peers_with_python(args.vs, args.peer_python)
    spec = specs[0]
    options = {"max_num_seqs": spec.max_num_seqs, "enforce_eager": args.enforce_eager}
    if (budget := spec.max_num_batched_tokens) is not None:
        options |= {"max_num_batched_tokens": budget, "max_model_len": spec.max_model_len}
    if "transformers" in pythons:
        options["gpu_memory_utilization"] = 0.7  # it needs memory, too
    if args.model == QWEN3_DUMMY:
        options |= {"load_format": "dummy", "seed": args.seed}
    with ExitStack() as stack, report.progress_bar() as progress:
        # Start peers first, so that our engine is not loaded while they load.
        peers = _peers(pythons, specs, args, device, stack)
        for format_ in bench.formats_of(args.formats) if args.formats else ():
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            bench.write_stored_copy(resolve_model(args.model), scratch, format_)
            own = options | {"quantization": bench.INT8 if format_ == bench.INT8 else None}
            peers.append(rounds.MinivllmEngine(str(scratch), args.dtype, format_, **own))
        ours = rounds.MinivllmEngine(args.model, args.dtype, **options)
        vocab_size = ours.llm.llm_engine.tokenizer.vocab_size
        rest = rounds.SETTLE_S if any(pythons.values()) else 0.0
        results = []
        for spec in specs:
            numbers = range(1 + args.rounds)
            requests = [workloads.make_requests(spec, args.seed, n, vocab_size) for n in numbers]
            measured = rounds.measure_rounds([ours, *peers], requests, progress, spec.name, rest)
            result = {"workload": spec.name, "requests": spec.num_requests, "device": device}
            result["attention_backend"] = ours.llm.llm_engine.core.runner.plain.attention_backend
            # Dummy weights differ between engines.
            results.append(result | _result(measured, peers, args.model != QWEN3_DUMMY))
    return _report(results, args)


def _workloads(args: argparse.Namespace, device: str) -> list[workloads.WorkloadSpec]:
    """Return what to run, and set the options whose defaults depend on it."""
    is_nano = args.workload == NANO_VLLM
    if is_nano and device == "cpu" and not 1 <= (args.num_requests or 0) <= MAX_CPU_REQUESTS:
        raise BenchError(
            f"The workload {NANO_VLLM} needs a GPU, and torch finds none: run a few of its requests"
            f" with --num-requests (1 to {MAX_CPU_REQUESTS}), or use another workload."
        )
    args.model = args.model or (QWEN3_DUMMY if is_nano else report.DEFAULT_MODEL)
    args.dtype = args.dtype or ("bfloat16" if is_nano else report.DEFAULT_DTYPE)
    args.rounds = args.rounds or (1 if is_nano else 5)
    if args.model == QWEN3_DUMMY and (args.formats or set(args.vs) - {"transformers"}):
        raise BenchError(
            f"{QWEN3_DUMMY} has no weights that a process could read: compare with --vs"
            " transformers, or with another --model, such as Qwen/Qwen3-0.6B."
        )
    if args.peer_gguf and args.vs != ["llama.cpp"]:
        raise BenchError("--peer-gguf is for --vs llama.cpp alone: name no other peer.")
    chosen = workloads.WORKLOADS.keys() - {NANO_VLLM} if args.workload == ALL else {args.workload}
    specs = [spec for name, spec in workloads.WORKLOADS.items() if name in chosen]
    if args.num_requests:
        specs = [replace(spec, num_requests=args.num_requests) for spec in specs]
    return [workloads.quick(spec) for spec in specs] if args.quick else specs


def peers_with_python(names: list[str], pythons: list[str]) -> dict[str, str | None]:
    """Map each requested peer to its Python interpreter; None means this process."""
    apart = [name for name in names if name != "transformers"]
    if len(pythons) not in (min(1, len(apart)), len(apart)):
        raise BenchError(
            "--peer-python PATH is the Python of an environment with vLLM or llama-cpp-python: give"
            " it once, or once for each --vs that needs one, in order."
        )
    own = dict(zip(apart, pythons * len(apart) if len(pythons) == 1 else pythons, strict=False))
    return {name: own.get(name) for name in names}


def _peers(
    pythons: dict[str, str | None],
    specs: list[workloads.WorkloadSpec],
    args: argparse.Namespace,
    device: str,
    stack: ExitStack,
) -> list[rounds.BenchEngine]:
    peers, checkpoint = [], None
    if args.model == QWEN3_DUMMY:
        checkpoint = resolve_model(args.model, weights=False)
    elif pythons and not args.peer_gguf:
        checkpoint = resolve_for_transformers(args.model)
    for name, python in pythons.items():
        if python is None:
            batch_size = args.peer_batch_size
            peers.append(bench.TransformersPeer(checkpoint, args.dtype, device, batch_size))
            continue
        weights = checkpoint or bench.own_gguf(args.model)
        if name == "llama.cpp" and not args.peer_gguf:
            weights = Path(stack.enter_context(tempfile.TemporaryDirectory()), "weights.gguf")
            bench.write_gguf(checkpoint, weights, args.dtype)
        dtype = "float16" if args.peer_gguf else args.dtype
        settings = {
            "model": str(weights), "dtype": dtype, "num_threads": args.num_threads,
            "max_num_seqs": specs[0].max_num_seqs,
            "max_model_len": max(spec.max_model_len for spec in specs),
        }  # fmt: skip
        peers.append(stack.enter_context(rounds.PeerProcess(name, python, settings)))
    return peers


def _result(
    measured: list[rounds.EngineRounds], peers: list[rounds.BenchEngine], compares_tokens: bool
) -> dict[str, Any]:
    mine, *theirs = measured
    peer_results = [
        {
            **side.figures,
            "ratio": mine.ratio(side),
            "ratios": mine.ratios(side),
            "identical_sequences": mine.identical(side) if compares_tokens else None,
            "versions": getattr(peer, "versions", None),
        }
        for side, peer in zip(theirs, peers, strict=True)
    ]
    return {
        **mine.figures,
        "output_tokens": sum(map(len, mine.outputs[0])),
        # Of the first peer: most comparisons have only one.
        "ratio": peer_results[0]["ratio"] if peer_results else None,
        "peers": peer_results,
    }


def _report(results: list[dict[str, Any]], args: argparse.Namespace) -> report.Report:
    rows, notes = [], []
    for result in results:
        for engine in (result, *result["peers"]):
            runs = [f"{f(engine['runs']):.2f}" for f in (statistics.median, min, max)]
            ratio = "" if engine is result else f"{engine['ratio']:.2f}"
            speed = f"{engine['tokens_per_s']:.1f}"
            rows.append((result["workload"], engine["name"], speed, ratio, *runs))
        notes += [_note(result["workload"], peer) for peer in result["peers"]]
    title = (
        f"{args.model} {args.dtype} on {results[0]['device']}, {args.num_threads} threads,"
        f" {args.rounds} rounds; a ratio is minivllm's speed divided by the peer's, the median"
        " of the rounds' ratios"
    )
    columns = ("workload", "engine", "tokens/s", "ratio", "seconds", "fastest", "slowest")
    found = {"workloads": results} if args.workload == ALL else results[0]
    return report.Report(title, columns, rows, notes, found)


def _note(workload: str, peer: dict[str, Any]) -> str:
    ratios = ", ".join(f"{ratio:.2f}" for ratio in peer["ratios"])
    speed = f"{workload}: {peer['ratio']:.2f} times the speed of {peer['name']} (of {ratios})."
    if peer["identical_sequences"] is None:
        return f"{speed} With dummy weights, tokens are not compared."
    return f"{speed} {peer['identical_sequences']:.1%} of the sequences are identical."
