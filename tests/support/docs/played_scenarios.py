"""Plays a scenario on the real engine.

After every step it checks all invariants and compares the fold of the events with the engine.
"""

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events.types import Event, StepScheduled
from minivllm.lessons.scenarios.facts import RunFacts
from minivllm.lessons.scenarios.house import QUICK, for_the_house_model
from minivllm.lessons.scenarios.player import ScenarioPlayer
from minivllm.lessons.scenarios.scenario import Scenario, ScenarioRequest
from minivllm.outputs import RequestOutput
from minivllm.runtime.text.tokenizer import Tokenizer
from support.engine.engine_fakes import FakeRunner

MODELS = ("house", "smollm2-tokens")
"""The house model, and a fake (instant) model with SmolLM2's tokenizer."""


@dataclass
class Played:
    scenario: Scenario
    """As the model plays it."""
    engine: LLMEngine
    facts: RunFacts
    events: list[Event] = field(default_factory=list)
    outputs: dict[str, RequestOutput] = field(default_factory=dict)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if type(event) is kind]

    def steps(self) -> dict[int, list[StepScheduled]]:
        steps: dict[int, list[StepScheduled]] = {}
        for event in self.of(StepScheduled):
            steps.setdefault(event.step, []).append(event)
        return steps


@cache
def _tokenizer(directory: Path) -> Tokenizer:
    return Tokenizer.from_directory(directory)


def _without_grammars(scenario: Scenario) -> Scenario:
    """The fake model does not look at masks, and its tokens would fit no grammar."""

    def plain(request: ScenarioRequest) -> ScenarioRequest:
        return replace(request, params=replace(request.params, structured_outputs=None))

    return replace(scenario, waves=tuple(tuple(map(plain, wave)) for wave in scenario.waves))


def play(scenario: Scenario, model: str, smollm2_path: Path | None, **options: object) -> Played:
    if model == "house":
        scenario = for_the_house_model(scenario)
    config = EngineConfig(
        **{**scenario.options, **QUICK, "model": "house", "check_invariants": True, **options}
    )
    if model == "house":
        engine = LLMEngine.from_config(config, clock=VirtualClock())
    else:
        scenario = _without_grammars(scenario)
        tokenizer = _tokenizer(smollm2_path)
        runner = FakeRunner(
            config.num_gpu_blocks_override,
            config.block_size,
            config.max_model_len,
            tokenizer.vocab_size,
        )
        engine = LLMEngine(config, runner, tokenizer, clock=VirtualClock())
    played = Played(scenario, engine, RunFacts(engine.log_header()))
    engine.subscribe(played.events.append)
    engine.subscribe(played.facts.apply)
    player = ScenarioPlayer(scenario, engine)
    for _ in range(2_000):
        player.before_step()
        if player.over:
            return played
        for output in engine.step():
            played.outputs[output.request_id] = output
        assert played.facts.fold.state == engine.inspect()
    raise AssertionError(f"{scenario.name} does not end")
