"""`minivllm bench speculation`: output tokens per second with drafts and without, in one run.

Three workloads, greedy, without the prefix cache:

    copy, 1 request       a text is given and copied, as in rewriting or extracting
    copy, 16 requests     the same with sixteen texts at once
    free, 1 request       new text, in which a lookup finds little: what drafting may cost

    minivllm bench speculation --vs vllm --peer-python ~/vllm/bin/python

With `--vs vllm`, vLLM runs the same prompts in its own Python, once without drafts and once with
its own prompt lookup and the same `speculative_config`.

Rounds of all engines alternate, and each ratio is the median over the rounds: then a machine that
is busy for a while slows all sides down. Both sides of minivllm must write the same tokens.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.errors import BenchError
from minivllm.lab.bench.own_side import OwnSide, add_draft_arguments, median_ratio
from minivllm.lab.bench.sharing import cut_prompts
from minivllm.lab.bench.throughput.engine_speed import warm_up
from minivllm.lab.bench.throughput.peer_process import PeerProcess
from minivllm.lab.bench.throughput.peers import BenchEngine
from minivllm.lab.bench.throughput.rounds import SETTLE_S, TimedRun, time_run
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, BenchRequest
from minivllm.lab.common.environment import describe_environment, set_num_threads
from minivllm.lab.common.report import (
    add_json_argument,
    add_model_arguments,
    print_report,
    progress_bar,
)
from minivllm.runtime.store.model_store import resolve_for_transformers

if TYPE_CHECKING:
    from minivllm.runtime.loader import LoadedModel
    from minivllm.runtime.text.tokenizer import Tokenizer

TEXT_LEN, BEGUN_LEN = 150, 10
"""Tokens of a given text, and how many of them the prompt repeats: the model copies the rest."""
FREE = "Here is a story about a girl who found a key."


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    num_requests: int
    copies: bool
    goal: float
    """Tokens per second with drafts over those without, at least."""


WORKLOADS = (
    Workload("copy", 1, copies=True, goal=1.8),
    Workload("copy", 16, copies=True, goal=1.0),
    Workload("free", 1, copies=False, goal=0.97),
)


@dataclass(frozen=True, slots=True)
class DraftSpeeds:
    """Output tokens per second of an engine, medians over the rounds."""

    plain: float
    drafted: float
    ratio: float
    """The median of the rounds' ratios."""

    @classmethod
    def of(cls, plain: list[TimedRun], drafted: list[TimedRun]) -> DraftSpeeds:
        return cls(
            statistics.median(map(_speed, plain)),
            statistics.median(map(_speed, drafted)),
            median_ratio(map(_speed, drafted), map(_speed, plain)),
        )


@dataclass(frozen=True, slots=True)
class BesideVllm:
    speeds: DraftSpeeds
    """vLLM's own."""
    plain_ratio: float
    drafted_ratio: float
    """minivllm's speed over vLLM's, without drafts on both sides and with them."""
    identical_sequences: float
    """Share of the requests, over all rounds, in which both wrote the same tokens."""


@dataclass(frozen=True, slots=True)
class SpeculationResult:
    workload: Workload
    speeds: DraftSpeeds
    tokens_per_step: float
    """Output tokens of a sequence in a step, mean over all sequences and steps with drafts."""
    accepted: float
    """Share of the drafts that were right, 0 to 1."""
    vllm: BesideVllm | None


def requests_of(workload: Workload, tokenizer: Tokenizer, num_tokens: int) -> list[BenchRequest]:
    encode = tokenizer.encode
    if workload.copies:
        texts = cut_prompts(tokenizer, TEXT_LEN, workload.num_requests)
        again = encode("\n\nThe same text again:\n\n")
        prompts = [[*text, *again, *text[:BEGUN_LEN]] for text in texts]
    else:
        prompts = [encode(FREE)] * workload.num_requests
    return [BenchRequest(prompt, num_tokens) for prompt in prompts]


