"""`minivllm bench sharing`: KV cache memory saved by samples and beams that share blocks.

As in the PagedAttention paper (section 6.3), the result is the number of blocks saved by sharing,
divided by the number of blocks that the same sequences need without sharing, averaged over the
steps. Lengths are the averages of the paper's data sets (Alpaca is `short`, ShareGPT is `long`).
The prefix cache is off, because it would save blocks, too. A step is measured after its block
copies (`events/kv_usage.py`), because a forked sequence shares all blocks until it writes.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events.kv_usage import KVUsageMeter, mean
from minivllm.lab.common.environment import describe_environment, set_num_threads
from minivllm.lab.common.report import (
    add_json_argument,
    add_model_arguments,
    positive_int,
    print_report,
    progress_bar,
)
from minivllm.lessons.scenarios.scenarios import SCENARIOS
from minivllm.sampling_params import RequestOutputKind, SamplingParams

if TYPE_CHECKING:
    from minivllm.runtime.text.tokenizer import Tokenizer

BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class PromptKind:
    """Average lengths in a data set of the paper, in tokens."""

    name: str
    prompt_len: int
    output_len: int


@dataclass(frozen=True, slots=True)
class SharingCase:
    method: str
    """`parallel` or `beam`."""
    width: int
    """Number of samples or beams."""
    prompts: PromptKind

    def params(self, seed: int) -> SamplingParams:
        common = {
            "n": self.width,
            "max_tokens": self.prompts.output_len,
            "ignore_eos": True,
            "output_kind": RequestOutputKind.FINAL_ONLY,
        }
        if self.method == "beam":
            return SamplingParams(use_beam_search=True, temperature=0.0, **common)
        return SamplingParams(temperature=1.0, seed=seed, **common)


ALPACA = PromptKind("short", prompt_len=19, output_len=58)
SHAREGPT = PromptKind("long", prompt_len=161, output_len=338)
PAPER_PERCENT = {
    ("parallel", "short"): (6.1, 9.8),
    ("parallel", "long"): (16.2, 30.5),
    ("beam", "short"): (37.6, 55.2),
    ("beam", "long"): (44.3, 66.3),
}
"""The paper's lowest and highest saving for widths of 2 to 6, in percent."""
CASES = [
    SharingCase(method, width, prompts)
    for prompts in (ALPACA, SHAREGPT)
    for method, widths in (("parallel", (2, 4, 6)), ("beam", (2, 4, 6)))
    for width in widths
]


def sharing_engine_config(
    case: SharingCase, num_requests: int, model: str, dtype: str
) -> EngineConfig:
    """Return a configuration in which all sequences of the case fit at once."""
    length = case.prompts.prompt_len + case.prompts.output_len
    num_sequences = num_requests * case.width
    return EngineConfig(
        model=model,
        dtype=dtype,
        block_size=BLOCK_SIZE,
        num_gpu_blocks_override=num_sequences * -(-length // BLOCK_SIZE),
        max_model_len=length,
        max_num_seqs=num_sequences,
        enable_prefix_caching=False,
    )


def measure_case(
    engine: LLMEngine, case: SharingCase, prompts: list[list[int]], seed: int = 0
) -> float:
    """Run all prompts at once; return the mean share of blocks saved by sharing, 0 to 1."""
    meter = KVUsageMeter(engine.log_header())
    engine.subscribe(meter.apply)
    for number, prompt in enumerate(prompts):
        engine.add_request(str(number), {"prompt_token_ids": prompt}, case.params(seed + number))
    while engine.has_unfinished_requests():
        engine.step()
    return mean([usage.saved_by_sharing for usage in meter.samples])


def cut_prompts(tokenizer: Tokenizer, length: int, number: int) -> list[list[int]]:
    """Cut `number` pieces of `length` tokens from a text; each piece has a different start."""
    (diary,) = (
        arrival for arrival in SCENARIOS["long-and-short"].arrivals if arrival.request_id == "diary"
    )
    token_ids = tokenizer.encode(diary.messages[-1]["content"])
    starts = [i * (len(token_ids) - length) // number for i in range(number)]
    return [token_ids[start : start + length] for start in starts]


def measure(*, model: str, dtype: str, num_requests: int, num_threads: int) -> dict[str, object]:
    """Measure all cases, and return the report for `--json`."""
    from minivllm.runtime.loader import load_model

    set_num_threads(num_threads)
    loaded = load_model(EngineConfig(model=model, dtype=dtype))
    results = []
    with progress_bar() as progress:
        for case in progress.track(CASES, description="sharing blocks"):
            progress.refresh()
            engine = LLMEngine.from_model(
                sharing_engine_config(case, num_requests, model, dtype), loaded
            )
            prompts = cut_prompts(loaded.tokenizer, case.prompts.prompt_len, num_requests)
            saved = measure_case(engine, case, prompts)
            paper = PAPER_PERCENT[case.method, case.prompts.name]
            results.append({**asdict(case), "saved": saved, "paper_percent": paper})
    return {
        "bench": "sharing",
        "model": model,
        "dtype": dtype,
        "threads": num_threads,
        "block_size": BLOCK_SIZE,
        "requests": num_requests,
        "results": results,
        **describe_environment("torch"),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--requests",
        type=positive_int,
        default=4,
        help="number of prompts of each kind (default: %(default)s)",
    )
    add_model_arguments(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    result = measure(
        model=args.model, dtype=args.dtype, num_requests=args.requests, num_threads=args.num_threads
    )
    rows = [
        (
            (
                f"{row['prompts']['name']}, {row['prompts']['prompt_len']} +"
                f" {row['prompts']['output_len']} tokens"
            ),
            row["method"],
            str(row["width"]),
            f"{row['saved']:.1%}",
            "{:.1f} to {:.1f} %".format(*row["paper_percent"]),
        )
        for row in result["results"]
    ]
    columns = ("prompts", "method", "width", "blocks saved", "paper, widths 2 to 6")
    notes = ["The paper: OPT-13B on Alpaca (short) and ShareGPT (long), blocks of 16 tokens."]
    print_report(
        f"Memory saved by sharing blocks, {args.model}", columns, rows, notes, result, args.json
    )
    return 0
