"""`minivllm bench throughput`: output tokens per second, alone or against `transformers` in the same run.

    minivllm bench throughput --workload ragged --model smollm2 --vs transformers --json

Output tokens are counted over the whole run, prefill included. Both engines sit in one process, load the same
checkpoint, get the same token ids, and take strict turns: after one uncounted round each, ours, the peer's,
ours, the peer's, ... The result is the median of the rounds, the ratio the median of the rounds' own ratios.

The workload `nano-vllm` is measured in another way, told in `nano_vllm.py`.

Easy to get wrong: to compare two numbers that were taken at different times. A machine's speed moves by tens
of percent within an hour, and only turns that lie side by side see the same machine. A speed is also
worth nothing if the tokens differ, so every round's tokens are compared, and differences are reported.
"""

import argparse
import gc
import statistics
from dataclasses import asdict, dataclass, field
from typing import get_args

from rich.progress import Progress

from minivllm.bench.environment import describe_environment, peak_rss_bytes, set_num_threads
from minivllm.bench.peers import BenchEngine, MinivllmEngine, TransformersPeer
from minivllm.bench.report import (
    DEFAULT_DTYPE,
    DEFAULT_MODEL,
    add_json_argument,
    add_model_arguments,
    positive_int,
    print_report,
    progress_bar,
)
from minivllm.bench.workloads import (
    NANO_VLLM,
    WORKLOADS,
    BenchRequest,
    WorkloadSpec,
    count_output_tokens,
    make_requests,
)
from minivllm.clock import MonotonicClock
from minivllm.config import AttentionBackendName
from minivllm.errors import BenchError

DEFAULT_ROUNDS = 5
WARM_UP_ROUND = 0
"""Not counted: the first run of a shape pays for kernels and memory that the later ones find ready."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first output token on which the two engines disagree about one request."""

    round: int
    request: int
    position: int
    token_id: int
    peer_token_id: int


@dataclass(slots=True)
class Rounds:
    """What was measured; entry i of each list is one round."""

    runs: list[float] = field(default_factory=list)
    """Seconds of our engine."""
    peer_runs: list[float] = field(default_factory=list)
    output_tokens: list[int] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    def tokens_per_s(self, runs: list[float]) -> float:
        return statistics.median(tokens / run for tokens, run in zip(self.output_tokens, runs, strict=True))

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer: the median of the rounds' own ratios."""
        return statistics.median(peer / ours for ours, peer in zip(self.runs, self.peer_runs, strict=True))


def measure_rounds(
    spec: WorkloadSpec,
    seed: int,
    vocab_size: int,
    num_rounds: int,
    engine: BenchEngine,
    peer: BenchEngine | None,
    progress: Progress,
) -> Rounds:
    """A warm-up of each engine, then `num_rounds` rounds in strict turns."""
    engines = [engine] if peer is None else [engine, peer]
    task = progress.add_task(spec.name, total=(num_rounds + 1) * len(engines))
    rounds = Rounds()
    for round_number in range(num_rounds + 1):
        requests = make_requests(spec, seed, round_number, vocab_size)
        timed = []
        for each in engines:
            name = "warm-up" if round_number == WARM_UP_ROUND else f"round {round_number}"
            progress.update(task, description=f"{spec.name}: {name}, {each.name}", refresh=True)
            timed.append(_time_run(each, requests))
            progress.update(task, advance=1, refresh=True)
        if round_number == WARM_UP_ROUND:
            continue
        rounds.output_tokens.append(count_output_tokens(requests))
        rounds.runs.append(timed[0].seconds)
        if peer is not None:
            rounds.peer_runs.append(timed[1].seconds)
            rounds.differences += _differences(round_number, timed[0].outputs, timed[1].outputs)
        speeds = (f"{e.name} {rounds.output_tokens[-1] / t.seconds:.1f}" for e, t in zip(engines, timed, strict=True))
        progress.console.print(f"{spec.name}, round {round_number} of {num_rounds}: {', '.join(speeds)} tokens/s")
    return rounds


@dataclass(frozen=True, slots=True)
class _TimedRun:
    seconds: float
    outputs: list[list[int]]


def _time_run(engine: BenchEngine, requests: list[BenchRequest]) -> _TimedRun:
    clock = MonotonicClock()
    gc.collect()  # so that neither engine cleans up after the other
    started = clock.now()
    outputs = engine.generate(requests)
    seconds = clock.now() - started
    if [len(output) for output in outputs] != [request.max_tokens for request in requests]:
        raise BenchError(f"{engine.name} did not give every request the tokens it asked for: no speed to report.")
    return _TimedRun(seconds, outputs)


def _differences(round_number: int, ours: list[list[int]], theirs: list[list[int]]) -> list[Difference]:
    found = []
    for request, (output, peer_output) in enumerate(zip(ours, theirs, strict=True)):
        for position, (token_id, peer_token_id) in enumerate(zip(output, peer_output, strict=True)):
            if token_id != peer_token_id:
                found.append(Difference(round_number, request, position, token_id, peer_token_id))
                break  # what follows a different token is another text
    return found