def own_sides(config: EngineConfig, model: LoadedModel) -> list[OwnSide]:
    """Build two engines: one without drafts and one with the `speculative_config` of `config`."""
    plain = replace(config, speculative_config=None)
    return [OwnSide("minivllm", plain, model), OwnSide("minivllm, drafts", config, model)]


def measure_workload(
    workload: Workload, sides: list[BenchEngine], requests: list[BenchRequest], num_rounds: int
) -> SpeculationResult:
    """Run the requests `num_rounds` times on each side, in turns.

    sides: minivllm without drafts and with them, and possibly the same of vLLM

    Raises `BenchError` if minivllm writes other tokens with drafts than without.
    """
    for side in sides:
        warm_up(side, requests)
    before = sides[1].state.counters
    runs: list[list[TimedRun]] = [[] for _ in sides]
    for _ in range(num_rounds):
        for side, own in zip(sides, runs, strict=True):
            # The threads of a peer's process still spin after their work (see rounds.py).
            time.sleep(SETTLE_S if len(sides) > 2 else 0.0)
            own.append(time_run(side, requests))
    plain, drafted, *theirs = runs
    if any(one.outputs != other.outputs for one, other in zip(plain, drafted, strict=True)):
        raise BenchError("The engine with drafts wrote other tokens than the engine without.")
    after = sides[1].state.counters
    num_drafts = after.spec_decode_num_draft_tokens - before.spec_decode_num_draft_tokens
    num_right = after.spec_decode_num_accepted_tokens - before.spec_decode_num_accepted_tokens
    num_written = num_rounds * sum(request.max_tokens for request in requests)
    return SpeculationResult(
        workload,
        DraftSpeeds.of(plain, drafted),
        tokens_per_step=num_written / (num_written - num_right),
        accepted=num_right / num_drafts if num_drafts else 0.0,
        vllm=_beside(plain, drafted, *theirs) if theirs else None,
    )


def _beside(
    plain: list[TimedRun],
    drafted: list[TimedRun],
    their_plain: list[TimedRun],
    their_drafted: list[TimedRun],
) -> BesideVllm:
    pairs = [
        (ours, theirs)
        for one, other in zip([*plain, *drafted], [*their_plain, *their_drafted], strict=True)
        for ours, theirs in zip(one.outputs, other.outputs, strict=True)
    ]
    return BesideVllm(
        DraftSpeeds.of(their_plain, their_drafted),
        plain_ratio=median_ratio(map(_speed, plain), map(_speed, their_plain)),
        drafted_ratio=median_ratio(map(_speed, drafted), map(_speed, their_drafted)),
        identical_sequences=sum(ours == theirs for ours, theirs in pairs) / len(pairs),
    )


def _speed(run: TimedRun) -> float:
    return sum(map(len, run.outputs)) / run.seconds


def measure(args: argparse.Namespace) -> dict[str, object]:
    """Measure all workloads, and return the report for `--json`."""
    from minivllm.runtime.loader import load_model

    set_num_threads(args.num_threads)
    model = load_model(EngineConfig(model=args.model, dtype=args.dtype))
    work = [(one, requests_of(one, model.tokenizer, args.output_len)) for one in WORKLOADS]
    config = _config(args, [request for _, requests in work for request in requests])
    with ExitStack() as stack:
        peers = [
            stack.enter_context(PeerProcess("vllm", args.peer_python, settings))
            for settings in (_peer_settings(config, args.num_threads) if args.vs else ())
        ]
        sides = [*own_sides(config, model), *peers]
        progress = stack.enter_context(progress_bar())
        results = []
        for workload, requests in progress.track(work, description="drafting"):
            progress.refresh()
            results.append(measure_workload(workload, sides, requests, args.rounds))
    return {
        "bench": "speculation",
        "model": args.model,
        "dtype": args.dtype,
        "threads": args.num_threads,
        "rounds": args.rounds,
        "output_len": args.output_len,
        "enforce_eager": args.enforce_eager,
        "speculative_config": asdict(config.speculative_config),
        "results": [asdict(result) for result in results],
        "peers": [{"versions": peer.versions, "preloaded": peer.preloaded} for peer in peers],
        **describe_environment("torch"),
    }


