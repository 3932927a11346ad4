"""`Scenario`: requests of a demo, when they arrive, and its engine's options, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from minivllm.sampling_params import SamplingParams

Message = dict[str, str]
"""`{"role": "system" | "user" | "assistant", "content": text}`."""

PROMPT_LOOKUP: Mapping[str, object] = MappingProxyType(
    {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_max": 4,
        "prompt_lookup_min": 2,
    }
)
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

    @property
    def arrivals(self) -> tuple[ScenarioRequest, ...]:
        return tuple(arrival for wave in self.waves for arrival in wave)
