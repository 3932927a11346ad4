"""Faults at one call in twenty, in model, sampler and tokenizer: only affected requests fail."""

import random

import pytest
from support.engine.engine_fakes import FakeRunner, FakeTokenizer, WatchedEngine

from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import SamplingError
from minivllm.events import types as ev
from minivllm.outputs import SampledToken
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch
from minivllm.sampling_params import RequestOutputKind

RATE = 0.05
NUM_REQUESTS = 24
KINDS = [
    {},
    {"n": 3},
    {"n": 2, "best_of": 3, "logprobs": 2},
    {"n": 3, "use_beam_search": True},
    {"stop": ["a", "Zz"], "logprobs": 1},
    {"output_kind": RequestOutputKind.DELTA, "min_tokens": 3},
]


class Dice:
    """Raises at one call in twenty, once armed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.rate = 0.0
        self.num_thrown = 0

    def throws(self) -> bool:
        self.num_thrown += (thrown := self._random.random() < self.rate)
        return thrown

    def throw(self, where: str) -> None:
        if self.throws():
            raise RuntimeError(f"a bug of the {where} at /home/somebody/{where}.py")


class StormyRunner(FakeRunner):
    dice: Dice

    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        self.dice.throw("model")
        result = super().execute_model(plan, watch)
        self.dice.throw("model")
        return result

    def sample_tokens(
        self, sequences: list[Sequence], logits: None
    ) -> list[SampledToken | SamplingError]:
        return [
            SamplingError("It has NaN.", one.seq_id) if self.dice.throws() else self._sample(one)
            for one in sequences
        ]


class StormyTokenizer(FakeTokenizer):
    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        self._dice.throw("detokenizer")
        return super().decode(ids, skip_special_tokens)

    def is_silent(self, token_id: int, skip_special_tokens: bool) -> bool:
        self._dice.throw("detokenizer")
        return super().is_silent(token_id, skip_special_tokens)


def storm(seed: int, rate: float, num_blocks: int) -> tuple[WatchedEngine, set[str]]:
    """Run the requests of a seed, the same for every rate; also return the aborted ones."""
    dice, plan = Dice(seed), random.Random(1000 + seed)
    engine = WatchedEngine(num_blocks=num_blocks)
    engine.runner.__class__ = StormyRunner
    engine.runner.dice = dice
    tokenizer = StormyTokenizer(dice)
    engine.engine._stepper.output_processor.decoder = tokenizer
    dice.rate = rate
    aborted = set()
    for i in range(NUM_REQUESTS):
        shared = [7] * plan.choice([0, 4, 9])
        prompt = [*shared, *(plan.randrange(99) for _ in range(plan.randint(1, 20)))]
        engine.add(f"r{i}", prompt, max_tokens=plan.randint(4, 10), **KINDS[i % len(KINDS)])
        leaves, steps = plan.random() < 0.15, plan.randint(0, 3)
        for _ in range(steps):
            while engine.step_phase() is None:
                pass
        if leaves:
            aborted.add(f"r{i}")
            engine.engine.abort_request(f"r{i}")
            engine.compare()
    for _ in range(5000):
        if not engine.engine.has_unfinished_requests():
            return engine, aborted
        engine.step_phase()
    raise AssertionError("still unfinished")


def all_tokens(engine: WatchedEngine, name: str) -> list:
    """Tokens of a request that ended well, from its events, because outputs may be deltas."""
    found = [
        event for event in engine.events_of(ev.BeamsFound) if event.seq_id.startswith(f"{name}.")
    ]
    if found:
        return [one.texts for one in found]
    tokens: dict[str, list] = {}
    for event in engine.events_of(ev.TokenSampled):
        if event.seq_id.startswith(f"{name}."):
            tokens.setdefault(event.seq_id, []).append((event.token_id, event.text))
    return sorted(tokens.items())


@pytest.mark.parametrize(("seed", "num_blocks"), [(0, 30), (1, 100), (2, 30)])
def test_in_a_storm_only_affected_requests_fail_and_the_others_get_the_same_tokens(
    seed, num_blocks
):
    calm, left = storm(seed, 0.0, num_blocks)
    engine, aborted = storm(seed, RATE, num_blocks)
    assert aborted == left
    failed = {name for name, output in engine.outputs.items() if output.error is not None}
    assert engine.runner.dice.num_thrown > 10 and 0 < len(failed) < NUM_REQUESTS
    for name in {f"r{i}" for i in range(NUM_REQUESTS)} - failed - aborted:
        assert all_tokens(engine, name) == all_tokens(calm, name)
    for output in engine.outputs.values():
        assert output.error is None or (len(output.error) < 200 and "/" not in output.error)
    assert engine.pool.num_free_blocks == num_blocks
    assert engine.engine._stepper.output_processor._outputs == {}
    assert engine.engine._stepper.output_processor._beams_found == {}
    assert engine.engine._stepper.beams._searches == engine.engine._stepper.beams._candidates == {}
