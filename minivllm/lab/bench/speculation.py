"""`minivllm bench speculation`: output tokens per second with drafts and without, in one run.

Three workloads, greedy, without the prefix cache:

    copy, 1 request       a text is given and copied, as in rewriting or extracting
    copy, 16 requests     the same with sixteen texts at once
    free, 1 request       new text, in which a lookup finds little: what drafting may cost

Rounds of both engines alternate, and each ratio is the median over the rounds: then a machine that
is busy for a while slows both sides down. Both sides must write the same tokens.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.lab.bench.sharing import cut_prompts
from minivllm.lab.common.environment import describe_environment, set_num_threads
from minivllm.lab.common.report import (
    add_json_argument,
    add_model_arguments,
    positive_int,
    print_report,
    progress_bar,
)
from minivllm.sampling_params import RequestOutputKind, SamplingParams

if TYPE_CHECKING:
    from minivllm.runtime.loader import LoadedModel

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
class SpeculationRun:
    seconds: float
    tokens: list[list[int]]
    """The output of each request."""

    @property
    def tokens_per_second(self) -> float:
        return sum(map(len, self.tokens)) / self.seconds


@dataclass(frozen=True, slots=True)
class SpeculationResult:
    workload: Workload
    plain: float
    drafted: float
    """Output tokens per second, medians."""
    ratio: float
    tokens_per_step: float
    """Output tokens of a sequence in a step, mean over all sequences and steps with drafts."""
    accepted: float
    """Share of the drafts that were right, 0 to 1."""


def prompts_of(workload: Workload, model: LoadedModel) -> list[list[int]]:
    encode = model.tokenizer.encode
    if not workload.copies:
        return [encode(FREE)] * workload.num_requests
    texts = cut_prompts(model.tokenizer, TEXT_LEN, workload.num_requests)
    again = encode("\n\nThe same text again:\n\n")
    return [[*text, *again, *text[:BEGUN_LEN]] for text in texts]


def run_once(engine: LLMEngine, prompts: list[list[int]], num_tokens: int) -> SpeculationRun:
    params = SamplingParams(
        temperature=0.0,
        max_tokens=num_tokens,
        ignore_eos=True,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    for number, prompt in enumerate(prompts):
        engine.add_request(str(number), {"prompt_token_ids": prompt}, params)
    tokens: dict[str, list[int]] = {}
    started = time.perf_counter()
    while engine.has_unfinished_requests():
        for output in engine.step():
            tokens[output.request_id] = output.outputs[0].token_ids
    seconds = time.perf_counter() - started
    return SpeculationRun(seconds, [tokens[str(number)] for number in range(len(prompts))])


def measure_workload(
    workload: Workload, config: EngineConfig, model: LoadedModel, num_rounds: int, num_tokens: int
) -> SpeculationResult:
    """Run the workload `num_rounds` times on each of two engines, in turns.

    config: with a `speculative_config`; the other engine has none

    Raises `BenchError` if the engines write different tokens.
    """
    plain_config = replace(config, speculative_config=None)
    sides = [LLMEngine.from_model(one, model) for one in (plain_config, config)]
    prompts = prompts_of(workload, model)
    for engine in sides:
        run_once(engine, prompts, num_tokens=8)
    before = sides[1].inspect().counters
    rounds = [
        [run_once(engine, prompts, num_tokens) for engine in sides] for _ in range(num_rounds)
    ]
    if any(plain.tokens != drafted.tokens for plain, drafted in rounds):
        raise BenchError("The engine with drafts wrote other tokens than the engine without.")
    after = sides[1].inspect().counters
    num_drafts = after.spec_decode_num_draft_tokens - before.spec_decode_num_draft_tokens
    num_right = after.spec_decode_num_accepted_tokens - before.spec_decode_num_accepted_tokens
    num_written = num_rounds * len(prompts) * num_tokens
    speeds = [[run.tokens_per_second for run in pair] for pair in rounds]
    return SpeculationResult(
        workload,
        *(statistics.median(side) for side in zip(*speeds, strict=True)),
        ratio=statistics.median(drafted / plain for plain, drafted in speeds),
        tokens_per_step=num_written / (num_written - num_right),
        accepted=num_right / num_drafts if num_drafts else 0.0,
    )


def measure(args: argparse.Namespace) -> dict[str, object]:
    """Measure all workloads, and return the report for `--json`."""
    from minivllm.runtime.loader import load_model

    set_num_threads(args.num_threads)
    length = TEXT_LEN + BEGUN_LEN + 16 + args.output_len
    config = EngineConfig(
        model=args.model,
        dtype=args.dtype,
        max_model_len=length,
        num_gpu_blocks_override=16 * -(-length // EngineConfig().block_size),
        enable_prefix_caching=False,
        speculative_config=SpeculativeConfig.of(
            {
                "method": "ngram",
                "num_speculative_tokens": args.num_speculative_tokens,
                "prompt_lookup_max": 5,
                "prompt_lookup_min": 2,
            }
        ),
    )
    model = load_model(config)
    with progress_bar() as progress:
        results = []
        for workload in progress.track(WORKLOADS, description="drafting"):
            progress.refresh()
            results.append(measure_workload(workload, config, model, args.rounds, args.output_len))
    return {
        "bench": "speculation",
        "model": args.model,
        "dtype": args.dtype,
        "threads": args.num_threads,
        "rounds": args.rounds,
        "output_len": args.output_len,
        "speculative_config": asdict(config.speculative_config),
        "results": [asdict(result) for result in results],
        **describe_environment("torch"),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds",
        type=positive_int,
        default=5,
        help="how often each workload runs on each side (default: %(default)s)",
    )
    parser.add_argument(
        "--output-len",
        type=positive_int,
        default=120,
        metavar="N",
        help="tokens that each request writes (default: %(default)s)",
    )
    parser.add_argument(
        "--num-speculative-tokens",
        type=positive_int,
        default=8,
        metavar="N",
        help="most drafts of a sequence in one step (default: %(default)s)",
    )
    add_model_arguments(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    result = measure(args)
    rows = [
        (
            row["workload"]["name"],
            str(row["workload"]["num_requests"]),
            f"{row['plain']:.1f}",
            f"{row['drafted']:.1f}",
            f"{row['ratio']:.2f} ({row['workload']['goal']})",
            f"{row['tokens_per_step']:.2f}",
            f"{row['accepted']:.0%}",
        )
        for row in result["results"]
    ]
    columns = ("workload", "requests", "plain", "drafts", "ratio (goal)", "tokens/step", "accepted")
    notes = [
        "plain, drafts: output tokens per second. Drafts by prompt lookup; both wrote the same"
        " tokens.",
        "Each ratio is the median over rounds in which both sides run one after the other.",
    ]
    title = f"Speculative decoding, {args.model} in {args.dtype}, {args.num_threads} threads"
    print_report(title, columns, rows, notes, result, args.json)
    return 0
