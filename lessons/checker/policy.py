"""Judges a scheduling policy by what users notice, on traffic that nobody has seen before.

The traffic is drawn from a seed, and served with the real engine on a clock whose steps cost time:

    chats       12 to 40 tokens, priority 0: somebody waits; half of them share a system prompt
    documents   100 to 200 tokens, priority 1: nobody waits; one in six requests

The score is the geometric mean of five ratios to `fcfs` on the same traffic, each above 1 where the
policy is better. Twice as good in one figure and half as good in another is no gain.
"""

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from random import Random
from statistics import geometric_mean, mean
from typing import NamedTuple

from minivllm.clock import SimulatedClock
from minivllm.config import EngineConfig
from minivllm.core.admission import RequestQueue
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.engine import LLMEngine
from minivllm.lessons.checker.cases.toy import EOS, ToyTokenizer
from minivllm.lessons.scenarios.scripted import ScriptedRunner, serve
from minivllm.sampling_params import RequestOutputKind, SamplingParams
from minivllm.text import plural

NUM_REQUESTS, MAX_TOKENS, SHARED_TOKENS = 72, 64, 16
SECONDS_PER_STEP, SECONDS_PER_TOKEN = 0.020, 0.0005
NUM_BLOCKS, MAX_MODEL_LEN, MAX_STEPS = 44, 256, 4000
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


def play_traffic(requests: list[PolicyRequest], waiting: RequestQueue) -> list[list[float]]:
    """For each request, when its tokens came, in seconds."""
    clock = SimulatedClock()
    served: list[list[float]] = [[] for _ in requests]

    def next_token(sequence: Sequence) -> int:
        number = int(sequence.request.request_id)
        served[number].append(clock.now())
        return EOS if len(served[number]) == requests[number].num_output_tokens else 1

    def spend(plan: SchedulerOutput) -> None:
        seconds = SECONDS_PER_STEP + plan.total_num_scheduled_tokens * SECONDS_PER_TOKEN
        clock.advance_to(clock.now() + seconds)

    runner = ScriptedRunner(NUM_BLOCKS, MAX_MODEL_LEN, next_token, spend)
    engine = LLMEngine(CONFIG, runner, ToyTokenizer(), clock=clock, waiting=waiting)

    def arrive(number: int, request: PolicyRequest) -> None:
        kind = RequestOutputKind.FINAL_ONLY
        params = SamplingParams(temperature=0, max_tokens=MAX_TOKENS, output_kind=kind)
        prompt = {"prompt_token_ids": request.prompt_token_ids}
        engine.add_request(str(number), prompt, params, request.priority)

    arrivals = [(ask.arrives, partial(arrive, i, ask)) for i, ask in enumerate(requests)]
    serve(engine, clock, arrivals, MAX_STEPS)
    return served


def guarded(policy: RequestQueue) -> RequestQueue:
    """The policy, whose `choose_victim` now raises `ValueError` if it breaks the scheduler."""
    choose = policy.choose_victim

    def choose_victim(running: list[Sequence]) -> Sequence:
        before = list(running)
        victim = choose(running)
        if running != before:
            raise ValueError("choose_victim changes `running`, the scheduler's own list")
        if not any(victim is sequence for sequence in before):
            raise ValueError("choose_victim returns something that is not in `running`")
        return victim

    policy.choose_victim = choose_victim
    return policy


# ---- the traffic ----


def draw_traffic(seed: int) -> list[PolicyRequest]:
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


# ---- the score ----


PolicyFigures = tuple[float, ...]
"""One for each of `MEANINGS`. The first four are in seconds, and smaller is better."""
MEANINGS = (
    ("chats p50", "half of the people who chat read their first word within this time"),
    ("chats p99", "and all but the unluckiest within this one"),
    ("all p99", "with the documents: what those who can wait have to pay"),
    ("pause p90", "the longest gap within an answer: preempted answers stop for a while"),
    ("tokens/s", "the work that the engine gets done; recomputed tokens do not count"),
)


def figures_of(requests: list[PolicyRequest], served: list[list[float]]) -> PolicyFigures:
    """requests: in order of arrival; served: the times of at least one token for each"""
    pairs = list(zip(requests, served, strict=True))
    chats = [(request, times) for request, times in pairs if request.priority == 0]
    waits, chat_waits = ([times[0] - ask.arrives for ask, times in some] for some in (pairs, chats))
    pauses = [max(b - a for a, b in pairwise(times)) for _, times in chats if len(times) > 1]
    seconds = max(times[-1] for times in served) - requests[0].arrives
    tokens = sum(map(len, served)) / seconds
    percentiles = (chat_waits, 50), (chat_waits, 99), (waits, 99), (pauses, 90)
    return *(_percentile(*pair) for pair in percentiles), tokens


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[max(math.ceil(percent * len(values) / 100) - 1, 0)]


def ratios(figures: PolicyFigures, fcfs: PolicyFigures) -> list[float]:
    """How many times better each figure is."""
    *times, tokens = (ours / theirs for ours, theirs in zip(figures, fcfs, strict=True))
    return [*(1 / value for value in times), tokens]


def score_of(traces: list[PolicyFigures], fcfs: list[PolicyFigures]) -> float:
    """The geometric mean over the figures of all traces; `fcfs` itself has 1.0."""
    return geometric_mean(gain for pair in zip(traces, fcfs, strict=True) for gain in ratios(*pair))


def table(policies: dict[str, list[PolicyFigures]]) -> Iterator[str]:
    """A row for each policy, with the mean of its traces; `fcfs` must be one of them."""
    yield f"{'':<10}{''.join(f'{title:>11}' for title, _ in MEANINGS)}  score"
    for name, traces in policies.items():
        *seconds, tokens = map(mean, zip(*traces, strict=True))
        row = "".join(f"{value:>9.2f} s" for value in seconds)
        yield f"{name:<10}{row}{tokens:>11.1f}  {score_of(traces, policies['fcfs']):>5.2f}"


def weakest(traces: list[PolicyFigures], fcfs: list[PolicyFigures]) -> str:
    """One sentence about the figure that costs the most."""
    pairs = zip(traces, fcfs, strict=True)
    means = map(geometric_mean, zip(*(ratios(*pair) for pair in pairs), strict=True))
    least, (title, meaning) = min(zip(means, MEANINGS, strict=True))
    over = f"over {plural(len(traces), 'trace')} it is {least:.2f} times as good as with fcfs"
    return f"The weakest figure is {title} ({meaning}): {over}."
