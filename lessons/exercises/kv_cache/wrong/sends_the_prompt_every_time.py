"""Without a cache, each step gets the prompt, and nothing of the answer."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache, TinyModel, next_token

HINT = "The second new token follows the first new token. Is that one in the text of the step?"


def generate_without_cache(model: TinyModel, prompt: Seq[int], max_tokens: int) -> list[int]:
    return [next_token(model, prompt, TinyKVCache()) for _ in range(max_tokens)]
