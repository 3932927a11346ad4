"""The answer is the whole text."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache, TinyModel, next_token

HINT = "The user knows the prompt. Which tokens are new?"


def generate_without_cache(model: TinyModel, prompt: Seq[int], max_tokens: int) -> list[int]:
    token_ids = list(prompt)
    for _ in range(max_tokens):
        token_ids.append(next_token(model, token_ids, TinyKVCache()))
    return token_ids
