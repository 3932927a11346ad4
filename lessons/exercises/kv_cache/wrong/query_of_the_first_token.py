"""The text asks with its first token."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache, TinyModel

HINT = "The next token follows the last one. So whose query is compared with the keys?"


def next_token(model: TinyModel, token_ids: Seq[int], cache: TinyKVCache) -> int:
    cache.extend(model, token_ids)
    query = model.query(token_ids[0], 0)
    return model.choose(model.attend(query, cache.keys, cache.values))
