"""Traces: the same requests in the same order for both sides of a comparison.

A trace is one of the demo's scenarios, or requests with random lengths that all arrive at the
start. Every request generates `max_tokens` tokens, so that neither side wins with shorter answers.
A request arrives at a *step* of its wave, because step times differ between models. With random
lengths, `max_model_len` is longer than any request: a server cannot know lengths in advance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType
from typing import Protocol

from minivllm.errors import ConfigError
from minivllm.lessons.scenarios.scenarios import SCENARIOS, Scenario
from minivllm.sampling_params import RequestOutputKind, SamplingParams


class ChatTokenizer(Protocol):
    """The parts of a tokenizer that a trace needs."""

    vocab_size: int

    def apply_chat_template(self, messages: list[dict[str, str]]) -> list[int]: ...


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


@dataclass(frozen=True, slots=True)
class Lengths:
    """A trace with random lengths. Each length is in tokens: (lowest, highest), both included."""

    name: str
    num_requests: int
    prompt_len: tuple[int, int] | None
    output_len: tuple[int, int] | None
    total_len: tuple[int, int] | None
    """Length of prompt plus output, half each. If set, the two lengths above are None."""
    max_num_seqs: int

    def draw(self, rng: Random) -> tuple[int, int]:
        if self.total_len is not None:
            total = rng.randint(*self.total_len)
            return total // 2, total - total // 2
        return rng.randint(*self.prompt_len), rng.randint(*self.output_len)


LENGTHS: Mapping[str, Lengths] = MappingProxyType(
    {
        "lengths-64-1024": Lengths("lengths-64-1024", 48, None, None, (64, 1024), max_num_seqs=64),
        "lengths-8-256": Lengths("lengths-8-256", 96, (8, 256), (8, 256), None, max_num_seqs=64),
    }
)
_MAX_MODEL_LEN = 2048
"""A limit that today's small models allow; so do `tiny-random` and the OPT models of the paper."""
_NUM_BLOCKS = 576
"""576 blocks of 16 tokens hold 9,216 tokens: four and a half sequences of `_MAX_MODEL_LEN`."""

TRACE_NAMES = (*LENGTHS, *SCENARIOS)


def make_trace(name: str, tokenizer: ChatTokenizer, seed: int) -> Trace:
    if name in LENGTHS:
        return _trace_of_lengths(LENGTHS[name], tokenizer.vocab_size, seed)
    if name in SCENARIOS:
        return _trace_of_scenario(SCENARIOS[name], tokenizer)
    raise ConfigError(f"There is no scenario {name!r}: use one of {', '.join(TRACE_NAMES)}.")


def _trace_of_lengths(lengths: Lengths, vocab_size: int, seed: int) -> Trace:
    rng = Random(f"{lengths.name}/{seed}")
    wave = []
    for number in range(lengths.num_requests):
        prompt_len, output_len = lengths.draw(rng)
        # Random tokens, so that no two requests share a prefix.
        prompt = [rng.randrange(vocab_size) for _ in range(prompt_len)]
        wave.append(
            TraceRequest(
                f"r{number}",
                prompt,
                _to_the_end(SamplingParams(temperature=0, max_tokens=output_len)),
            )
        )
    options = {
        "max_model_len": _MAX_MODEL_LEN,
        "num_gpu_blocks_override": _NUM_BLOCKS,
        "max_num_seqs": lengths.max_num_seqs,
        "max_num_batched_tokens": 512,
    }
    return Trace(lengths.name, options, (tuple(wave),))


def _trace_of_scenario(scenario: Scenario, tokenizer: ChatTokenizer) -> Trace:
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
