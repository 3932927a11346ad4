"""`Scenario`: requests of a demo, when they arrive, and its engine's options, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass

from minivllm.sampling_params import SamplingParams

Message = dict[str, str]
"""`{"role": "system" | "user" | "assistant", "content": text}`."""

PROMPT_LOOKUP: Mapping[str, object] = {
    "method": "ngram",
    "num_speculative_tokens": 4,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}
"""`speculative_config` of the scenarios with drafts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRequest:
    """One request, sent `after_steps` steps after the start of its wave."""

    request_id: str
    messages: tuple[Message, ...] = ()
    params: SamplingParams
    after_steps: int = 0
    prompt_token_ids: list[int] | None = None
    """The prompt in place of messages."""


def ask(
    request_id: str,
    question: str,
    max_tokens: int = 64,
    after_steps: int = 0,
    *,
    system: str | None = None,
    temperature: float = 0.0,
    **params: object,
) -> ScenarioRequest:
    """One user's question. It is greedy, so that every run writes the same text.

    params: other fields of `SamplingParams`
    """
    messages = ({"role": "user", "content": question},)
    if system is not None:
        messages = ({"role": "system", "content": system}, *messages)
    sampling = SamplingParams(temperature=temperature, max_tokens=max_tokens, **params)
    return ScenarioRequest(
        request_id=request_id, messages=messages, params=sampling, after_steps=after_steps
    )


def options(*, num_blocks: int, **more: object) -> Mapping[str, object]:
    """Engine options, with a short name for the number of blocks."""
    return {"num_gpu_blocks_override": num_blocks, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    teaches: str
    """The idea, in one sentence."""
    watch: str
    """What to look at while it runs, in one sentence."""
    options: Mapping[str, object]
    """`EngineConfig` fields that differ from their defaults."""
    waves: tuple[tuple[ScenarioRequest, ...], ...]
    """Requests in order of arrival. A wave starts when the previous one has ended."""
    sides: tuple[str, str] = ("static+contiguous", "continuous+paged")
    """What `compare` runs by default: names of configurations which differ in this scenario."""

    @property
    def arrivals(self) -> tuple[ScenarioRequest, ...]:
        return tuple(arrival for wave in self.waves for arrival in wave)
