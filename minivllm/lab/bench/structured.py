"""`minivllm bench structured`: what masks cost in a step, and which steps forced tokens save.

Sixteen sequences, greedy, without the prefix cache, on three engines:

    free     no grammar
    masked   a JSON schema whose text outlasts the run: a mask in each step of each sequence
    jumped   the same schema, with forced tokens as drafts (jump-forward)

free and masked take the same number of steps with the same number of rows, so their difference is
the price of the masks. jumped must write the same tokens as masked, in fewer steps. Rounds
alternate, and each ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.errors import BenchError
from minivllm.lab.bench.own_side import OwnSide, add_draft_arguments, median_ratio
from minivllm.lab.bench.sharing import cut_prompts
from minivllm.lab.bench.throughput.engine_speed import warm_up
from minivllm.lab.bench.throughput.rounds import TimedRun, time_run
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, BenchRequest
from minivllm.lab.common.environment import describe_environment, set_num_threads
from minivllm.lab.common.report import (
    add_json_argument,
    add_model_arguments,
    print_report,
)
from minivllm.sampling_params import StructuredOutputsParams

if TYPE_CHECKING:
    from minivllm.runtime.loader import LoadedModel

PROMPT_LEN = 64
MASK_GOAL = 1.05
"""Seconds of a step with masks over those without, at most."""
WORD = {"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"}
PERSON = {
    "type": "object",
    "properties": {
        "first_name": WORD,
        "home_city": WORD,
        "age_in_years": {"type": "integer", "minimum": 0, "maximum": 120},
        "favourite_colour": {"enum": ["red", "green", "blue"]},
    },
    "required": ["first_name", "home_city", "age_in_years", "favourite_colour"],
    "additionalProperties": False,
}
FORM = StructuredOutputsParams(
    json={"type": "array", "items": PERSON, "minItems": 1000}, disable_any_whitespace=True
)
NEVER_FOUND = 1000
"""A lookup of so many tokens finds nothing: only forced tokens are drafted."""


@dataclass(frozen=True, slots=True)
class StructuredResult:
    num_requests: int
    steps: int
    """Steps of a round without drafts."""
    jumped_steps: int
    free_step_ms: float
    masked_step_ms: float
    """Medians over the rounds."""
    mask_ratio: float
    """Seconds of a step with masks over those without."""
    jump_ratio: float
    """Seconds of a round with masks over those with masks and drafts: above 1 is faster."""


def sides_of(config: EngineConfig, model: LoadedModel) -> list[OwnSide]:
    """Build the engines free, masked and jumped; `config` is that of jumped."""
    plain = replace(config, speculative_config=None)
    return [
        OwnSide("free", plain, model, None),
        OwnSide("masked", plain, model, FORM),
        OwnSide("jumped", config, model, FORM),
    ]


def measure_sides(
    sides: list[OwnSide], requests: list[BenchRequest], num_rounds: int
) -> StructuredResult:
    """Run the requests `num_rounds` times on each side, in turns.

    Raises `BenchError` if drafts change a token.
    """
    for side in sides:
        warm_up(side, requests)
    before = [side.state.step for side in sides]
    runs: list[list[TimedRun]] = [[] for _ in sides]
    for _ in range(num_rounds):
        for side, own in zip(sides, runs, strict=True):
            own.append(time_run(side, requests))
    masked, jumped = runs[1:]
    if any(one.outputs != other.outputs for one, other in zip(masked, jumped, strict=True)):
        raise BenchError("The engine with forced drafts wrote other tokens than the one without.")
    taken = [
        (side.state.step - first) // num_rounds for side, first in zip(sides, before, strict=True)
    ]
    step_ms = [
        [1000 * run.seconds / steps for run in own] for own, steps in zip(runs, taken, strict=True)
    ]
    return StructuredResult(
        len(requests),
        steps=taken[1],
        jumped_steps=taken[2],
        free_step_ms=statistics.median(step_ms[0]),
        masked_step_ms=statistics.median(step_ms[1]),
        mask_ratio=median_ratio(step_ms[1], step_ms[0]),
        jump_ratio=median_ratio([run.seconds for run in masked], [run.seconds for run in jumped]),
    )


def measure(args: argparse.Namespace) -> dict[str, object]:
    """Measure, and return the report for `--json`."""
    from minivllm.runtime.loader import load_model

    set_num_threads(args.num_threads)
    model = load_model(EngineConfig(model=args.model, dtype=args.dtype))
    prompts = cut_prompts(model.tokenizer, PROMPT_LEN, MAX_NUM_SEQS)
    requests = [BenchRequest(prompt, args.output_len) for prompt in prompts]
    length = PROMPT_LEN + args.output_len
    config = EngineConfig(
        model=args.model,
        dtype=args.dtype,
        max_model_len=length,
        max_num_seqs=MAX_NUM_SEQS,
        num_gpu_blocks_override=MAX_NUM_SEQS * (1 + -(-length // EngineConfig().block_size)),
        enable_prefix_caching=False,
        speculative_config=SpeculativeConfig.of(
            {
                "method": "ngram",
                "num_speculative_tokens": args.num_speculative_tokens,
                "prompt_lookup_min": NEVER_FOUND,
                "prompt_lookup_max": NEVER_FOUND,
            }
        ),
    )
    return {
        "bench": "structured",
        "model": args.model,
        "dtype": args.dtype,
        "threads": args.num_threads,
        "rounds": args.rounds,
        "output_len": args.output_len,
        "num_speculative_tokens": args.num_speculative_tokens,
        "result": asdict(measure_sides(sides_of(config, model), requests, args.rounds)),
        **describe_environment("torch"),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_draft_arguments(parser, repeated="the requests run on each engine", drafts="forced tokens")
    add_model_arguments(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    report = measure(args)
    of = report["result"]
    rows = [
        ("free", str(of["steps"]), f"{of['free_step_ms']:.1f}", ""),
        (
            "masked",
            str(of["steps"]),
            f"{of['masked_step_ms']:.1f}",
            f"{of['mask_ratio']:.3f} of free's step (goal: at most {MASK_GOAL})",
        ),
        ("jumped", str(of["jumped_steps"]), "", f"{of['jump_ratio']:.2f} times as fast as masked"),
    ]
    notes = [
        "masked and jumped wrote the same tokens of one JSON schema, free wrote as many.",
        "Each ratio is the median over rounds in which the engines run one after the other.",
    ]
    title = (
        f"Structured output, {of['num_requests']} sequences, {args.model} in {args.dtype},"
        f" {args.num_threads} threads"
    )
    print_report(title, ("engine", "steps", "ms a step", "ratio"), rows, notes, report, args.json)
    return 0
