"""Serves traffic with the real engine and scripted tokens, on a clock whose steps cost time.

A step takes a constant time, for reading the weights, and some time for each token. So a long chunk
of a prompt makes all others in the batch wait for their next token, as on a real device.
"""

from collections.abc import Sequence as Seq
from functools import partial

import msgspec

from minivllm.clock import SimulatedClock
from minivllm.config import EngineConfig
from minivllm.core.admission import RequestQueue
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.lessons.checker.cases.toy import EOS, ToyTokenizer
from minivllm.lessons.checker.policy.traffic import MAX_TOKENS, PolicyRequest
from minivllm.lessons.scenarios.scripted import ScriptedRunner, serve
from minivllm.sampling_params import SamplingParams

SECONDS_PER_STEP, SECONDS_PER_TOKEN = 0.020, 0.0005
NUM_BLOCKS, MAX_MODEL_LEN = 44, 256
MAX_STEPS = 4000
CONFIG = EngineConfig(
    model="toy",
    block_size=8,
    max_num_seqs=8,
    max_num_batched_tokens=64,
    enable_prefix_caching=True,
    scheduling_policy="priority",  # which allows requests to have a priority
)


class Served(msgspec.Struct):
    """What happened to one request."""

    priority: int
    num_prompt_tokens: int
    arrived: float
    times: list[float] = []
    """When its tokens came, in seconds."""

    @property
    def time_to_first_token(self) -> float:
        return self.times[0] - self.arrived


def play_traffic(requests: Seq[PolicyRequest], waiting: RequestQueue) -> list[Served]:
    """Serve all requests, in order of arrival."""
    clock = SimulatedClock()
    served: dict[str, Served] = {}
    lengths = {f"r{number}": one.num_output_tokens for number, one in enumerate(requests)}

    def next_token(sequence: Sequence) -> int:
        """Ends each answer at its length, which the scheduler cannot know."""
        is_last = sequence.num_output_tokens + 1 == lengths[sequence.request.request_id]
        return EOS if is_last else 1

    def spend(plan: SchedulerOutput) -> None:
        seconds = SECONDS_PER_STEP + plan.total_num_scheduled_tokens * SECONDS_PER_TOKEN
        clock.advance_to(clock.now() + seconds)

    def note(event: ev.Event) -> None:
        if isinstance(event, ev.TokenSampled):
            served[event.seq_id].times.append(event.t)

    runner = ScriptedRunner(NUM_BLOCKS, MAX_MODEL_LEN, next_token, spend)
    engine = LLMEngine(CONFIG, runner, ToyTokenizer(), clock=clock, waiting=waiting)
    engine.subscribe(note)

    def arrive(request_id: str, one: PolicyRequest) -> None:
        served[f"{request_id}.0"] = Served(one.priority, len(one.prompt_token_ids), one.arrives)
        params = SamplingParams(temperature=0, max_tokens=MAX_TOKENS)
        prompt = {"prompt_token_ids": one.prompt_token_ids}
        engine.add_request(request_id, prompt, params, one.priority)

    arrivals = [
        (one.arrives, partial(arrive, request_id, one))
        for request_id, one in zip(lengths, requests, strict=True)
    ]
    serve(engine, clock, arrivals, MAX_STEPS)
    return list(served.values())


def guarded(policy: RequestQueue) -> RequestQueue:
    """The policy, whose `choose_victim` now raises `ValueError` if it breaks the scheduler.

    A victim must be running, and the list of running sequences is the scheduler's own.
    """
    choose = policy.choose_victim

    def choose_victim(running: list[Sequence]) -> Sequence:
        before = list(running)
        victim = choose(running)
        if running != before:
            raise ValueError("choose_victim changes `running`, the scheduler's own list")
        if not any(victim is one for one in before):
            raise ValueError("choose_victim returns something that is not in `running`")
        return victim

    policy.choose_victim = choose_victim
    return policy
