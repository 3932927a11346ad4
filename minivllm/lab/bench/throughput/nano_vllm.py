"""`minivllm bench throughput --workload nano-vllm`: nano-vllm's published workload, with peers.

    minivllm bench throughput --workload nano-vllm --json

The workload is for a GPU: 256 requests, prompts and outputs of 100 to 1,024 random tokens, and
Qwen3-0.6B's shape with dummy weights in bfloat16. The peers are `transformers.generate` with one
request at a time, the same with static batches of 32, and `transformers`' continuous batching.

Dummy weights give nearly equal logits, so tokens are counted but not compared. Sampling is greedy,
while nano-vllm samples at temperature 0.6. The engines run one after another, because each needs
the device's whole memory. A peer with batches gets no new batch after `--peer-seconds`, and its
speed is computed from the finished requests (`extrapolated`). Continuous batching is left out if it
does not finish within `CONTINUOUS_LIMIT_S`.
"""

import argparse
import gc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from minivllm.clock import Clock, MonotonicClock
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.dummy_peers import ContinuousBatches, load_dummy_transformers
from minivllm.lab.bench.throughput.engine_speed import EngineSpeed, time_engine
from minivllm.lab.bench.throughput.peers import MinivllmEngine, StaticBatches
from minivllm.lab.bench.throughput.workloads import (
    NANO_VLLM,
    BenchRequest,
    WorkloadSpec,
    count_output_tokens,
    make_requests,
)
from minivllm.lab.common.environment import describe_environment, set_num_threads
from minivllm.lab.common.report import print_report, progress_bar
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.store.model_store import resolve_model
from minivllm.runtime.store.toys import QWEN3_DUMMY

DEFAULT_MODEL = QWEN3_DUMMY
DEFAULT_DTYPE = "bfloat16"
DEFAULT_ROUNDS = 1
DEFAULT_PEER_SECONDS = 60
STATIC_BATCH_SIZE = 32
MAX_NUM_BATCHED_TOKENS = 16384
"""Our engine's token budget, the same as nano-vllm's."""
MAX_CPU_REQUESTS = 8
CONTINUOUS_LIMIT_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoVllmSettings:
    spec: WorkloadSpec
    model: str
    dtype: str
    device: str
    attention_backend: str
    """The attention backend of our engine."""
    seed: int
    """Seed for prompts, lengths and weights."""
    num_rounds: int
    num_threads: int
    peer_seconds: float


def check_number_of_requests(num_requests: int | None, device: str) -> None:
    """Raise `BenchError` on a CPU unless `num_requests` is small: a full run would take hours."""
    if device == "cpu" and (num_requests is None or num_requests > MAX_CPU_REQUESTS):
        raise BenchError(
            "The workload nano-vllm needs a GPU, and torch finds none: run a few of its requests"
            f" with --num-requests (1 to {MAX_CPU_REQUESTS}), or use another workload."
        )


def run(args: argparse.Namespace) -> int:
    if args.vs is not None:
        raise BenchError("The workload nano-vllm always runs its own three peers: leave --vs out.")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    check_number_of_requests(args.num_requests, device)
    result = measure(
        NanoVllmSettings(
            spec=replace(NANO_VLLM, num_requests=args.num_requests or NANO_VLLM.num_requests),
            model=args.model or DEFAULT_MODEL,
            dtype=args.dtype or DEFAULT_DTYPE,
            device=device,
            attention_backend=args.attention_backend or ("triton" if device == "cuda" else "torch"),
            seed=args.seed,
            num_rounds=args.rounds or DEFAULT_ROUNDS,
            num_threads=args.num_threads,
            peer_seconds=args.peer_seconds or DEFAULT_PEER_SECONDS,
        )
    )
    title = (
        f"{result['workload']}: {result['requests']} requests, {result['output_tokens']:,} output"
        f" tokens, {result['model']} (dummy weights) {result['dtype']} on"
        f" {result['device_name'] or device}"
    )
    notes = [
        f"{ratio:.2f} times the speed of {name}."
        for name, ratio in result["ratios"].items()
        if ratio is not None
    ]
    for engine in result["engines"]:
        if engine["left_out"]:
            notes.append(f"Left out: {engine['name']} ({engine['left_out']}).")
        elif engine["extrapolated"]:
            notes.append(
                f"{engine['name']}: extrapolated from the {engine['requests'][-1]} requests that it"
                f" finished in {engine['runs'][-1]:.0f} s (last round)."
            )
    notes.append("With dummy weights, tokens are meaningless: they were counted but not compared.")
    rows = [_row(engine) for engine in result["engines"]]
    print_report(
        title, ("engine", "tokens/s", "requests", "seconds"), rows, notes, result, args.json
    )
    return 0


def _row(engine: dict[str, Any]) -> tuple[str, ...]:
    if engine["left_out"]:
        return engine["name"], "left out", "", ""
    runs = ", ".join(f"{seconds:.2f}" for seconds in engine["runs"])
    requests = ", ".join(map(str, engine["requests"]))
    return engine["name"], f"{engine['tokens_per_s']:.1f}", requests, runs


