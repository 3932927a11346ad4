"""Generation always keeps its keys and values."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyModel, generate_with_cache

HINT = "Without a cache, nothing is kept from one token to the next. What has a new cache?"


def generate_without_cache(model: TinyModel, prompt: Seq[int], max_tokens: int) -> list[int]:
    return generate_with_cache(model, prompt, max_tokens)
