"""Traffic drawn from a seed: who asks when, with how long a prompt, for how long an answer.

    chats       12 to 40 tokens, priority 0: somebody waits; half of them share a system prompt
    documents   100 to 200 tokens, priority 1: nobody waits; one in six requests

They come in bursts, and on average a little faster than the engine can serve them. No policy can
know the length of an answer: `max_tokens` is the same for all, and an answer ends before.
"""

from random import Random
from typing import NamedTuple

from minivllm.lessons.checker.cases.toy import EOS

NUM_REQUESTS = 72
MAX_TOKENS = 64
SHARED_TOKENS = 16
_FIRST_OWN = SHARED_TOKENS + 1
_NUM_LETTERS = EOS - _FIRST_OWN


class PolicyRequest(NamedTuple):
    arrives: float
    """Seconds from the start."""
    prompt_token_ids: list[int]
    num_output_tokens: int
    priority: int


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
    return [_FIRST_OWN + random.randrange(_NUM_LETTERS) for _ in range(count)]
