"""Faults at one call in twenty, in model, sampler and tokenizer: only affected requests fail."""

import random

import pytest
from support.engine.engine_fakes import FakeTokenizer, WatchedEngine

from minivllm.core.request import Sequence
from minivllm.errors import SamplingError
from minivllm.events import types as ev
from minivllm.outputs import SampledToken
from minivllm.sampling_params import RequestOutputKind

NUM_REQUESTS = 24
KINDS = [
    {}, {"n": 3}, {"n": 2, "best_of": 3, "logprobs": 2}, {"n": 3, "use_beam_search": True},
    {"stop": ["a", "Zz"], "logprobs": 1},
    {"output_kind": RequestOutputKind.DELTA, "min_tokens": 3},
]  # fmt: skip


class Dice(FakeTokenizer):
    """Hooks of a model, and a tokenizer, that raise at one call in twenty, once armed."""

    def __init__(self, seed: int, rate: float) -> None:
        super().__init__()
        self._random, self._rate = random.Random(seed), rate
        self.num_thrown = 0

    def throws(self) -> bool:
        self.num_thrown += (thrown := self._random.random() < self._rate)
        return thrown

    def throw(self, *_: object) -> None:
        if self.throws():
            raise RuntimeError("a bug at /home/somebody/code.py")

    def decode(self, *args: object, **options: object) -> str:
        self.throw()
        return super().decode(*args, **options)

    def is_silent(self, *args: object) -> bool:
        self.throw()
        return super().is_silent(*args)


def storm(seed: int, rate: float, num_blocks: int) -> tuple[WatchedEngine, set[str], Dice]:
    """Run the requests of a seed, the same for every rate; also return the aborted ones."""
    dice, plan = Dice(seed, rate), random.Random(1000 + seed)
    engine = WatchedEngine(num_blocks=num_blocks)

    def draw(sequence: Sequence) -> SampledToken | SamplingError:
        if dice.throws():
            return SamplingError("It has NaN.", sequence.seq_id)
        return engine.runner.sample(sequence)

    engine.runner.before = engine.runner.after = dice.throw
    engine.runner.draw = draw
    engine.engine.core.output_processor.decoder = dice
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
            return engine, aborted, dice
        engine.step_phase()
    raise AssertionError("still unfinished")


def all_tokens(engine: WatchedEngine, name: str) -> list:
    """Tokens of a request that ended well, from its events, because outputs may be deltas."""
    prefix = f"{name}."  # `block.hashed` may have no sequence
    own = [event for event in engine.events if str(getattr(event, "seq_id", "")).startswith(prefix)]
    found = [event.texts for event in own if isinstance(event, ev.BeamsFound)]
    tokens = [(e.seq_id, e.token_id, e.text) for e in own if isinstance(e, ev.TokenSampled)]
    return found or sorted(tokens, key=lambda entry: entry[0])


@pytest.mark.parametrize(("seed", "num_blocks"), [(0, 30), (1, 100), (2, 30)])
def test_in_a_storm_only_affected_requests_fail_and_the_others_get_their_tokens(seed, num_blocks):
    calm, left, _ = storm(seed, 0.0, num_blocks)
    engine, aborted, dice = storm(seed, 0.05, num_blocks)
    assert aborted == left
    failed = {name for name, output in engine.outputs.items() if output.error is not None}
    assert dice.num_thrown > 10 and 0 < len(failed) < NUM_REQUESTS
    for name in {f"r{i}" for i in range(NUM_REQUESTS)} - failed - aborted:
        assert all_tokens(engine, name) == all_tokens(calm, name)
    for output in engine.outputs.values():
        assert output.error is None or (len(output.error) < 200 and "/" not in output.error)
    assert engine.pool.num_free_blocks == num_blocks
    assert engine.engine.core.output_processor._outputs == {}
    assert engine.engine.core.output_processor._beams_found == {}
    beams = engine.engine.core.beams
    assert beams._searches == beams._candidates == {}
