"""The last token looks back at the others, not at itself."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache, TinyModel

HINT = "In a text of one token, what would the token attend to? It also attends to itself."


def next_token(model: TinyModel, token_ids: Seq[int], cache: TinyKVCache) -> int:
    cache.extend(model, token_ids)
    query = model.query(token_ids[-1], len(token_ids) - 1)
    keys, values = cache.keys[:-1] or cache.keys, cache.values[:-1] or cache.values
    return model.choose(model.attend(query, keys, values))
