"""The requests of the soak test: an endless sequence, the same for the server and for the offline
engine.

Prompts are drawn at random, so that none finds another's blocks in the prefix cache, and all
lengths differ, so that requests come and go at every step. They differ in kind, too: token ids,
texts and chats, two samples, log-probabilities.
"""

import random
from dataclasses import dataclass

_FIRST_TOKEN, _LAST_TOKEN = 10, 250
"""Every vocabulary that we know has ordinary tokens there."""


@dataclass(frozen=True, slots=True)
class SoakRequest:
    """A prompt, as token ids, as a text or as what a user says in a chat, and what is asked for."""

    prompt: list[int] | str
    is_chat: bool
    n: int
    logprobs: int | None
    max_tokens: int
    """Of each of the `n` answers, which are all of that length."""

    @property
    def num_output_tokens(self) -> int:
        return self.n * self.max_tokens

    @property
    def messages(self) -> list[dict[str, str]]:
        return [{"role": "user", "content": self.prompt}]


def request(number: int) -> SoakRequest:
    """The request of that number: of five, one of each kind."""
    draw = random.Random(number)
    prompt = [draw.randint(_FIRST_TOKEN, _LAST_TOKEN) for _ in range(draw.randint(8, 48))]
    kind = ("ids", "text", "chat", "two", "logprobs")[number % 5]
    return SoakRequest(
        # Never more tokens than characters.
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
