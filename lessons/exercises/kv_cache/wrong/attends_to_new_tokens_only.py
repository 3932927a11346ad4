"""The last token attends to the tokens that were computed in this step."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache, TinyModel

HINT = "Why are old keys and values kept? The last token attends to the cached tokens, too."


def next_token(model: TinyModel, token_ids: Seq[int], cache: TinyKVCache) -> int:
    num_cached = len(cache)
    cache.extend(model, token_ids)
    query = model.query(token_ids[-1], len(token_ids) - 1)
    return model.choose(model.attend(query, cache.keys[num_cached:], cache.values[num_cached:]))
