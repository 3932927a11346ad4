"""The query has the position of the token that comes next."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache, TinyModel

HINT = "Whose query is it? It has the position of the last known token, counted from 0."


def next_token(model: TinyModel, token_ids: Seq[int], cache: TinyKVCache) -> int:
    cache.extend(model, token_ids)
    query = model.query(token_ids[-1], len(token_ids))
    return model.choose(model.attend(query, cache.keys, cache.values))
