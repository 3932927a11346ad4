"""Measures the workloads of `minivllm bench throughput` on our engine and its peers."""

import argparse
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.peer_side.peer_main import preloaded_libraries
from minivllm.lab.bench.throughput.peers import (
    BenchEngine,
    MinivllmEngine,
    PeerProcess,
    TransformersPeer,
)
from minivllm.lab.bench.throughput.rounds import SETTLE_S, EngineRounds, measure_rounds
from minivllm.lab.bench.throughput.weights_gguf import (
    INT8,
    formats_of,
    own_gguf,
    write_gguf,
    write_stored_copy,
)
from minivllm.lab.bench.throughput.workloads import WorkloadSpec, make_requests
from minivllm.lab.common.environment import describe_bench, set_num_threads
from minivllm.lab.common.report import progress_bar
from minivllm.runtime.store.model_store import resolve_for_transformers, resolve_model
from minivllm.runtime.store.toys import QWEN3_DUMMY


def measure(
    specs: list[WorkloadSpec], args: argparse.Namespace, device: str
) -> list[dict[str, Any]]:
    """Load the engines once, run the workloads, and return the JSON object of each."""
    set_num_threads(args.num_threads)
    pythons = peers_with_python(args.vs or [], args.peer_python or [])
    options = {"max_num_seqs": specs[0].max_num_seqs, "enforce_eager": args.enforce_eager}
    if specs[0].max_num_batched_tokens is not None:
        options["max_num_batched_tokens"] = specs[0].max_num_batched_tokens
        options["max_model_len"] = specs[0].max_model_len
    if "transformers" in pythons:
        options["gpu_memory_utilization"] = 0.7  # it needs memory, too
    if args.model == QWEN3_DUMMY:
        options |= {"load_format": "dummy", "seed": args.seed}
    with ExitStack() as stack:
        # Start peers first, so that our engine is not loaded while they load.
        peers = _peers(pythons, specs, args, device, stack)
        if args.formats:
            peers += _engines_in_formats(args, options, stack)
        ours = MinivllmEngine(args.model, args.dtype, **options)
        vocab_size = ours.llm.llm_engine.tokenizer.vocab_size
        results = []
        with progress_bar() as progress:
            for spec in specs:
                requests_of = partial(make_requests, spec, args.seed, vocab_size=vocab_size)
                measured = measure_rounds(
                    [ours, *peers], requests_of, args.rounds, progress, spec.name,
                    SETTLE_S if any(pythons.values()) else 0.0,
                )  # fmt: skip
                results.append(_result(spec, args, device, ours, measured, peers))
    return results


def _peers(
    pythons: dict[str, str | None],
    specs: list[WorkloadSpec],
    args: argparse.Namespace,
    device: str,
    stack: ExitStack,
) -> list[BenchEngine]:
    peers: list[BenchEngine] = []
    checkpoint = None
    if args.model == QWEN3_DUMMY:
        checkpoint = resolve_model(args.model, weights=False)
    elif pythons and not args.peer_gguf:
        checkpoint = resolve_for_transformers(args.model)
    for name, python in pythons.items():
        if python is None:
            peers.append(TransformersPeer(checkpoint, args.dtype, device, args.peer_batch_size))
            continue
        weights = checkpoint or own_gguf(args.model)
        if name == "llama.cpp" and not args.peer_gguf:
            weights = Path(stack.enter_context(tempfile.TemporaryDirectory()), "weights.gguf")
            write_gguf(checkpoint, weights, args.dtype)
        settings = {
            "model": str(weights),
            "dtype": "float16" if args.peer_gguf else args.dtype,
            "num_threads": args.num_threads,
            "max_num_seqs": specs[0].max_num_seqs,
            "max_model_len": max(spec.max_model_len for spec in specs),
        }
        peers.append(stack.enter_context(PeerProcess(name, python, settings)))
    return peers


def _engines_in_formats(
    args: argparse.Namespace, options: dict[str, Any], stack: ExitStack
) -> list[BenchEngine]:
    """Return our engine with the model's weights written in each of `--formats`."""
    engines = []
    for format_ in formats_of(args.formats):
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_stored_copy(resolve_model(args.model), scratch, format_)
        own = options | {"quantization": INT8 if format_ == INT8 else None}
        engines.append(MinivllmEngine(str(scratch), args.dtype, format_, **own))
    return engines


def _result(
    spec: WorkloadSpec,
    args: argparse.Namespace,
    device: str,
    ours: MinivllmEngine,
    measured: list[EngineRounds],
    peers: list[BenchEngine],
) -> dict[str, Any]:
    mine, *theirs = measured
    # Dummy weights differ between engines.
    comparable = args.model != QWEN3_DUMMY
    peer_results = [
        {
            "name": rounds.name,
            "tokens_per_s": rounds.tokens_per_s,
            "runs": rounds.runs,
            "ratio": mine.ratio(rounds),
            "ratios": mine.ratios(rounds),
            "identical_sequences": mine.identical(rounds) if comparable else None,
            "versions": getattr(peer, "versions", None),
            "preloaded": getattr(peer, "preloaded", None),
        }
        for rounds, peer in zip(theirs, peers, strict=True)
    ]
    return {
        **describe_bench(args, "torch", "transformers"),
        "workload": spec.name,
        "requests": spec.num_requests,
        "output_tokens": sum(map(len, mine.outputs[0])),
        "device": device,
        "attention_backend": ours.llm.llm_engine.core.runner.attention_backend,
        "tokens_per_s": mine.tokens_per_s,
        "runs": mine.runs,
        # Of the first peer: most comparisons have only one.
        "ratio": peer_results[0]["ratio"] if peer_results else None,
        "peers": peer_results,
        "preloaded": preloaded_libraries(),
    }


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