def measure(settings: NanoVllmSettings) -> dict[str, object]:
    """Measure all engines, and return the report for `--json`."""
    set_num_threads(settings.num_threads)
    spec = settings.spec
    directory = resolve_model(settings.model, weights=False)
    vocab_size = read_model_config(directory).vocab_size
    rounds = [
        make_requests(spec, settings.seed, round_number, vocab_size)
        for round_number in range(settings.num_rounds + 1)
    ]
    speeds = []
    with progress_bar() as progress:
        task = progress.add_task(spec.name, total=4)
        for speed in _measure_all(settings, directory, rounds):
            speeds.append(speed)
            # Print at once, so that an interrupted run still shows its results.
            said = (
                f"left out: {speed.left_out}"
                if speed.left_out
                else f"{speed.tokens_per_s:.1f} tokens/s"
            )
            progress.console.print(f"{spec.name}, {speed.name}: {said}", markup=False)
            progress.update(task, advance=1, refresh=True)
    ours, *peers = speeds
    return {
        "bench": "throughput",
        "workload": spec.name,
        "requests": spec.num_requests,
        "output_tokens": count_output_tokens(rounds[-1]),
        "seed": settings.seed,
        "model": settings.model,
        "load_format": "dummy",
        "dtype": settings.dtype,
        "device": settings.device,
        "device_name": torch.cuda.get_device_name() if settings.device == "cuda" else None,
        "threads": settings.num_threads,
        "rounds": settings.num_rounds,
        "peer_seconds": settings.peer_seconds,
        "tokens_compared": False,
        "tokens_per_s": ours.tokens_per_s,
        "runs": ours.runs,
        "engines": [asdict(speed) | {"tokens_per_s": speed.tokens_per_s} for speed in speeds],
        # Our speed divided by each peer's speed; null if a peer has no speed.
        "ratios": {
            peer.name: ours.tokens_per_s / peer.tokens_per_s if peer.tokens_per_s else None
            for peer in peers
        },
        **describe_environment("torch", "transformers"),
    }


def _measure_all(
    settings: NanoVllmSettings, directory: Path, rounds: list[list[BenchRequest]]
) -> Iterator[EngineSpeed]:
    """Measure our engine, then the peers. A peer that fails is left out.

    Raises the errors of our engine and of loading the peers' model.
    """
    clock = MonotonicClock()
    yield _measure_ours(settings, rounds, clock)
    free_device_memory()
    model = load_dummy_transformers(directory, settings.dtype, settings.device, settings.seed)
    for name, batch_size in (
        ("transformers, one at a time", 1),
        (f"transformers, static batches of {STATIC_BATCH_SIZE}", STATIC_BATCH_SIZE),
    ):
        speed = EngineSpeed(name, attention="sdpa")
        try:
            engine = StaticBatches(model, name, batch_size)
            time_engine(
                speed, engine, rounds, clock, batch_size=batch_size, limit_s=settings.peer_seconds
            )
        except Exception as error:  # another project's code may raise anything
            speed.left_out = one_line(error)
        yield speed
        free_device_memory()
    yield _measure_continuous(settings, model, rounds, clock)


def _measure_ours(
    settings: NanoVllmSettings, rounds: list[list[BenchRequest]], clock: Clock
) -> EngineSpeed:
    engine = make_our_engine(settings)
    speed = EngineSpeed(engine.name, attention=settings.attention_backend)
    time_engine(speed, engine, rounds, clock)
    return speed


def make_our_engine(settings: NanoVllmSettings, *, enforce_eager: bool = False) -> MinivllmEngine:
    """Create our engine with a batch slot for every request and room for the longest request."""
    spec = settings.spec
    return MinivllmEngine(
        settings.model,
        settings.dtype,
        settings.device,
        load_format="dummy",
        seed=settings.seed,
        max_num_seqs=spec.num_requests,
        max_num_batched_tokens=MAX_NUM_BATCHED_TOKENS,
        max_model_len=spec.shared_prefix_len + spec.prompt_len[1] + spec.output_len[1],
        attention_backend=settings.attention_backend,
        enforce_eager=enforce_eager,
    )


def _measure_continuous(
    settings: NanoVllmSettings, model: Any, rounds: list[list[BenchRequest]], clock: Clock
) -> EngineSpeed:
    speed = EngineSpeed(ContinuousBatches.name)
    try:
        with closing(ContinuousBatches(model, settings.spec, CONTINUOUS_LIMIT_S)) as engine:
            speed.attention = engine.attention
            time_engine(speed, engine, rounds, clock)
    except Exception as error:
        speed.left_out = one_line(error)
    return speed


def one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {lines[0]}"


def free_device_memory() -> None:
    gc.collect()  # engines have reference cycles that hold tensors
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
