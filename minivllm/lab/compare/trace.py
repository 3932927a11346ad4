"""Traces: the same requests in the same order for both sides of a comparison.

A trace is one of the demo's scenarios, or requests with random lengths that all arrive at the
start. Every request generates `max_tokens` tokens, so that neither side wins with shorter answers.
A request arrives at a *step* of its wave, because step times differ between models. With random
lengths, `max_model_len` is longer than any request: a server cannot know lengths in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from minivllm.errors import ConfigError
from minivllm.lessons.scenarios.scenarios import SCENARIOS, Scenario
from minivllm.sampling_params import RequestOutputKind, SamplingParams

if TYPE_CHECKING:
    from minivllm.runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request; it arrives `after_steps` steps after the start of its wave."""

    request_id: str
    prompt_token_ids: list[int]
    params: SamplingParams
    after_steps: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests, and options of the engine that serves them."""

    name: str
    options: Mapping[str, object]
    """`EngineConfig` fields, with `max_model_len` and `max_num_batched_tokens` always set."""
    waves: tuple[tuple[TraceRequest, ...], ...]
    """A wave starts when all requests of the previous wave have ended."""

    @property
    def requests(self) -> list[TraceRequest]:
        return [request for wave in self.waves for request in wave]


def _halves(rng: Random) -> tuple[int, int]:
    total = rng.randint(64, 1024)
    return total // 2, total - total // 2


LENGTHS: dict[str, tuple[int, Callable[[Random], tuple[int, int]]]] = {
    "lengths-64-1024": (48, _halves),
    "lengths-8-256": (96, lambda rng: (rng.randint(8, 256), rng.randint(8, 256))),
}
"""Name -> number of requests, and how to draw the tokens of a prompt and of its output."""
_OPTIONS = {
    # Today's small models allow this length; so do `tiny-random` and the OPT models of the paper.
    "max_model_len": 2048,
    # 576 blocks of 16 tokens hold four and a half sequences of this length.
    "num_gpu_blocks_override": 576,
    "max_num_seqs": 64,
    "max_num_batched_tokens": 512,
}
TRACE_NAMES = (*LENGTHS, *SCENARIOS)


def make_trace(name: str, tokenizer: Tokenizer, seed: int) -> Trace:
    if name in LENGTHS:
        return _trace_of_lengths(name, tokenizer.vocab_size, seed)
    if name in SCENARIOS:
        return _trace_of_scenario(SCENARIOS[name], tokenizer)
    raise ConfigError(f"There is no scenario {name!r}: use one of {', '.join(TRACE_NAMES)}.")


def _trace_of_lengths(name: str, vocab_size: int, seed: int) -> Trace:
    rng = Random(f"{name}/{seed}")
    num_requests, draw = LENGTHS[name]
    wave = []
    for number in range(num_requests):
        prompt_len, output_len = draw(rng)
        # Random tokens, so that no two requests share a prefix.
        prompt = [rng.randrange(vocab_size) for _ in range(prompt_len)]
        params = _to_the_end(SamplingParams(temperature=0, max_tokens=output_len))
        wave.append(TraceRequest(f"r{number}", prompt, params))
    return Trace(name, _OPTIONS, (tuple(wave),))


def _trace_of_scenario(scenario: Scenario, tokenizer: Tokenizer) -> Trace:
    waves = tuple(
        tuple(
            TraceRequest(
                arrival.request_id,
                tokenizer.apply_chat_template(list(arrival.messages)),
                _to_the_end(arrival.params),
                arrival.after_steps,
            )
            for arrival in wave
        )
        for wave in scenario.waves
    )
    return Trace(scenario.name, scenario.options, waves)


def _to_the_end(params: SamplingParams) -> SamplingParams:
    # A grammar says where an output may end, so it contradicts ignore_eos.
    ignore_eos = params.structured_outputs is None
    return replace(params, ignore_eos=ignore_eos, output_kind=RequestOutputKind.FINAL_ONLY)
