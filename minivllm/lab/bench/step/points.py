"""Measures single steps of an engine as points, to which a model of step times is fitted.

The points cover all kinds of steps: only decodes at several contexts, only prompts, later chunks of
long prompts, and decodes together with a chunk. A step's context is the tokens *before* the step.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

from msgspec import Meta

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.sampling_params import SamplingParams

PROMPT_LENGTHS = (8, 32, 128, 256, 512, 900)
"""Of prompts that run one at a time. With the default budget, the longest need several steps."""
PROMPT_LENGTHS_IN_BATCHES = (8, 48)
NUM_DECODES = 6  # output tokens of each single prompt, and of each request in a batch


_Count = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class StepPoint:
    """msgspec checks the ranges in a file of measured steps."""

    num_scheduled_tokens: _Count
    num_decodes: _Count  # sequences that computed one token and sampled the next
    num_context_tokens: _Count  # computed before this step, summed over the step's sequences
    seconds: Annotated[float, Meta(gt=0, lt=1e9)]


def point_of(plan: SchedulerOutput, seconds: float) -> StepPoint:
    num_decodes = sum(item.kind == "decode" for item in plan.scheduled)
    num_context_tokens = sum(item.start for item in plan.scheduled)
    return StepPoint(plan.total_num_scheduled_tokens, num_decodes, num_context_tokens, seconds)


class RandomRequests:
    """Adds greedy requests with random prompts to an engine."""

    def __init__(self, engine: LLMEngine, seed: int) -> None:
        self._engine = engine
        self._random = Random(f"step/{seed}")
        self._added = 0

    def add(self, prompt_len: int, max_tokens: int) -> None:
        token_ids = self._random.choices(range(self._engine.tokenizer.vocab_size), k=prompt_len)
        params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
        self._engine.add_request(str(self._added), {"prompt_token_ids": token_ids}, params)
        self._added += 1


def in_turns(
    number: int, *ways: Callable[[], Any], before: Callable[[], object] = lambda: None
) -> list[tuple[Any, ...]]:
    """Call all ways in each of `number` rounds; return their results, in the order of `ways`.

    The order within a round is random: sequences start new blocks at fixed distances, which must
    not always coincide with the same way.
    """
    rng, rounds = Random(0), []
    for _ in range(number):
        results = {}
        for way in rng.sample(ways, len(ways)):
            before()
            results[way] = way()
        rounds.append(tuple(map(results.get, ways)))
    return rounds


def timed_step(engine: LLMEngine, now: Callable[[], float]) -> StepPoint:
    started = now()
    engine.step()
    return point_of(seconds=now() - started, plan=engine.core.last_plan)


def measure_points(
    engine: LLMEngine, requests: RandomRequests, now: Callable[[], float], batch_sizes: list[int]
) -> list[StepPoint]:
    """Measure steps of single prompts, of batches, and of prompts that join a decoding batch."""

    def to_the_end() -> Iterator[StepPoint]:
        while engine.has_unfinished_requests():
            yield timed_step(engine, now)

    points: list[StepPoint] = []
    longest = engine.max_model_len - NUM_DECODES - 1
    prompt_lengths = [length for length in PROMPT_LENGTHS if length <= longest]
    for length in prompt_lengths:
        requests.add(length, max_tokens=NUM_DECODES)
        points += to_the_end()
    for batch_size in batch_sizes:
        for length in PROMPT_LENGTHS_IN_BATCHES:
            for _ in range(batch_size):
                requests.add(length, max_tokens=NUM_DECODES)
            points += to_the_end()
    # The rest of the batch decodes while these prompts arrive one after another.
    for batch_size in {size for size in batch_sizes if size > 1}:
        for _ in range(batch_size - 1):
            requests.add(prompt_lengths[0], max_tokens=2 * len(prompt_lengths))
        points.append(timed_step(engine, now))
        for length in prompt_lengths:
            requests.add(length, max_tokens=1)
            points.append(timed_step(engine, now))
        points += to_the_end()
    return points
