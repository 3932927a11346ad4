"""Traces: the same requests, in the same order, for both sides of a comparison.

A trace is either one of the demo's scenarios, or a set of requests whose lengths are drawn from a
range, which all wait at the door from the beginning (so that memory and batching, and not the
arrivals, decide how fast it goes). Whatever it is, every request runs to its `max_tokens`:
end-of-sequence is ignored, or a side could win by answering less. A request arrives at a *step* of
its wave, as in the scenarios, since a second means something else to every model.

The easy thing to get wrong is `max_model_len`. A server cannot know how long its requests will be,
so here it is what a server would have to allow, and not the longest of the requests that we happen
to have drawn.
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
    """What a trace asks of the model's tokenizer."""

    vocab_size: int

    def apply_chat_template(self, messages: list[dict[str, str]]) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request; it arrives `after_steps` steps after its wave began."""

    request_id: str
    prompt_token_ids: list[int]
    params: SamplingParams
    after_steps: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests, and the engine that they are sent to."""

    name: str
    options: Mapping[str, object]
    """`EngineConfig` fields; `max_model_len` and `max_num_batched_tokens` are among them."""
    waves: tuple[tuple[TraceRequest, ...], ...]
    """A wave begins when all requests of the wave before it have ended."""

    @property
    def requests(self) -> list[TraceRequest]:
        return [request for wave in self.waves for request in wave]


@dataclass(frozen=True, slots=True)
class Lengths:
    """A trace whose lengths are drawn; all in tokens, lowest and highest, both included."""

    name: str
    num_requests: int
    prompt_len: tuple[int, int] | None
    output_len: tuple[int, int] | None
    total_len: tuple[int, int] | None
    """In place of the two: prompt and output together, half of it prompt."""
    max_num_seqs: int

    def draw(self, rng: Random) -> tuple[int, int]:
        """Prompt and output length of one request."""
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
"""What a small model of today at least allows; `tiny-random`'s own limit, and that of the paper's
OPT.
"""
_NUM_BLOCKS = 576
"""9,216 tokens at 16 a block: room for four sequences of the longest kind, and half a one over."""

TRACE_NAMES = (*LENGTHS, *SCENARIOS)


def make_trace(name: str, tokenizer: ChatTokenizer, seed: int) -> Trace:
    """The trace of a name; the same arguments give the same trace everywhere."""
    if name in LENGTHS:
        return _trace_of_lengths(LENGTHS[name], tokenizer.vocab_size, seed)
    if name in SCENARIOS:
        return _trace_of_scenario(SCENARIOS[name], tokenizer)
    raise ConfigError(f"There is no scenario {name!r}: take one of {', '.join(TRACE_NAMES)}.")


def _trace_of_lengths(lengths: Lengths, vocab_size: int, seed: int) -> Trace:
    rng = Random(f"{lengths.name}/{seed}")
    wave = []
    for number in range(lengths.num_requests):
        prompt_len, output_len = lengths.draw(rng)
        # Random tokens: no two prompts begin alike, so nothing is shared by chance.
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
    return replace(params, ignore_eos=True, output_kind=RequestOutputKind.FINAL_ONLY)
