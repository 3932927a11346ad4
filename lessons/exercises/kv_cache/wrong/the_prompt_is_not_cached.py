"""The cache is for new tokens; the prompt stays out of it."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache, TinyModel, next_token

HINT = "The first new token attends to the prompt. May the second one forget it?"


def generate_with_cache(model: TinyModel, prompt: Seq[int], max_tokens: int) -> list[int]:
    output = [next_token(model, prompt, TinyKVCache())]
    cache = TinyKVCache()
    while len(output) < max_tokens:
        output.append(next_token(model, output, cache))
    return output
