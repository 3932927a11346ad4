"""Plays a scenario on the real engine, with all invariants checked.

After every step it compares the fold of the events with the engine.
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
from minivllm.lessons.scenarios.scenario import Scenario
from minivllm.outputs import RequestOutput
from minivllm.runtime.text.tokenizer import Tokenizer
from support.engine.engine_fakes import FakeRunner
from support.engine.fake_host import FakeHost

_tokenizer = cache(Tokenizer.from_directory)
MODELS = ("house", "smollm2-tokens")
"""The house model, and a fake (instant) model with SmolLM2's tokenizer."""


@dataclass
class Played:
    scenario: Scenario  # As the model plays it.
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


def _without_grammars(scenario: Scenario) -> Scenario:
    """The fake model does not look at masks, and its tokens would fit no grammar."""
    waves = (
        tuple(replace(ask, params=replace(ask.params, structured_outputs=None)) for ask in wave)
        for wave in scenario.waves
    )
    return replace(scenario, waves=tuple(waves))


def play(scenario: Scenario, model: str, smollm2_path: Path | None, **options: object) -> Played:
    if model == "house":
        scenario = for_the_house_model(scenario)
    options = {**scenario.options, **QUICK, "model": "house", "check_invariants": True, **options}
    config, clock = EngineConfig(**options), VirtualClock()
    if model == "house":
        engine = LLMEngine.from_config(config, clock=clock)
    else:
        scenario, tokenizer = _without_grammars(scenario), _tokenizer(smollm2_path)
        sizes = (config.num_gpu_blocks_override, config.block_size, config.max_model_len)
        runner = FakeRunner(*sizes, tokenizer.vocab_size)
        engine = LLMEngine(config, runner, tokenizer, clock=clock)
        if (connector := engine.core.scheduler.connector) is not None:
            connector._copier = FakeHost(runner, delay=lambda: 3)
    played = Played(scenario, RunFacts(engine.log_header()))
    engine.subscribe(played.events.append)
    engine.subscribe(played.facts.apply)
    player = ScenarioPlayer(scenario, engine)
    for _ in range(2_000):
        player.before_step()
        if player.over:
            return played
        played.outputs.update((output.request_id, output) for output in engine.step())
        assert played.facts.fold.state == engine.inspect()
    raise AssertionError(f"{scenario.name} does not end")
