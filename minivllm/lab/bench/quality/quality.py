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
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from minivllm.config import EngineConfig
from minivllm.configurations import parse_configuration
from minivllm.engine.engine import LLMEngine
from minivllm.lab.common.report import Report, add_model_arguments, tracked
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import RequestOutputKind, SamplingParams

WINDOW = 512
"""Tokens that a model reads at once; each window starts without context."""
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
    """Return the fixed text that `model` reads."""
    name = "house.txt" if model == "house" else "prose.txt"
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def judge(config: EngineConfig, text: str) -> list[TokenOfText]:
    """Let the engine of `config` read `text`; return all tokens but the first of each window."""
    engine = LLMEngine.from_config(config)
    token_ids = engine.tokenizer.encode(text, add_special_tokens=False)
    length = min(WINDOW, engine.max_model_len - 1)
    params = SamplingParams(
        temperature=0.0, max_tokens=1, prompt_logprobs=1, output_kind=RequestOutputKind.FINAL_ONLY
    )
    judged: list[TokenOfText] = []
    for start in tracked(range(0, len(token_ids), length), "reading"):
        window = {"prompt_token_ids": token_ids[start : start + length]}
        engine.add_request(str(start), window, params)
        while engine.has_unfinished_requests():
            for output in engine.step():
                judged += _tokens_of(output)
    return judged


def _tokens_of(output: RequestOutput) -> Iterator[TokenOfText]:
    pairs = zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:], strict=True)
    for token_id, found in pairs:
        top = next(other for other, logprob in found.items() if logprob.rank == 1)
        yield TokenOfText(found[token_id].logprob, top)


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--a",
        default="float32",
        help=f"parts of {', '.join(PARTS)}, joined by + (default: %(default)s)",
    )
    parser.add_argument("--b", default="int8", help="the other side (default: %(default)s)")
    add_model_arguments(parser, dtype=False)


def measure(args: argparse.Namespace) -> Report:
    options = [parse_configuration(name, parts=PARTS).options for name in (args.a, args.b)]
    sides = [EngineConfig(model=args.model, **{"dtype": "float32", **chosen}) for chosen in options]
    found = compare_quality(*(judge(side, text_for(args.model)) for side in sides))
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
