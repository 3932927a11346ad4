"""`minivllm bench quality`: what smaller weights or a smaller KV cache cost in quality.

Two configurations read the same text in the real engine, window by window, and give each token's
log-probability (`prompt_logprobs`):

    perplexity       exp(-mean log-probability): between how many tokens the model hesitates
    same top token   share of positions at which both find the same token most likely
    difference       mean absolute difference of the log-probabilities of the text's tokens

The house model reads its own kind of text (house.txt, written by tools/house_model with a seed that
training did not use). Other models read prose.txt, from pages of this project's documentation.
"""

import argparse
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from minivllm.configurations import parse_configuration
from minivllm.lab.common.report import Report, add_model_arguments
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

WINDOW = 512  # tokens that a model reads at once; each window starts without context
PARTS: dict[str, dict[str, object]] = {
    "float32": {"dtype": "float32"},
    "bfloat16": {"dtype": "bfloat16"},
    "float16": {"dtype": "float16"},
    "int8": {"quantization": "int8"},
    "kv-bfloat16": {"kv_cache_dtype": "bfloat16"},
    "kv-int8": {"kv_cache_dtype": "int8"},
}
"""Part of a configuration's name -> the options that it sets."""


class TokenOfText(NamedTuple):
    logprob: float  # of the text's own token
    top_token: int  # the most likely token at this position


def text_for(model: str) -> str:
    name = "house.txt" if model == "house" else "prose.txt"
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def judge(text: str, **options: object) -> list[TokenOfText]:
    """Let an engine read `text`; return all tokens but the first of each window."""
    llm = LLM(max_num_seqs=1, **options)
    token_ids = llm.llm_engine.tokenizer.encode(text, add_special_tokens=False)
    length = min(WINDOW, llm.llm_engine.max_model_len - 1)
    windows = [token_ids[start : start + length] for start in range(0, len(token_ids), length)]
    prompts = [{"prompt_token_ids": window} for window in windows]
    params = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=1)
    judged: list[TokenOfText] = []
    for output in llm.generate(prompts, params):
        for token_id, found in zip(
            output.prompt_token_ids[1:], output.prompt_logprobs[1:], strict=True
        ):
            top = next(other for other, logprob in found.items() if logprob.rank == 1)
            judged.append(TokenOfText(found[token_id].logprob, top))
    return judged


def compare_quality(a: list[TokenOfText], b: list[TokenOfText]) -> dict[str, float]:
    """Compare two readings of the same text; the share of same tokens is 0 to 1."""
    pairs = list(zip(a, b, strict=True))
    perplexities = [math.exp(-statistics.fmean(token.logprob for token in side)) for side in (a, b)]
    return {
        "num_tokens": len(pairs),
        "perplexity_a": perplexities[0],
        "perplexity_b": perplexities[1],
        "perplexity_change": perplexities[1] / perplexities[0] - 1,
        "same_top_token": statistics.fmean(x.top_token == y.top_token for x, y in pairs),
        "logprob_difference": statistics.fmean(abs(x.logprob - y.logprob) for x, y in pairs),
    }


def add_arguments(add: Callable[..., None]) -> None:
    add("--a A", f"parts of {', '.join(PARTS)}, joined by +", default="float32")
    add("--b B", "the other side", default="int8")
    add_model_arguments(add, dtype=False)


def measure(args: argparse.Namespace) -> Report:
    options = [parse_configuration(name, parts=PARTS).options for name in (args.a, args.b)]
    usual, text = {"model": args.model, "dtype": "float32"}, text_for(args.model)
    found = compare_quality(*(judge(text, **usual | chosen) for chosen in options))
    change, same = f"{found['perplexity_change']:+.3%}", f"{found['same_top_token']:.2%}"
    rows = [
        (args.a, f"{found['perplexity_a']:.4f}", "", ""),
        (args.b, f"{found['perplexity_b']:.4f}", change, same),
    ]
    title = f"{args.model} reads {found['num_tokens']:,} tokens in windows of up to {WINDOW}"
    notes = [
        "The log-probabilities of the text's tokens differ by"
        f" {found['logprob_difference']:.5f} on average."
    ]
    columns = ("numbers", "perplexity", "change", "same top token")
    return Report(title, columns, rows, notes, found | {"window": WINDOW})
