"""The requests of the soak test: an endless sequence, the same for the server and for the offline engine.

Prompts are drawn at random, so that none finds another's blocks in the prefix cache, and all lengths differ, so that
requests come and go at every step.
"""

import random
from dataclasses import dataclass

_FIRST_TOKEN, _LAST_TOKEN = 10, 250
"""Every vocabulary that we know has ordinary tokens there."""


@dataclass(frozen=True, slots=True)
class SoakRequest:
    """A prompt, and how long its answer is."""

    prompt: list[int]
    max_tokens: int


def request(number: int) -> SoakRequest:
    """The request of that number."""
    draw = random.Random(number)
    prompt = [draw.randint(_FIRST_TOKEN, _LAST_TOKEN) for _ in range(draw.randint(8, 48))]
    return SoakRequest(prompt, draw.randint(16, 64))
