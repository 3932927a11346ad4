"""`Scenario`: requests of a demo, when they arrive, and the options of its engine, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass

from minivllm.sampling_params import SamplingParams

Message = dict[str, str]
"""`{"role": "system" | "user" | "assistant", "content": text}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRequest:
    """One request, sent `after_steps` steps after the start of its wave."""

    request_id: str
    messages: tuple[Message, ...]
    params: SamplingParams
    after_steps: int = 0


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
