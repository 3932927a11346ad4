"""The requests of the soak test: an endless sequence, the same for server and offline engine.

Prompts are random, so that there are no prefix cache hits. Lengths are random, so that requests
start and end at every step.
"""

import random
from dataclasses import dataclass

_FIRST_TOKEN, _LAST_TOKEN = 10, 250
"""Ids in this range are ordinary tokens in every known vocabulary."""


@dataclass(frozen=True, slots=True)
class SoakRequest:
    """A prompt (token ids, text or chat message) and its sampling parameters."""

    prompt: list[int] | str
    is_chat: bool
    n: int
    logprobs: int | None
    max_tokens: int

    @property
    def num_output_tokens(self) -> int:
        return self.n * self.max_tokens

    @property
    def messages(self) -> list[dict[str, str]]:
        return [{"role": "user", "content": self.prompt}]


def make_request(number: int) -> SoakRequest:
    """Return request `number`. Five consecutive requests are of five different kinds."""
    draw = random.Random(number)
    prompt = [draw.randint(_FIRST_TOKEN, _LAST_TOKEN) for _ in range(draw.randint(8, 48))]
    kind = ("ids", "text", "chat", "two", "logprobs")[number % 5]
    return SoakRequest(
        # A text never has more tokens than characters.
        prompt=(
            "".join(draw.choices("abcdefgh ", k=len(prompt)))
            if kind in ("text", "chat")
            else prompt
        ),
        is_chat=kind == "chat",
        n=2 if kind == "two" else 1,
        logprobs=3 if kind == "logprobs" else None,
        max_tokens=draw.randint(16, 64),
    )
