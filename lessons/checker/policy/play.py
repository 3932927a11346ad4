"""Draws traffic from a seed, and serves it with the real engine on a clock whose steps cost time.

    chats       12 to 40 tokens, priority 0: somebody waits; half of them share a system prompt
    documents   100 to 200 tokens, priority 1: nobody waits; one in six requests

Requests come in bursts, and on average a little faster than the engine can serve them. Nobody knows
the length of an answer: `max_tokens` is the same for all, and an answer ends before. A step takes a
constant time, for reading the weights, and some time for each token.
"""

from functools import partial
from random import Random
from typing import NamedTuple

import msgspec

from minivllm.clock import SimulatedClock
from minivllm.config import EngineConfig
from minivllm.core.admission import RequestQueue
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.lessons.checker.cases.toy import EOS, ToyTokenizer
from minivllm.lessons.scenarios.scripted import ScriptedRunner, serve
from minivllm.sampling_params import SamplingParams

NUM_REQUESTS, MAX_TOKENS, SHARED_TOKENS = 72, 64, 16
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


class PolicyRequest(NamedTuple):
    arrives: float
    """Seconds from the start."""
    prompt_token_ids: list[int]
    num_output_tokens: int
    priority: int


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


def play_traffic(requests: list[PolicyRequest], waiting: RequestQueue) -> list[Served]:
    """Serve all requests, in order of arrival."""
    clock = SimulatedClock()
    served: dict[str, Served] = {}
    by_id = {f"r{number}": one for number, one in enumerate(requests)}

    def next_token(sequence: Sequence) -> int:
        """Ends each answer at its length, which the scheduler cannot know."""
        length = by_id[sequence.request.request_id].num_output_tokens
        return EOS if sequence.num_output_tokens + 1 == length else 1

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

    arrivals = [(one.arrives, partial(arrive, name, one)) for name, one in by_id.items()]
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


# ---- the traffic ----


def draw_traffic(seed: int) -> list[PolicyRequest]:
    """Draw requests, in order of arrival."""
    random = Random(f"traffic/{seed}")
    now, requests = 0.0, []
    while len(requests) < NUM_REQUESTS:
        now += random.expovariate(3.0)
        for _ in range(random.randint(1, 7)):
            draw = _document if random.random() < 1 / 6 else _chat
            requests.append(draw(random, now))
            now += random.expovariate(50.0)
    return requests[:NUM_REQUESTS]


def _chat(random: Random, now: float) -> PolicyRequest:
    shared = list(range(1, SHARED_TOKENS + 1)) if random.random() < 0.5 else []
    own = _own_tokens(random, random.randint(12, 40) - len(shared) // 2)
    return PolicyRequest(now, shared + own, random.randint(6, 40), 0)


def _document(random: Random, now: float) -> PolicyRequest:
    own = _own_tokens(random, random.randint(100, 200))
    return PolicyRequest(now, own, random.randint(4, 24), 1)


def _own_tokens(random: Random, count: int) -> list[int]:
    first = SHARED_TOKENS + 1
    return [first + random.randrange(EOS - first) for _ in range(count)]
