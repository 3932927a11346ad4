"""`minivllm bench speculation`: output tokens per second with drafts and without, in one run.

Three workloads, greedy, without the prefix cache:

    copy, 1 request       a text is given and copied, as in rewriting or extracting
    copy, 16 requests     the same with sixteen texts at once
    free, 1 request       new text, in which a lookup finds little: what drafting may cost

    minivllm bench speculation --vs vllm --peer-python ~/vllm/bin/python

With `--vs vllm`, vLLM runs the same prompts in its own Python, once without drafts and once with
its own prompt lookup and the same `speculative_config`. All engines take turns (`rounds.py`). Both
of minivllm must write the same tokens.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput import rounds
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, BenchRequest
from minivllm.lab.common.report import Report, add_model_arguments, positive_int, progress_bar
from minivllm.lessons.scenarios.scenarios import SCENARIOS
from minivllm.runtime.store.model_store import resolve_for_transformers
from minivllm.runtime.text.tokenizer import Tokenizer

TEXT_LEN, BEGUN_LEN = 150, 10
"""Tokens of a given text, and how many of them the prompt repeats: the model copies the rest."""
FREE = "Here is a story about a girl who found a key."


WORKLOADS = (("copy", 1, 1.8), ("copy", MAX_NUM_SEQS, 1.0), ("free", 1, 0.97))
"""Name, number of requests, and goal: tokens per second with drafts over those without."""


def make_requests(
    name: str, number: int, tokenizer: Tokenizer, num_tokens: int
) -> list[BenchRequest]:
    if name == "free":
        return [BenchRequest(tokenizer.encode(FREE), num_tokens)]
    (diary,) = (a for a in SCENARIOS["long-and-short"].arrivals if a.request_id == "diary")
    token_ids = tokenizer.encode(diary.messages[-1]["content"])
    again = tokenizer.encode("\n\nThe same text again:\n\n")
    # Each text starts at another place of the diary.
    starts = (i * (len(token_ids) - TEXT_LEN) // number for i in range(number))
    texts = [token_ids[start : start + TEXT_LEN] for start in starts]
    return [BenchRequest([*text, *again, *text[:BEGUN_LEN]], num_tokens) for text in texts]


def _engines(
    args: argparse.Namespace, drafts: dict[str, Any], stack: ExitStack
) -> list[rounds.MinivllmEngine | rounds.PeerProcess]:
    """Return minivllm without drafts and with them; with `--vs`, the same of vLLM."""
    length = 2 * TEXT_LEN + args.output_len
    common = {"max_model_len": length, "max_num_seqs": MAX_NUM_SEQS, "enable_prefix_caching": False}
    peers = []
    for config in (None, drafts) if args.vs else ():
        settings = {
            "model": str(resolve_for_transformers(args.model)), "dtype": args.dtype,
            "num_threads": args.num_threads, "speculative_config": config, **common,
        }  # fmt: skip
        peers.append(stack.enter_context(rounds.PeerProcess("vllm", args.peer_python, settings)))
    common["num_gpu_blocks_override"] = MAX_NUM_SEQS * -(-length // EngineConfig().block_size)
    common["enforce_eager"] = args.enforce_eager
    ours = (
        rounds.MinivllmEngine(args.model, args.dtype, speculative_config=config, **common)
        for config in (None, SpeculativeConfig.of(drafts))
    )
    return [*ours, *peers]


def measure(args: argparse.Namespace) -> Report:
    if (args.vs is None) != (args.peer_python is None):
        raise BenchError(
            "--vs vllm and --peer-python PATH belong together: PATH is the Python of an environment"
            " with vLLM."
        )
    drafts = {
        "method": "ngram", "prompt_lookup_max": 5, "prompt_lookup_min": 2,
        "num_speculative_tokens": args.num_speculative_tokens,
    }  # fmt: skip
    with ExitStack() as stack, progress_bar() as progress:
        engines = _engines(args, drafts, stack)
        plain, drafted = (engine.llm.llm_engine for engine in engines[:2])
        results = []
        for name, number, goal in WORKLOADS:
            requests = make_requests(name, number, plain.tokenizer, args.output_len)
            before = drafted.inspect().counters.spec_decode_num_accepted_tokens
            label, settle_s = f"{name}, {number}", rounds.SETTLE_S if args.vs else 0.0
            same = [requests] * (1 + args.rounds)
            sides = rounds.measure_rounds(engines, same, progress, label, settle_s)
            right = drafted.inspect().counters.spec_decode_num_accepted_tokens - before
            if sides[0].outputs != sides[1].outputs:
                raise BenchError("minivllm wrote other tokens with drafts than without.")
            in_warm_up = min(args.output_len, rounds.WARM_UP_TOKENS)
            written = number * (args.rounds * args.output_len + in_warm_up)
            found = {"workload": name, "requests": number, "goal": goal}
            found["tokens_per_step"] = written / (written - right)
            found["engines"] = [
                {
                    **side.figures,
                    "name": f"{side.name}{', drafts' * (index % 2)}",
                    # To the same engine without drafts.
                    "ratio": side.ratio(sides[index - index % 2]),
                    "identical_sequences": side.identical(sides[0]),
                }
                for index, side in enumerate(sides)
            ]
            results.append(found)
    versions = [peer.versions for peer in engines[2:]]
    return _report(args, {"speculative_config": drafts, "results": results, "peers": versions})


def add_arguments(add: Callable[..., None]) -> None:
    count = {"type": positive_int}
    add("--rounds N", "how often each workload runs on each side", default=5, **count)
    add("--output-len N", "tokens that each request writes", default=120, **count)
    add("--num-speculative-tokens N", "most drafts of a sequence in one step", default=8, **count)
    add_model_arguments(add)
    add("--enforce-eager", "on a GPU: no CUDA graphs")
    add("--vs", "also measure this peer, in turns", choices=("vllm",))
    add("--peer-python PATH", "the Python of an environment with vLLM, for --vs")


def _report(args: argparse.Namespace, result: dict[str, Any]) -> Report:
    rows = []
    for found in result["results"]:
        for index, engine in enumerate(found["engines"]):
            ratio, steps = f"{engine['ratio']:.2f}", ""
            if index == 1:  # minivllm with drafts
                ratio, steps = f"{ratio} (goal: {found['goal']})", f"{found['tokens_per_step']:.2f}"
            speed, same = f"{engine['tokens_per_s']:.1f}", f"{engine['identical_sequences']:.0%}"
            name = f"{found['workload']}, {found['requests']}"
            rows.append((name, engine["name"], speed, ratio, steps, same))
    columns = ("requests", "engine", "tokens/s", "ratio to plain", "tokens/step", "same outputs")
    notes = [
        "Drafts by prompt lookup; minivllm wrote the same tokens with them and without.",
        "Each ratio is the median over rounds in which the sides run one after the other.",
    ]
    title = f"Speculative decoding, {args.model} in {args.dtype}, {args.num_threads} threads"
    return Report(title, columns, rows, notes, result)