def measure(
    spec: WorkloadSpec, *, model: str, dtype: str, seed: int, num_rounds: int, num_threads: int, versus: str | None
) -> dict[str, object]:
    """Load, run and compare; the JSON object. What concerns the peer is null without one (`versus`)."""
    import torch

    from minivllm.runtime.model_store import resolve_model

    set_num_threads(num_threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with progress_bar() as progress:
        engine = MinivllmEngine(model, dtype, device)
        peer = TransformersPeer(resolve_model(model), dtype, device) if versus == TransformersPeer.name else None
        rounds = measure_rounds(spec, seed, engine.vocab_size, num_rounds, engine, peer, progress)
    num_sequences = spec.num_requests * num_rounds
    return {
        "bench": "throughput",
        "workload": spec.name,
        "requests": spec.num_requests,
        "output_tokens": rounds.output_tokens[0],
        "seed": seed,
        "model": model,
        "dtype": dtype,
        "device": device,
        "threads": num_threads,
        "rounds": num_rounds,
        "tokens_per_s": rounds.tokens_per_s(rounds.runs),
        "runs": rounds.runs,
        "peer": versus,
        "peer_tokens_per_s": rounds.tokens_per_s(rounds.peer_runs) if peer else None,
        "peer_runs": rounds.peer_runs if peer else None,
        "ratio": rounds.ratio if peer else None,
        "identical_sequences": 1 - len(rounds.differences) / num_sequences if peer else None,
        "differences": [asdict(difference) for difference in rounds.differences] if peer else None,
        # Of this process: the weights of both engines, where there are two. `bench memory` measures ours alone.
        "peak_rss_bytes": peak_rss_bytes(),
        **describe_environment("torch", "transformers"),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workload", required=True, choices=(*WORKLOADS, NANO_VLLM.name), help="which requests to measure"
    )
    parser.add_argument("--seed", type=int, default=0, help="draws the prompts and lengths (default: %(default)s)")
    add_model_arguments(parser)
    parser.add_argument("--vs", choices=(TransformersPeer.name,), help="measure this peer too, in turns, and compare")
    parser.add_argument("--rounds", type=positive_int, help=f"counted runs of each (default: {DEFAULT_ROUNDS})")
    published = parser.add_argument_group(
        f"the workload {NANO_VLLM.name}",
        "It has its own defaults (--model qwen3-0.6b-dummy, --dtype bfloat16, --rounds 1, on a GPU), its own peers, and options:",
    )
    published.add_argument("--num-requests", type=positive_int, help="fewer requests than its 256; needed on a CPU")
    published.add_argument(
        "--peer-seconds", type=positive_int, help="after so long a peer gets no more batches of requests (default: 60)"
    )
    published.add_argument(
        "--attention-backend", choices=get_args(AttentionBackendName), help="of our engine (default: triton on a GPU)"
    )
    add_json_argument(parser)
    # None says that the option was not given; what it then is depends on the workload.
    parser.set_defaults(model=None, dtype=None)


def run(args: argparse.Namespace) -> int:
    """Measure and report; the exit status."""
    if args.workload == NANO_VLLM.name:
        from minivllm.bench import nano_vllm  # imports torch, and `minivllm bench --help` should not

        return nano_vllm.run(args)
    for option in ("num_requests", "peer_seconds", "attention_backend"):
        if getattr(args, option) is not None:
            raise BenchError(f"--{option.replace('_', '-')} belongs to the workload {NANO_VLLM.name}: leave it out.")
    result = measure(
        WORKLOADS[args.workload],
        model=args.model or DEFAULT_MODEL,
        dtype=args.dtype or DEFAULT_DTYPE,
        seed=args.seed,
        num_rounds=args.rounds or DEFAULT_ROUNDS,
        num_threads=args.num_threads,
        versus=args.vs,
    )
    speeds = [("minivllm", result["tokens_per_s"], result["runs"])]
    notes = []
    if result["peer"]:
        speeds.append((result["peer"], result["peer_tokens_per_s"], result["peer_runs"]))
        notes = [
            f"{result['ratio']:.2f} times the speed of {result['peer']} (median of the rounds).",
            _same_tokens(result),
        ]
    rows = [
        (name, f"{speed:.1f}", *(f"{f(runs):.2f}" for f in (statistics.median, min, max)))
        for name, speed, runs in speeds
    ]
    title = (
        f"{args.workload}: {result['requests']} requests, {result['output_tokens']:,} output tokens, {result['model']} "
        f"{result['dtype']} on {result['device']}, {args.num_threads} threads, {result['rounds']} rounds"
    )
    columns = ("engine", "tokens/s", "seconds", "fastest", "slowest")
    print_report(title, columns, rows, notes, result, args.json)
    return 0


def _same_tokens(result: dict) -> str:
    if not result["differences"]:
        return "Both gave the same tokens."
    first = result["differences"][0]
    return (
        f"{result['identical_sequences']:.1%} of the sequences are identical; the first difference is in round "
        f"{first['round']}, request {first['request']}, output token {first['position']}: "
        f"{first['token_id']} against {first['peer_token_id']}."
    )