def _config(args: argparse.Namespace, requests: list[BenchRequest]) -> EngineConfig:
    """Return the configuration with drafts, with memory for a full batch of these requests."""
    length = max(len(request.prompt_token_ids) + request.max_tokens for request in requests)
    lookup = {"method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 2}
    return EngineConfig(
        model=args.model,
        dtype=args.dtype,
        max_model_len=length,
        max_num_seqs=MAX_NUM_SEQS,
        num_gpu_blocks_override=MAX_NUM_SEQS * -(-length // EngineConfig().block_size),
        enable_prefix_caching=False,
        enforce_eager=args.enforce_eager,
        speculative_config=SpeculativeConfig.of(
            lookup | {"num_speculative_tokens": args.num_speculative_tokens}
        ),
    )


def _peer_settings(config: EngineConfig, num_threads: int) -> list[dict[str, object]]:
    """Return what the two processes of vLLM need to know: without drafts, then with them."""
    given = asdict(config.speculative_config).items()
    return [
        {
            "model": str(resolve_for_transformers(config.model)),
            "dtype": config.dtype,
            "num_threads": num_threads,
            "max_num_seqs": config.max_num_seqs,
            "max_model_len": config.max_model_len,
            "enable_prefix_caching": config.enable_prefix_caching,
            "speculative_config": drafts,
        }
        for drafts in (None, {name: value for name, value in given if value is not None})
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_draft_arguments(parser, repeated="each workload runs on each side", drafts="drafts")
    add_model_arguments(parser)
    parser.add_argument("--enforce-eager", action="store_true", help="on a GPU: no CUDA graphs")
    parser.add_argument("--vs", choices=("vllm",), help="also measure this peer, in turns")
    parser.add_argument(
        "--peer-python", metavar="PATH", help="the Python of an environment with vLLM, for --vs"
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    if (args.vs is None) != (args.peer_python is None):
        raise BenchError(
            "--vs vllm and --peer-python PATH belong together: PATH is the Python of an environment"
            " with vLLM."
        )
    result = measure(args)
    rows, notes = [], []
    for row in result["results"]:
        of, speeds, vllm = row["workload"], row["speeds"], row["vllm"]
        name = f"{of['name']}, {of['num_requests']}"
        right = f"{row['tokens_per_step']:.2f}", f"{row['accepted']:.0%}"
        rows.append((name, "minivllm", *_cells(speeds, f" ({of['goal']})"), *right))
        if vllm is not None:
            rows.append((name, "vLLM", *_cells(vllm["speeds"]), "", ""))
            notes.append(
                f"{name}: minivllm is {vllm['plain_ratio']:.2f} times as fast as vLLM without"
                f" drafts and {vllm['drafted_ratio']:.2f} times with drafts on both sides;"
                f" {vllm['identical_sequences']:.0%} of the outputs are the same."
            )
    columns = ("requests", "engine", "plain", "drafts", "ratio (goal)", "tokens/step", "accepted")
    notes += [
        "plain, drafts: output tokens per second. Drafts by prompt lookup; minivllm wrote the same"
        " tokens with them and without.",
        "Each ratio is the median over rounds in which the sides run one after the other.",
    ]
    title = f"Speculative decoding, {args.model} in {args.dtype}, {args.num_threads} threads"
    print_report(title, columns, rows, notes, result, args.json)
    return 0


def _cells(speeds: dict[str, float], goal: str = "") -> list[str]:
    plain, drafted, ratio = speeds.values()
    return [f"{plain:.1f}", f"{drafted:.1f}", f"{ratio:.2f}{goal}"]
