"""A generation ends when all its tokens are in the cache."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache, TinyModel, next_token

HINT = "Who attends to the last new token? A key and a value that nobody reads are wasted work."


def generate_with_cache(model: TinyModel, prompt: Seq[int], max_tokens: int) -> list[int]:
    token_ids, cache = list(prompt), TinyKVCache()
    for _ in range(max_tokens):
        token_ids.append(next_token(model, token_ids, cache))
    cache.extend(model, token_ids)
    return token_ids[len(prompt) :]
